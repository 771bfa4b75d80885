"""Answers of the indexer read: the envelope, then the result as its method gives it."""

from typing import Any, TypeVar

import aiohttp
import msgspec

from forester.indexer.failures import AnswerWrong, IndexerRefused
from forester.indexer.types import (
    AccountProofs,
    AddressProofs,
    QueueElements,
    QueueInfo,
    TokenAccounts,
    TokenBalances,
    decode_base58,
)

REQUEST_ID = "test-account"
"""Published clients send this id, and refuse answers with another."""

_LONGEST_ANSWER = 256 << 20

_T = TypeVar("_T")


class _RpcError(msgspec.Struct):
    code: int
    message: str = ""
    data: Any = None


class _Envelope(msgspec.Struct):
    id: Any = None
    result: msgspec.Raw = msgspec.Raw(b"")
    error: _RpcError | None = None


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind, dec_hook=decode_base58)
    for kind in (str, int, AccountProofs, AddressProofs, QueueElements, QueueInfo, TokenAccounts, TokenBalances)
}


async def read_at_most(method: str, response: aiohttp.ClientResponse) -> bytes:
    """The body of a response; AnswerWrong if it is too long."""
    parts, length = [], 0
    async for part in response.content.iter_chunked(1 << 16):
        length += len(part)
        if length > _LONGEST_ANSWER:
            raise AnswerWrong(method, "$", f"longer than {_LONGEST_ANSWER} bytes")
        parts.append(part)
    return b"".join(parts)


def read_answer(method: str, text: bytes, kind: type[_T]) -> _T:
    """The result in an answer; IndexerRefused if it is an error, AnswerWrong if it is neither."""
    try:
        envelope = _ENVELOPE.decode(text)
    except ValueError as error:
        raise _wrong(method, "$", error) from error
    if envelope.error is not None:
        raise IndexerRefused(method, envelope.error.code, envelope.error.message, envelope.error.data)
    if envelope.id != REQUEST_ID:
        raise AnswerWrong(method, "$.id", f"not '{REQUEST_ID}'")
    if not bytes(envelope.result):
        raise AnswerWrong(method, "$", "neither `result` nor `error`")
    try:
        result: _T = _DECODERS[kind].decode(envelope.result)
    except ValueError as error:
        raise _wrong(method, "$.result", error) from error
    return result


def _wrong(method: str, place: str, error: ValueError) -> AnswerWrong:
    reason, found, path = str(error).partition(" - at `$")
    return AnswerWrong(method, place + path.rstrip("`") if found else place, reason)
