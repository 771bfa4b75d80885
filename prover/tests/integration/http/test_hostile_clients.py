"""Clients that want to keep others out: slow bodies, unread answers, many connections, refusals without end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncIterator

import pytest
from golden_vectors import vector_named
from in_process_service import Listen, sample, until
from structlog.testing import capture_logs

from prover.kernel.cancellation import CancelFlag
from prover.keys.store.key_store import KeyStore
from shared.requests.circuit_id import CircuitKind

BODY = vector_named("prover/v1_inclusion_26_1").body
MIB = 2**20
PATIENCE_S = 60
HOSTILE, HONEST = "127.0.0.2", "127.0.0.3"
"""Loopback addresses of two clients."""


def head(method: str, path: str, length: int, *fields: str) -> bytes:
    lines = (f"{method} {path} HTTP/1.1", "Host: x", f"Content-Length: {length}", *fields, "", "")
    return "\r\n".join(lines).encode()


@contextlib.asynccontextmanager
async def connection(
    port: int, address: str = HOSTILE, receive_bytes: int | None = None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection from an address; ``receive_bytes`` bounds the system's buffer for what the client does not read."""
    client = socket.socket()
    if receive_bytes is not None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    client.bind((address, 0))
    client.setblocking(False)
    await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=client, limit=1024)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def exchange(
    port: int, method: str, path: str, body: bytes = b"", *fields: str, address: str = HONEST
) -> tuple[int, bytes]:
    """Return status and body of one request."""
    async with connection(port, address) as (reader, writer):
        writer.write(head(method, path, len(body), "Connection: close", *fields) + body)
        async with asyncio.timeout(PATIENCE_S):
            answer = b"".join([chunk async for chunk in _chunks(reader)])
    first, _, rest = answer.partition(b"\r\n\r\n")
    return int(first.split(b" ")[1]), rest


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while chunk := await reader.read(65536):
        yield chunk


async def test_bodies__announced_and_not_sent__take_no_memory_from_others(
    listen: Listen, published_keys: KeyStore
) -> None:
    state, port = await listen(published_keys)
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(16):
            _, writer = await stack.enter_async_context(connection(port))
            writer.write(head("POST", "/prove", 16 * MIB) + b"{")
        await until(lambda: state.bodies.used_bytes >= 16)
        assert (await exchange(port, "POST", "/prove", BODY))[0] == 200
        assert state.bodies.used_bytes == 16
    await until(lambda: state.bodies.used_bytes == 0)


@pytest.mark.parametrize("keys", ["", "hostile=hostile-client-key,honest=honest-client-key"])
async def test_bodies__of_one_client__leave_half_of_the_memory_to_others(
    listen: Listen, published_keys: KeyStore, keys: str
) -> None:
    http = {"body_memory_bytes": 4 * MIB, "body_limit_bytes": MIB, "api_keys": keys}
    state, port = await listen(published_keys, http=http)
    hostile, honest = (
        ("X-API-Key: hostile-client-key", "X-API-Key: honest-client-key") if keys else ("X-A: 1", "X-A: 2")
    )
    address = HOSTILE if keys else HONEST  # with keys all clients may share one
    async with contextlib.AsyncExitStack() as stack:
        readers = []
        for _ in range(4):
            reader, writer = await stack.enter_async_context(connection(port, HOSTILE))
            writer.write(head("POST", "/prove", MIB, hostile) + b" " * (MIB - 1))
            readers.append(reader)
        await until(
            lambda: (
                state.bodies.used_bytes >= 2 * MIB - 2
                and sample(state, "prover_http_responses_total", status="503") == 2
            )
        )
        assert (await exchange(port, "POST", "/prove", BODY, honest, address=address))[0] == 200
    await until(lambda: state.bodies.used_bytes == 0)


async def test_body__that_trickles__is_ended_long_before_its_time_is_over(
    listen: Listen, published_keys: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prover.http.requests.body._RATE_PERIOD_S", 0.5, raising=False)
    state, port = await listen(published_keys)
    async with connection(port) as (reader, writer):
        writer.write(head("POST", "/prove", len(BODY)))
        answer = asyncio.ensure_future(reader.readline())
        started = time.monotonic()
        for byte in BODY:
            if answer.done() or time.monotonic() > started + 10:
                break
            writer.write(bytes([byte]))
            await asyncio.sleep(0.02)
        assert b" 408 " in await asyncio.wait_for(answer, 1)
    await until(lambda: state.bodies.used_bytes == 0)


async def test_body__that_keeps_the_minimum_rate__is_read_to_its_end(
    listen: Listen, published_keys: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prover.http.requests.body._RATE_PERIOD_S", 1.0)
    _, port = await listen(published_keys, http={"body_rate_bytes_per_s": 100})
    async with connection(port) as (reader, writer):
        writer.write(head("POST", "/prove", len(BODY)))
        size = -(-len(BODY) // 8)
        for start in range(0, len(BODY), size):
            await asyncio.sleep(0.2)
            writer.write(BODY[start : start + size])
        assert b" 200 " in await asyncio.wait_for(reader.readline(), PATIENCE_S)


async def fill(writer: asyncio.StreamWriter, data: bytes, most_bytes: int) -> int:
    """Send until the other side takes no more; returns the bytes that left."""
    sent = 0
    while sent < most_bytes:
        writer.write(data)
        try:
            await asyncio.wait_for(writer.drain(), 1)
        except (TimeoutError, ConnectionError):
            break
        sent += len(data)
    return sent


async def test_client__that_never_reads__is_disconnected(listen: Listen, published_keys: KeyStore) -> None:
    state, port = await listen(published_keys, http={"write_timeout_s": 0.3, "idle_timeout_s": 1})
    async with connection(port, receive_bytes=4096) as (_, writer):
        # The system's buffers of both sides take up to ten mebibytes.
        assert await fill(writer, 50 * b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n", 24 * MIB) < 14 * MIB
        await until(lambda: sample(state, "prover_http_connections") == 0, 10)
    assert sample(state, "prover_http_connections_closed_total", reason="write_timeout") == 1
    assert (await exchange(port, "GET", "/health"))[0] == 200


async def test_client__that_closes_its_request_and_never_reads__is_disconnected_too(
    listen: Listen, published_keys: KeyStore
) -> None:
    state, port = await listen(published_keys, http={"write_timeout_s": 0.3})
    async with connection(port, receive_bytes=4096) as (_, writer):
        await fill(writer, b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n", MIB)
        with contextlib.suppress(OSError):
            writer.write_eof()
        await until(lambda: sample(state, "prover_http_connections") == 0, 10)


async def test_bodies__pipelined_behind_a_proof__wait_in_the_network(listen: Listen, published_keys: KeyStore) -> None:
    state, port = await listen(published_keys, proving={"max_concurrency": 1})
    padded = BODY + b" " * (400_000 - len(BODY))
    with state.admission.permit(CircuitKind.INCLUSION, CancelFlag()):
        async with connection(port) as (_, writer):
            writer.write(head("POST", "/prove", len(BODY)) + BODY)
            await until(lambda: bool(state.proofs_in_progress.running))
            # The system's buffers of both sides take up to ten mebibytes.
            assert await fill(writer, head("POST", "/prove", len(padded)) + padded, 24 * MIB) < 14 * MIB


async def test_requests__pipelined_by_the_thousand__are_all_answered(listen: Listen, published_keys: KeyStore) -> None:
    state, port = await listen(published_keys)
    count = 2000
    async with connection(port) as (reader, writer):

        async def send() -> None:
            for _ in range(count // 100):
                writer.write(100 * b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
                await writer.drain()

        sending = asyncio.ensure_future(send())
        received = b""
        async with asyncio.timeout(PATIENCE_S):
            while received.count(b"HTTP/1.1 200 OK") < count:
                chunk = await reader.read(65536)
                assert chunk
                received += chunk
        await sending
    assert sample(state, "prover_http_responses_total", status="200") == count


async def test_connections__of_one_address__leave_half_to_others(listen: Listen, published_keys: KeyStore) -> None:
    state, port = await listen(published_keys, http={"connection_limit": 4})
    async with contextlib.AsyncExitStack() as stack:
        readers = [(await stack.enter_async_context(connection(port)))[0] for _ in range(4)]
        for refused in readers[2:]:
            answer = await asyncio.wait_for(refused.read(65536), PATIENCE_S)
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"from this address" in answer
        assert (await exchange(port, "GET", "/health"))[0] == 200
        assert sample(state, "prover_http_connections_closed_total", reason="address_connection_limit") == 2
    await until(lambda: sample(state, "prover_http_connections") == 0)
    assert (await exchange(port, "GET", "/health", address=HOSTILE))[0] == 200


async def test_refusals__without_end__write_few_log_lines_and_count_the_others(
    listen: Listen, published_keys: KeyStore
) -> None:
    state, port = await listen(published_keys, http={"api_keys": "honest=honest-client-key"})
    with capture_logs() as lines:
        async with connection(port) as (reader, writer):
            for _ in range(300):
                writer.write(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
                await reader.readuntil(b"\r\n\r\n")
            writer.transport.abort()
        for _ in range(60):
            assert (await exchange(port, "GET", "nonsense"))[0] == 400
    refused = [line for line in lines if line["event"] == "request_finished" and line["status"] == 401]
    broken = [line for line in lines if line["event"] == "framing_refused"]
    elapsed_lines = 10  # one per second
    assert 20 <= len(refused) <= 20 + elapsed_lines
    assert 20 <= len(broken) <= 20 + elapsed_lines
    suppressed = sample(state, "prover_log_lines_suppressed_total", reason="unauthorized")
    assert suppressed == 300 - len(refused)


@pytest.mark.parametrize(("method", "path"), [("GET", "/docs"), ("OPTIONS", "/prove")])
async def test_answers__that_need_no_key__write_no_log_lines(
    listen: Listen, published_keys: KeyStore, method: str, path: str
) -> None:
    _, port = await listen(published_keys, http={"api_keys": "honest=honest-client-key", "cors_origins": ["*"]})
    with capture_logs() as lines:
        assert (await exchange(port, method, path))[0] == 200
    assert [line["log_level"] for line in lines] == ["debug"]


async def test_log_line__after_suppressed_ones__says_how_many(
    listen: Listen, published_keys: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prover.http.server.log_throttle._BURST", 1)
    _, port = await listen(published_keys)
    with capture_logs() as lines:
        for _ in range(3):
            assert (await exchange(port, "GET", "/nope"))[0] == 404
        await asyncio.sleep(1.1)
        assert (await exchange(port, "GET", "/nope"))[0] == 404
    found = [line.get("suppressed") for line in lines if line["event"] == "request_finished"]
    assert found == [None, 2]


async def test_wrong_keys__of_one_address__are_slowed_but_right_ones_are_not(
    listen: Listen, published_keys: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("prover.http.access.failed_keys._DELAY_S", 2.0, raising=False)
    _, port = await listen(published_keys, http={"api_keys": "honest=honest-client-key"})

    async def seconds(field: str, address: str = HOSTILE) -> tuple[int, float]:
        started = time.monotonic()
        status, _ = await exchange(port, "GET", "/version", b"", field, address=address)
        return status, time.monotonic() - started

    for number in range(10):
        assert (await seconds(f"X-API-Key: guess-{number}"))[0] == 401
    guess, right, elsewhere, without = await asyncio.gather(
        seconds("X-API-Key: guess"),
        seconds("X-API-Key: honest-client-key"),
        seconds("X-API-Key: guess", HONEST),
        seconds("X-Other: none"),
    )
    assert (guess[0], right[0], elsewhere[0], without[0]) == (401, 200, 401, 401)
    assert guess[1] >= 2
    assert max(right[1], elsewhere[1], without[1]) < 2


@pytest.mark.parametrize("keys", ["", "hostile=hostile-client-key,honest=honest-client-key"])
async def test_idempotency_key__that_another_client_took__is_still_free(
    listen: Listen, published_keys: KeyStore, keys: str
) -> None:
    _, port = await listen(published_keys, http={"api_keys": keys})
    other_body = json.dumps(json.loads(BODY) | {"unknown": 1}).encode()
    taken = "Idempotency-Key: batch-7"
    for body, address in ((BODY, HOSTILE), (other_body, HOSTILE if keys else HONEST)):
        key = f"X-API-Key: {'hostile' if body is BODY else 'honest'}-client-key"
        assert (await exchange(port, "POST", "/prove", body, taken, key, address=address))[0] == 200
