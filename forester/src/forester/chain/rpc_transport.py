"""One JSON-RPC endpoint over HTTP: a call is one request, failures are typed, nothing is retried."""

import asyncio
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec

from forester.errors import (
    EndpointError,
    EndpointTimedOut,
    EndpointUnreachable,
    MalformedAnswer,
    RateLimited,
    RequestRefused,
)
from forester.limits.answer_memory import AnswerMemory
from forester.limits.untrusted_json import decode_untrusted
from forester.redaction import mask_start
from forester.urls import connection_fault
from shared.process.retries import read_retry_after

ANSWER_LIMIT_BYTES = 128 * 2**20
"""Longest answer that is read: the largest account of Solana has 14 MiB in base64, and the registrations of all epochs,
which only ``forester status --full`` reads, some 600 bytes each."""

ANSWERS = AnswerMemory(each=ANSWER_LIMIT_BYTES, total=256 * 2**20)
"""Memory for the answers of all nodes: 50 V1 trees can be read at once, each with its queue 5 MB as JSON."""

_OF_ACCOUNTS = frozenset({"getMultipleAccounts", "getProgramAccounts", "getProgramAccountsV2"})
"""Methods whose answers may be that long."""

_SHORT_BYTES = 2**20
"""Longest answer of other methods, and longest ``data`` of an error: values of any shape take up to 25 times as much
memory as their JSON."""

_TOO_MANY_REQUESTS = (429, -32429)
_REQUEST_TIMEOUT = 408
"""Of a gateway: as after a 504, a transaction may have arrived."""

_SERVER_ERRORS = range(500, 600)
"""HTTP statuses, which some gateways give as codes with the status 200."""

_NODE_BEHIND = (-32004, -32005, -32014, -32016)
"""Codes of a node that lacks a block or a slot, is unhealthy or behind; another one, or the same later, can answer."""

_INTERNAL_ERROR = -32603
_OF_NODE = (401, 402, 403, 404, -32401, -32402, -32403, _INTERNAL_ERROR)
"""JSON-RPC codes of a node that demands a key or payment, has no such page, or failed internally."""

_FAILURE_TEXT = "internal server error"
_OF_NODE_TEXTS = ("node is behind", "node is unhealthy", _FAILURE_TEXT)
_OF_REQUEST = (-32601, -32602, -32002, -32003)
"""Codes that are the request's fault with any HTTP status: some servers give 404 for -32601."""

_BAD_REQUESTS = (400, 413, 415, 422)
"""HTTP statuses of a request that another node would refuse as well."""


class NodeRefused(RequestRefused):
    """A node refused for reasons of its own: another one may serve the same request, this one would refuse again."""


def may_have_arrived(error: EndpointError) -> bool:
    """Return whether a transaction may land although its call failed: the node did not refuse it, or failed itself."""
    return not isinstance(error, RequestRefused) or error.code == _INTERNAL_ERROR


class _Error(msgspec.Struct):
    code: int
    message: str = ""
    data: msgspec.Raw = msgspec.Raw(b"null")


class _Envelope(msgspec.Struct):
    result: msgspec.Raw = msgspec.Raw(b"")
    error: _Error | None = None


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_DATA = msgspec.json.Decoder()


class RpcEndpoint:
    """A node at a URL. Messages contain ``name``; the URL itself, which may hold a key, is never shown."""

    def __init__(self, session: aiohttp.ClientSession, url: str, *, answers: AnswerMemory = ANSWERS) -> None:
        self._session = session
        self._answers = answers
        self._url = url
        parts = urlsplit(url)
        self.name = f"RPC node {parts.hostname}" + (f":{parts.port}" if parts.port else "")

    async def call(self, method: str, params: list[Any], *, timeout_s: float) -> msgspec.Raw:
        """Return the undecoded result of a method.

        Raises RateLimited, EndpointUnreachable, EndpointTimedOut, RequestRefused, its NodeRefused, MalformedAnswer or
        AnswersExceedMemory.
        """
        body = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        try:
            async with (
                asyncio.timeout(timeout_s),
                self._session.post(
                    self._url, data=body, headers={"Content-Type": "application/json"}, allow_redirects=False
                ) as response,
                self._answers.body(
                    response, self.name, longest=None if method in _OF_ACCOUNTS else _SHORT_BYTES
                ) as answer,
            ):
                return self._result(method, response.status, answer, response.headers.get("Retry-After"))
        except aiohttp.ConnectionTimeoutError:
            waited = (
                f"no connection within {self._session.timeout.sock_connect:g} s (--rpc-pool-connection-timeout-secs)"
            )
            raise EndpointUnreachable(f"{self.name} cannot be reached for {method}: {waited}") from None
        except TimeoutError:
            raise EndpointTimedOut(f"{self.name} did not answer {method} within {timeout_s:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            fault = connection_fault(error)
            raise EndpointUnreachable(f"{self.name} cannot be reached for {method}: {fault}") from None

    def _result(self, method: str, status: int, body: bytes, retry_after: str | None) -> msgspec.Raw:
        if status == 429:
            text = f"{self.name}: 429 Too Many Requests for {method}"
            raise RateLimited(text, retry_after_s=read_retry_after(retry_after))
        if status >= 500 or status == _REQUEST_TIMEOUT:
            raise EndpointUnreachable(f"{self.name} answered {method} with {status}")
        try:
            envelope = decode_untrusted(_ENVELOPE, body)
        except ValueError:
            if status != 200:
                raise _refused_by_status(status, f"{self.name} answered {method} with {status}") from None
            raise MalformedAnswer(f"{self.name} answered {method} with something that is not JSON-RPC") from None
        if envelope.error is not None:
            raise self._refusal(method, envelope.error, status)
        if status != 200 or not bytes(envelope.result):
            raise _refused_by_status(status, f"{self.name} answered {method} with {status} and no result")
        return envelope.result

    def _refusal(self, method: str, error: _Error, status: int) -> Exception:
        text = f"{self.name} refused {method}: {mask_start(error.message, 500)} ({error.code})"
        if error.code in _TOO_MANY_REQUESTS:
            return RateLimited(f"{self.name}: 429 Too Many Requests for {method}")
        if error.code in _NODE_BEHIND or error.code == _REQUEST_TIMEOUT or error.code in _SERVER_ERRORS:
            return EndpointUnreachable(text)
        kind = NodeRefused if _is_of_node(error, status) else RequestRefused
        failed = kind is NodeRefused and error.message.lower().startswith(_FAILURE_TEXT)
        return kind(text, code=_INTERNAL_ERROR if failed else error.code, data=_data_of(error))


def _data_of(error: _Error) -> Any:
    """Return the data of an error, None if it is too long to be decoded or nested too deeply."""
    if len(memoryview(error.data)) > _SHORT_BYTES:
        return None
    try:
        return decode_untrusted(_DATA, error.data)
    except ValueError:
        return None


def _is_of_node(error: _Error, status: int) -> bool:
    if error.code in _OF_REQUEST:
        return False
    return error.code in _OF_NODE or status in _OF_NODE or error.message.lower().startswith(_OF_NODE_TEXTS)


def _refused_by_status(status: int, text: str) -> RequestRefused:
    kind = RequestRefused if status in _BAD_REQUESTS else NodeRefused
    return kind(text, code=status)
