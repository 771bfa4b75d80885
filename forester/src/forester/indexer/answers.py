"""Decoding of the indexer's answers: the envelope, then the result of the method."""

from functools import cache
from typing import Any, TypeVar

import msgspec

from forester.indexer.failures import AnswerWrong, IndexerRefused
from forester.indexer.types import decode_base58
from forester.limits.answer_memory import AnswerMemory
from forester.limits.untrusted_json import decode_untrusted

REQUEST_ID = "test-account"
"""Published clients send this id, and refuse answers with another."""

ANSWERS = AnswerMemory(each=64 * 2**20, total=256 * 2**20)
"""Memory for the answers of all indexers: a page of five batches with its tree nodes has some 10 MB."""

_T = TypeVar("_T")


class _RpcError(msgspec.Struct):
    code: int
    message: str = ""
    data: msgspec.Raw = msgspec.Raw(b"null")


class _Envelope(msgspec.Struct):
    id: msgspec.Raw = msgspec.Raw(b"null")
    result: msgspec.Raw = msgspec.Raw(b"")
    error: _RpcError | None = None


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_TEXT = msgspec.json.Decoder(str)


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, dec_hook=decode_base58)


def read_answer(method: str, text: bytes, kind: type[_T]) -> _T:
    """Return the result in an answer; IndexerRefused if it is an error, AnswerWrong if it is neither."""
    try:
        envelope = decode_untrusted(_ENVELOPE, text)
    except ValueError as error:
        raise _wrong(method, "$", error) from error
    if envelope.error is not None:
        raise IndexerRefused(method, envelope.error.code, envelope.error.message, _text_of(envelope.error.data))
    if _text_of(envelope.id) != REQUEST_ID:
        raise AnswerWrong(method, "$.id", f"not '{REQUEST_ID}'")
    if not bytes(envelope.result):
        raise AnswerWrong(method, "$", "neither `result` nor `error`")
    try:
        result: _T = decode_untrusted(_decoder(kind), envelope.result)  # type: ignore[arg-type]  # types are hashable
    except ValueError as error:
        raise _wrong(method, "$.result", error) from error
    return result


def _text_of(value: msgspec.Raw) -> str | None:
    """Return a value that is a text, else None: other values take up to 25 times as much memory as their JSON."""
    try:
        return decode_untrusted(_TEXT, value)
    except ValueError:
        return None


def _wrong(method: str, json_path: str, error: ValueError) -> AnswerWrong:
    reason, found, path = str(error).partition(" - at `$")
    return AnswerWrong(method, json_path + path.rstrip("`") if found else json_path, reason)
