"""JSON-RPC 2.0: errors, and the framing of calls and answers."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
SERVER_ERROR = -32000

Json = dict[str, Any]
Call = Callable[[str, object], Awaitable[Any]]
"""Returns the result of a method for its parameters; raises RpcError."""

_log = logging.getLogger(__name__)


class RpcError(Exception):
    """An error answer: code, message and optional data."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(f"{message}: {data}" if isinstance(data, str) else message)
        self.code = code
        self.message = message
        self.data = data

    def answer(self, identifier: object = None) -> Json:
        """Return the answer to a call."""
        body: Json = {"code": self.code, "message": self.message}
        if self.data is not None:
            body["data"] = self.data
        return {"jsonrpc": "2.0", "error": body, "id": identifier}


@dataclass(frozen=True)
class Framing:
    """Rules of a server: the longest batch, and its answer to a fault of its own.

    With ``answers_all`` a call without an id is answered, too, and an id that is no text or number is refused.
    """

    longest_batch: int
    fault: RpcError
    answers_all: bool = False

    async def answer(self, body: str | bytes, call: Call) -> Any:
        """Return the answer to a call or to a batch of them; None if no answer is expected."""
        try:
            request = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return RpcError(PARSE_ERROR, "Parse error").answer()
        if not isinstance(request, list):
            return await self.answer_one(request, call)
        if not 1 <= len(request) <= self.longest_batch:
            return RpcError(INVALID_REQUEST, "Invalid request").answer()
        answers = [await self.answer_one(entry, call) for entry in request]
        return [one for one in answers if one is not None] or None

    async def answer_one(self, request: object, call: Call) -> Json | None:
        """Return the answer to one call; None for a notification."""
        given = request if isinstance(request, dict) else {}
        identifier, name = given.get("id"), given.get("method")
        if self.answers_all and isinstance(identifier, dict | list | bool):
            return RpcError(INVALID_REQUEST, "Invalid request").answer()
        if given.get("jsonrpc") != "2.0" or not isinstance(name, str):
            return RpcError(INVALID_REQUEST, "Invalid request").answer(None if self.answers_all else identifier)
        try:
            answer: Json = {"jsonrpc": "2.0", "result": await call(name, given.get("params")), "id": identifier}
        except RpcError as error:
            answer = error.answer(identifier)
        except Exception:  # noqa: BLE001 - one bad call must not end the network; the trace goes to the log
            _log.exception("%s failed", name)
            answer = self.fault.answer(identifier)
        return answer if self.answers_all or "id" in given else None
