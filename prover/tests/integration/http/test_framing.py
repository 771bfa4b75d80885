"""Broken HTTP: the server answers with a problem or hangs up, and continues serving."""

from __future__ import annotations

import asyncio
import gzip
import json

import pytest
from golden_vectors import vector_named
from in_process_service import Client, Listen, Serve, sample
from structlog.testing import capture_logs

from prover.http.state import STATE
from prover.keys.store.key_store import KeyStore

BODY = vector_named("prover/v1_inclusion_26_1").body
POST = b"POST /prove HTTP/1.1\r\nHost: x\r\n"
PATIENCE_S = 60

BROKEN = {
    "binary": (bytes(range(256)), 400),
    "a TLS hello": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    "bad version": (b"POST /prove HTTP/9.9\r\nHost: x\r\n\r\n", 400),
    "bad method": (b"P\0ST /prove HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "unknown method": (b"SECRET /prove HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "negative length": (POST + b"Content-Length: -1\r\n\r\n", 400),
    "length that is no number": (POST + b"Content-Length: ten\r\n\r\n", 400),
    "length beyond all integers": (POST + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n", 400),
    "length beyond the limit": (POST + b"Content-Length: 99999999999\r\n\r\n", 413),
    "two lengths": (POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400),
    "length and chunks": (POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "bad chunk": (POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    "chunk longer than it says": (POST + b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n", 400),
    "chunk of a negative size": (POST + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n", 400),
    "coding that is not chunked": (POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400),
    "blank before the colon": (POST + b"Content-Length : 3\r\n\r\nabc", 400),
    "header without colon": (POST + b"SECRET x\r\n\r\n", 400),
    "header with a NUL": (POST + b"X: SECRET\0\r\n\r\n", 400),
    "long target": (b"GET /" + b"a" * 9000 + b"?SECRET HTTP/1.1\r\nHost: x\r\n\r\n", 414),
    "long header": (POST + b"X-Big: " + b"SECRET" * 20_000 + b"\r\n\r\n", 431),
    "long header name": (POST + b"X" * 9000 + b": SECRET\r\n\r\n", 431),
    "many headers": (POST + b"X: SECRET\r\n" * 200 + b"\r\n", 431),
}  # fmt: skip
CODES = {400: "malformed_body", 413: "body_too_large", 414: "uri_too_long", 431: "header_too_large"}


async def answer_to(port: int, raw: bytes) -> bytes:
    """Send raw bytes and return all that comes back until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(raw)
        return await asyncio.wait_for(reader.read(), PATIENCE_S)
    finally:
        writer.close()


async def exchange(client: Client, raw: bytes) -> bytes:
    """Send raw bytes, end the sending side, and return all that comes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
    writer.write(raw)
    try:
        await writer.drain()
        writer.write_eof()
        return await asyncio.wait_for(reader.read(), PATIENCE_S)
    except (ConnectionError, OSError):
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize(("raw", "status"), BROKEN.values(), ids=BROKEN)
async def test_request__broken_in_its_framing__is_answered_with_a_problem(
    listen: Listen, published_keys: KeyStore, raw: bytes, status: int
) -> None:
    state, port = await listen(published_keys)
    with capture_logs() as lines:
        header, _, body = (await answer_to(port, raw)).partition(b"\r\n\r\n")
    first, *fields = header.decode().lower().split("\r\n")
    assert first.split(" ")[1] == str(status)
    assert {"content-type: application/problem+json", "server: zkc-prover", "connection: close"} <= set(fields)
    problem = json.loads(body)
    assert (problem["status"], problem["code"]) == (status, CODES[status])
    assert problem["message"] == problem["detail"]
    assert f"x-request-id: {problem['instance'].removeprefix('urn:zkc:request:')}" in fields
    # What a stranger sends comes back to nobody and fills no log.
    assert b"SECRET" not in header + body
    assert "SECRET" not in str(lines)
    assert sample(state, "prover_http_responses_total", status=str(status)) == 1


def prove_request(body: bytes, *headers: str) -> bytes:
    """Return a request that ends its connection."""
    lines = ("POST /prove HTTP/1.1", "Host: x", "Connection: close", f"Content-Length: {len(body)}", *headers, "", "")
    return "\r\n".join(lines).encode() + body


@pytest.mark.parametrize("path", ["/prove", "/nope"])
async def test_request__with_a_foreign_expectation__is_417_without_its_words(
    listen: Listen, published_keys: KeyStore, path: str
) -> None:
    state, port = await listen(published_keys)
    lines = (f"POST {path} HTTP/1.1", "Host: x", "X-Request-Id: mine", "Expect: <b>SECRET</b>", "Content-Length: 2")
    sent = "\r\n".join((*lines, "", "{}")).encode()
    with capture_logs() as log:
        header, _, body = (await answer_to(port, sent)).partition(b"\r\n\r\n")
    first, *fields = header.decode().lower().split("\r\n")
    assert first.split(" ")[1] == "417"
    assert {
        "content-type: application/problem+json",
        "server: zkc-prover",
        "connection: close",
        "x-request-id: mine",
    } <= set(fields)
    problem = json.loads(body)
    assert (problem["status"], problem["code"]) == (417, "malformed_body")
    assert problem["instance"] == "urn:zkc:request:mine"
    assert b"SECRET" not in header + body
    assert "SECRET" not in str(log)
    assert [line["status"] for line in log if line["event"] == "framing_refused"] == [417]
    assert sample(state, "prover_http_responses_total", status="417") == 1


async def test_request__that_expects_100_continue__gets_it_and_its_proof(
    listen: Listen, published_keys: KeyStore
) -> None:
    _, port = await listen(published_keys)
    answer = await answer_to(port, prove_request(BODY, "Expect: 100-continue"))
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "identity", "x-unknown"])
async def test_body__plain_whatever_its_coding_claims__is_proved(
    listen: Listen, published_keys: KeyStore, coding: str
) -> None:
    _, port = await listen(published_keys)
    answer = await answer_to(port, prove_request(BODY, f"Content-Encoding: {coding}"))
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")


async def test_body__compressed__is_never_inflated(listen: Listen, published_keys: KeyStore) -> None:
    _, port = await listen(published_keys, http={"body_limit_bytes": 100_000})
    for text in (BODY, b" " * 50_000_000):
        answer = await answer_to(port, prove_request(gzip.compress(text), "Content-Encoding: gzip"))
        header, _, body = answer.partition(b"\r\n\r\n")
        assert header.startswith(b"HTTP/1.1 400 ")
        assert json.loads(body)["code"] == "malformed_body"


async def test_failure__outside_of_every_handler__is_a_problem_without_details(
    listen: Listen, published_keys: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: str) -> str:
        raise RuntimeError("SECRET")

    monkeypatch.setattr("prover.http.middleware.request_log.request_id", fail)
    _, port = await listen(published_keys)
    with capture_logs() as lines:
        header, _, body = (await answer_to(port, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")).partition(b"\r\n\r\n")
    assert header.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    assert json.loads(body)["code"] == "unexpected_error"
    assert b"SECRET" not in header + body
    assert "SECRET" in str([line["exc_info"] for line in lines if line["event"] == "unexpected_error"])


async def test_request__of_nothing__is_no_request(serve: Serve, published_keys: KeyStore) -> None:
    client = await serve(published_keys)
    assert await exchange(client, b"\r\n\r\n") == b""
    assert (await client.get("/health")).status == 200


async def test_request__whose_body_never_ends__is_dropped(serve: Serve, published_keys: KeyStore) -> None:
    client = await serve(published_keys)
    head = f"POST /prove HTTP/1.1\r\nHost: x\r\nContent-Length: {len(BODY)}\r\n\r\n".encode()
    assert b"200 OK" not in await exchange(client, head + BODY[:-10])
    assert not client.app[STATE].proofs_in_progress.running
    assert (await client.get("/health")).status == 200


async def test_clients__many_leaving_at_once__leave_nothing_behind(serve: Serve, published_keys: KeyStore) -> None:
    client = await serve(published_keys)
    different = [BODY.rstrip()[:-1] + b', "unknown": %d}' % number for number in range(40)]
    tasks = [asyncio.ensure_future(client.post("/prove", data=body)) for body in different]
    await asyncio.sleep(0.05)
    for task in tasks[1:]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    state = client.app[STATE]
    for _ in range(2000):
        if not state.proofs_in_progress.running:
            break
        await asyncio.sleep(0.005)
    assert not state.proofs_in_progress.running
    assert state.admission.waiting == 0
    assert (await client.post("/prove", data=BODY)).status == 200
