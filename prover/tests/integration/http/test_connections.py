"""Below HTTP: slow and silent clients, many connections, random bytes, requests that never end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import resource
from collections.abc import AsyncIterator, Iterator

import pytest
from golden_vectors import vector_named
from in_process_service import Listen, sample, until

from prover.http.server.connections import allowed_connections
from prover.keys.store.key_store import KeyStore

BODY = vector_named("prover/v1_inclusion_26_1").body
GET_HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
PATIENCE_S = 60


@contextlib.asynccontextmanager
async def connection(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def ask(port: int, raw: bytes = GET_HEALTH, *, half_close: bool = False) -> bytes:
    """Return the answer to raw bytes until the server closes or the answer to a health check is complete."""
    async with connection(port) as (reader, writer):
        answer = b""
        with contextlib.suppress(OSError):
            writer.write(raw)
            if half_close:
                writer.write_eof()
            async with asyncio.timeout(PATIENCE_S):
                while not answer.endswith(b'{"status":"ok"}'):
                    chunk = await reader.read(65536)
                    if not chunk:
                        break
                    answer += chunk
        return answer


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    with contextlib.suppress(ConnectionError):
        return await asyncio.wait_for(reader.read(), PATIENCE_S)
    return b""


async def test_header__arriving_byte_by_byte__is_cut_off(listen: Listen, published_keys: KeyStore) -> None:
    state, port = await listen(published_keys, http={"header_timeout_s": 0.3})
    async with connection(port) as (reader, writer):
        closed = asyncio.ensure_future(until_closed(reader))
        for byte in GET_HEALTH[:-2] + b"X-Slow: " + b"a" * 100_000:
            if closed.done():
                break
            with contextlib.suppress(OSError):
                writer.write(bytes([byte]))
                await writer.drain()
            await asyncio.sleep(0.01)
        answer = await closed  # empty when the answer is lost in what the client still sends
    if answer:
        header, _, body = answer.partition(b"\r\n\r\n")
        assert header.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert json.loads(body)["code"] == "request_timeout"
    assert sample(state, "prover_http_responses_total", status="408") == 1
    assert b"200 OK" in await ask(port)


@pytest.mark.parametrize("before", [b"", b"\r\n\r\n", b"\n\n"])
async def test_header__that_stops_half_way__is_answered_408(
    listen: Listen, published_keys: KeyStore, before: bytes
) -> None:
    _, port = await listen(published_keys, http={"header_timeout_s": 0.3})
    answer = await ask(port, before + GET_HEALTH[:-2])
    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b"Connection: close\r\n" in answer
    problem = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert (problem["status"], problem["code"], problem["retryable"]) == (408, "request_timeout", True)


async def test_header__in_two_parts__is_read(listen: Listen, published_keys: KeyStore) -> None:
    _, port = await listen(published_keys, http={"header_timeout_s": 60})
    async with connection(port) as (reader, writer):
        for part in (GET_HEALTH[:-3], GET_HEALTH[-3:-1], GET_HEALTH[-1:], GET_HEALTH):
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.02)
        for _ in range(2):
            assert b"200 OK" in await asyncio.wait_for(reader.readuntil(b'{"status":"ok"}'), PATIENCE_S)


async def test_header__after_empty_lines__is_read(listen: Listen, published_keys: KeyStore) -> None:
    _, port = await listen(published_keys, http={"header_timeout_s": 60})
    async with connection(port) as (reader, writer):
        for part in (b"\r\n", b"\r\n" + GET_HEALTH):
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.02)
        assert b"200 OK" in await asyncio.wait_for(reader.readuntil(b'{"status":"ok"}'), PATIENCE_S)


async def test_connection__silent_or_idle__is_closed_in_time(listen: Listen, published_keys: KeyStore) -> None:
    state, port = await listen(published_keys, http={"idle_timeout_s": 3})
    async with connection(port) as (silent, _), connection(port) as (idle, writer):
        writer.write(GET_HEALTH)
        assert b"200 OK" in await until_closed(idle)
        assert await until_closed(silent) == b""
    await until(lambda: sample(state, "prover_http_connections") == 0)


@pytest.fixture
def many_files() -> Iterator[int]:
    """As many descriptors as this process may open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_connections__thousands_idle__leave_room_for_work(
    listen: Listen, published_keys: KeyStore, many_files: int
) -> None:
    idle = min(3000, (many_files - 512) // 2)  # both ends are in this process
    state, port = await listen(published_keys)
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(idle):
            await stack.enter_async_context(connection(port))
        await until(lambda: sample(state, "prover_http_connections") == idle)
        assert b"200 OK" in await ask(port)
        request = b"POST /prove HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(BODY)
        assert b"200 OK" in await ask(port, request + BODY)
    await until(lambda: sample(state, "prover_http_connections") == 0)


async def test_connections__beyond_the_limit__are_answered_503(listen: Listen, published_keys: KeyStore) -> None:
    state, port = await listen(published_keys, http={"connection_limit": 3, "address_connection_limit": 3})
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(3):
            await stack.enter_async_context(connection(port))
        await until(lambda: sample(state, "prover_http_connections") == 3)
        answer = await ask(port)
        assert answer.startswith(b"HTTP/1.1 503")
        head, _, body = answer.partition(b"\r\n\r\n")
        assert b"Retry-After" in head
        refusal = json.loads(body)
        assert (refusal["code"], refusal["retryable"]) == ("overloaded", True)
        assert "503" in refusal["message"]  # on which existing clients try again
    await until(lambda: sample(state, "prover_http_connections") == 0)
    assert b"200 OK" in await ask(port)
    assert sample(state, "prover_rejected_requests_total", reason="connections") == 1


@pytest.mark.parametrize("hard", [400, resource.RLIM_INFINITY])
def test_limit_of_connections__above_that_of_files__is_lowered(monkeypatch: pytest.MonkeyPatch, hard: int) -> None:
    limits = (300, hard)

    def set_limits(_: int, wanted: tuple[int, int]) -> None:
        nonlocal limits
        if wanted[0] > 1000:
            raise ValueError("not allowed")
        limits = wanted

    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", set_limits)
    assert allowed_connections(10) == 10
    assert limits == (300, hard)
    assert allowed_connections(100) == 100
    assert limits == (356, hard)
    assert allowed_connections(10**9) == (144 if hard == 400 else 100)


async def test_body__announced_far_beyond_the_limit__is_refused_unread(
    listen: Listen, published_keys: KeyStore
) -> None:
    _, port = await listen(published_keys)
    for length in (16 * 2**20 + 1, 2**40, 10**30):
        head = b"POST /prove HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % length
        answer = await ask(port, head + b"{")
        assert answer.split(b" ")[1].startswith(b"4"), answer


async def test_body__in_endless_chunks__is_cut_off_at_the_limit(listen: Listen, published_keys: KeyStore) -> None:
    state, port = await listen(published_keys, http={"body_limit_bytes": 100_000})
    async with connection(port) as (reader, writer):
        writer.write(b"POST /prove HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        closed = asyncio.ensure_future(until_closed(reader))
        with contextlib.suppress(OSError):
            while not closed.done():
                writer.write(b"2710\r\n" + b" " * 10_000 + b"\r\n")
                await writer.drain()
                await asyncio.sleep(0)
        answer = await closed
    assert answer == b"" or b"413" in answer.split(b"\r\n", 1)[0]
    await until(lambda: state.bodies.used_bytes == 0)


def mutated(rng: random.Random) -> bytes:
    """Return a request with bytes changed, removed, repeated or made up."""
    seeds = (
        GET_HEALTH,
        b"POST /prove HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
        b"POST /prove HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: x\r\nOrigin: y\r\nExpect: 100-continue\r\n\r\n",
        b"GET http://a/health?%00 HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    )
    raw = bytearray(rng.choice(seeds))
    if rng.random() < 0.1:
        return rng.randbytes(rng.randint(1, 4096))
    for _ in range(rng.randint(1, 8)):
        place = rng.randrange(len(raw) + 1)
        action = rng.randrange(4)
        if action == 0:
            raw[place:place] = rng.randbytes(rng.randint(1, 16))
        elif action == 1:
            del raw[place : place + rng.randint(1, 10)]
        elif action == 2:
            raw[place:place] = raw[place : place + 40] * rng.randint(1, 4)
        elif raw:
            raw[place % len(raw)] = rng.randrange(256)
    return bytes(raw)


@pytest.mark.parametrize("seed", range(4))
async def test_bytes__at_random__are_never_a_500_nor_a_hang(
    listen: Listen, published_keys: KeyStore, seed: int
) -> None:
    state, port = await listen(published_keys, http={"header_timeout_s": 1, "body_timeout_s": 1, "idle_timeout_s": 10})
    rng = random.Random(seed)
    for _ in range(15):
        answers = await asyncio.gather(*(ask(port, mutated(rng), half_close=True) for _ in range(20)))
        for answer in answers:
            lines = [line for line in answer.split(b"\r\n") if line.startswith(b"HTTP/1.")]
            assert all(line.split(b" ")[1][:1] in (b"1", b"2", b"4") for line in lines), answer
    assert b"200 OK" in await ask(port)
    await until(lambda: sample(state, "prover_http_connections") == 0)
    assert state.bodies.used_bytes == 0
    assert not state.proofs_in_progress.running
