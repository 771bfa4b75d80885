"""Broken HTTP: the server answers 4xx or hangs up, and goes on serving."""

from __future__ import annotations

import asyncio

import pytest
from golden_vectors import vector_named
from in_process_service import Client, Serve

from prover.http.state import STATE
from prover.keys.store import KeyStore

BODY = vector_named("prover/v1_inclusion_26_1").body

BROKEN = {
    "no request": b"\r\n\r\n",
    "binary": bytes(range(256)),
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "bad version": b"POST /prove HTTP/9.9\r\nHost: x\r\n\r\n",
    "bad method": b"P\0ST /prove HTTP/1.1\r\nHost: x\r\n\r\n",
    "negative length": b"POST /prove HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    "length that is no number": b"POST /prove HTTP/1.1\r\nHost: x\r\nContent-Length: ten\r\n\r\n",
    "length beyond the limit": b"POST /prove HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n",
    "two lengths": b"POST /prove HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "length and chunks": b"POST /prove HTTP/1.1\r\nHost: x\r\n"
    b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "bad chunk": b"POST /prove HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "huge header": b"POST /prove HTTP/1.1\r\nHost: x\r\nX-Big: " + b"a" * 100_000 + b"\r\n\r\n",
    "header without colon": b"POST /prove HTTP/1.1\r\nHost x\r\n\r\n",
}  # fmt: skip


async def exchange(client: Client, raw: bytes) -> bytes:
    """Send raw bytes, end the sending side, and return all that comes back within a few seconds."""
    reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
    writer.write(raw)
    try:
        await writer.drain()
        writer.write_eof()
        return await asyncio.wait_for(reader.read(), 10)
    except (ConnectionError, OSError):
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize("raw", BROKEN.values(), ids=BROKEN.keys())
async def test_request__broken_in_its_framing__is_refused(serve: Serve, published_keys: KeyStore, raw: bytes) -> None:
    client = await serve(published_keys)
    answer = await exchange(client, raw)
    assert answer == b"" or answer.split(b" ")[1].startswith(b"4"), answer
    assert (await client.get("/health")).status == 200


async def test_request__whose_body_never_ends__is_dropped(serve: Serve, published_keys: KeyStore) -> None:
    client = await serve(published_keys)
    head = f"POST /prove HTTP/1.1\r\nHost: x\r\nContent-Length: {len(BODY)}\r\n\r\n".encode()
    assert b"200 OK" not in await exchange(client, head + BODY[:-10])
    assert not client.app[STATE].flights.running
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
        if not state.flights.running:
            break
        await asyncio.sleep(0.005)
    assert not state.flights.running
    assert not state.admission._queue
    assert (await client.post("/prove", data=BODY)).status == 200
