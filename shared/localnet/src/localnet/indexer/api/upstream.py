"""Clients for other services: proofs from the prover, transactions and accounts from the node."""

import json
import logging
from typing import Any, Protocol

import aiohttp

from localnet.indexer.api.errors import internal
from localnet.indexer.api.shapes import Json

_log = logging.getLogger(__name__)

_PROVER_SECONDS = 120
_NODE_SECONDS = 30


class Prover(Protocol):
    """Source of proofs."""

    async def prove(self, request: Json) -> Any:
        """Return the proof as the prover's JSON; raise RpcError if there is none."""


class Node(Protocol):
    """The node of the network."""

    async def transaction(self, signature: str) -> Json | None:
        """Return the result of getTransaction with base64 encoding."""

    async def account(self, key: str) -> Json | None:
        """Return the value of getAccountInfo with base64 encoding."""

    async def slot(self) -> int:
        """Return the slot of the chain now."""


class HttpProver:
    """A prover at ``url``; one attempt for each proof, with a time limit."""

    def __init__(self, session: aiohttp.ClientSession, url: str, api_key: str | None = None) -> None:
        self._session = session
        self._url = url.rstrip("/") + "/prove"
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}

    async def prove(self, request: Json) -> Any:
        """Return the proof; raise RpcError with the reason: no answer, a refusal, or another answer."""
        timeout = aiohttp.ClientTimeout(total=_PROVER_SECONDS)
        try:
            async with self._session.post(self._url, json=request, headers=self._headers, timeout=timeout) as response:
                body = await response.read()
                status = response.status
        except TimeoutError:
            raise internal("the prover took too long") from None
        except aiohttp.ClientError as fault:
            _log.warning("the prover cannot be reached: %s", type(fault).__name__)
            raise internal("the prover cannot be reached") from None
        if status // 100 != 2:
            _log.warning("the prover refused a proof with status %d: %.500s", status, body.decode(errors="replace"))
            raise internal(f"the prover refused the proof with status {status}")
        try:
            return json.loads(body)
        except ValueError:
            raise internal("the answer of the prover is not a proof") from None


class HttpNode:
    """A node at a JSON-RPC ``url``."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def transaction(self, signature: str) -> Json | None:
        """Return the result of getTransaction with base64 encoding."""
        options = {"encoding": "base64", "maxSupportedTransactionVersion": 0, "commitment": "confirmed"}
        found: Json | None = await self._call("getTransaction", [signature, options])
        return found

    async def account(self, key: str) -> Json | None:
        """Return the value of getAccountInfo with base64 encoding."""
        answer = await self._call("getAccountInfo", [key, {"encoding": "base64", "commitment": "confirmed"}])
        value: Json | None = answer["value"]
        return value

    async def slot(self) -> int:
        """Return the slot of the chain now."""
        return int(await self._call("getSlot", [{"commitment": "confirmed"}]))

    async def _call(self, method: str, params: list[Any]) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        try:
            async with self._session.post(
                self._url, json=body, timeout=aiohttp.ClientTimeout(total=_NODE_SECONDS)
            ) as response:
                answer = await response.json()
            return answer["result"]
        except (TimeoutError, aiohttp.ClientError, ValueError, KeyError, TypeError):
            _log.warning("the node did not answer %s", method)
            raise internal("the node did not answer") from None
