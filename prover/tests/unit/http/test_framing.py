"""Answers to broken HTTP: a fitting code, and none of the client's bytes."""

from __future__ import annotations

import json

import pytest
from aiohttp.http_exceptions import BadHttpMessage, BadStatusLine, HttpProcessingError, InvalidHeader, LineTooLong

from prover.errors import TryAgainLater
from prover.http.server.framing import framing_error, raw_answer


@pytest.mark.parametrize(
    ("broken", "status", "detail"),
    [
        (BadHttpMessage("Invalid method encountered:\n\n  b'SECRET'\n  ^"), 400, ": Invalid method encountered"),
        (BadHttpMessage("Duplicate 'Host' header found."), 400, ": Duplicate 'Host' header found"),
        (BadHttpMessage("Data after `Connection: close`:\n\n  b'SECRET'"), 400, "is not valid HTTP"),
        (BadHttpMessage("SECRET\r\n" * 50), 400, "is not valid HTTP"),
        (BadHttpMessage(""), 400, "is not valid HTTP"),
        (InvalidHeader(b"SECRET"), 400, ": Invalid HTTP header"),
        (BadStatusLine("SECRET \x00"), 400, "is not valid HTTP"),
        (BadHttpMessage("Too many headers received"), 431, "too many fields"),
        (LineTooLong(b"SECRET", 8190), 414, "path and query"),
        (LineTooLong(b"SECRET", 8192), 431, "too long"),
    ],
)
def test_error__of_broken_framing__has_its_status_and_no_foreign_bytes(
    broken: HttpProcessingError, status: int, detail: str
) -> None:
    error = framing_error(broken)
    assert error.status == status
    assert detail in error.detail
    assert "SECRET" not in error.detail
    assert "connection" not in error.detail.lower()  # existing clients would try again


def test_raw_answer__of_an_error__is_a_whole_response() -> None:
    head, _, body = raw_answer(TryAgainLater("too many"), "Retry-After: 1").partition(b"\r\n\r\n")
    first, *fields = head.decode().split("\r\n")
    assert first == "HTTP/1.1 503 Service Unavailable"
    assert {"Retry-After: 1", "Connection: close", f"Content-Length: {len(body)}"} <= set(fields)
    assert json.loads(body)["code"] == "overloaded"
