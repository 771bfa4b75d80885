"""Dispatch of JSON-RPC requests to methods."""

import inspect
import logging
from collections.abc import Callable
from typing import Any

import msgspec

from localnet.chain.network import Network
from localnet.rpc.errors import INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, RpcError
from localnet.rpc.methods import accounts, blocks, cluster, harness, history, tokens, transactions
from localnet.rpc.params import Params

Method = Callable[[Network, Params], Any]
"""Function that returns the result, or an awaitable of it."""
METHODS: dict[str, Method] = {
    **accounts.METHODS,
    **tokens.METHODS,
    **blocks.METHODS,
    **cluster.METHODS,
    **transactions.METHODS,
    **history.METHODS,
    **harness.METHODS,
}
MAX_BATCH = 1000

_log = logging.getLogger(__name__)


async def answer(network: Network, body: bytes, methods: dict[str, Method] = METHODS) -> bytes | None:
    """Return the answer to a request or to a batch of them; None if no answer is expected."""
    try:
        request = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return msgspec.json.encode(failure(None, RpcError(PARSE_ERROR, "Parse error")))
    if isinstance(request, list):
        if not 1 <= len(request) <= MAX_BATCH:
            return msgspec.json.encode(failure(None, RpcError(INVALID_REQUEST, "Invalid request")))
        answers = [await answer_one(network, entry, methods) for entry in request]
        wanted = [one for one in answers if one is not None]
        return msgspec.json.encode(wanted) if wanted else None
    one = await answer_one(network, request, methods)
    return None if one is None else msgspec.json.encode(one)


async def answer_one(network: Network, request: object, methods: dict[str, Method] = METHODS) -> dict[str, Any] | None:
    """Return the answer to one request as an object; None for a notification."""
    if not isinstance(request, dict) or request.get("jsonrpc") != "2.0" or not isinstance(request.get("method"), str):
        return failure(
            request.get("id") if isinstance(request, dict) else None, RpcError(INVALID_REQUEST, "Invalid request")
        )
    wants_answer = "id" in request
    identifier = request.get("id")
    method = methods.get(request["method"])
    try:
        if method is None:
            raise RpcError(METHOD_NOT_FOUND, "Method not found")
        result = method(network, Params(request.get("params")))
        if inspect.isawaitable(result):
            result = await result
    except RpcError as error:
        return failure(identifier, error) if wants_answer else None
    except Exception:  # noqa: BLE001 - one bad request must not end the network; the trace goes to the log
        _log.exception("%s failed", request["method"])
        return failure(identifier, RpcError(INTERNAL_ERROR, "Internal error")) if wants_answer else None
    return {"jsonrpc": "2.0", "result": result, "id": identifier} if wants_answer else None


def failure(identifier: object, error: RpcError) -> dict[str, Any]:
    """Return an error answer."""
    return {"jsonrpc": "2.0", "error": error.body(), "id": identifier}
