"""Paths that try to pass by the API key, and bodies that try to crash the server."""

from __future__ import annotations

import asyncio
import json

import pytest
from golden_vectors import vector_named
from in_process_service import Listen, Serve, sample, state_of

from prover.keys.store.key_store import KeyStore

REQUEST = vector_named("prover/v2_inclusion_32_1").request
TEXT = json.dumps(REQUEST).encode()
DEEP = 100_000

PATHS = (
    "/version",
    "/version/",
    "//version",
    "/./version",
    "/x/../version",
    "/health/../version",
    "/health/..%2fversion",
    "/health%2f..%2fversion",
    "/health/%2e%2e/version",
    "/health;/version",
    "/health%00/version",
    "/health%3f/version",
    "/health%23/version",
    "/%76ersion",
    "/%2576ersion",
    "/VERSION",
    "/version?/health",
    "/version;/health",
    "http://x/version",
    "http://x/health/../version",
    "/%61dmin/keys",
    "//admin/keys",
)
"""Spellings of paths that need a key."""

BODIES: dict[str, bytes] = {
    "empty": b"",
    "blanks": b" \n" * 1000,
    "zero bytes": b"\0" * 1000,
    "byte order mark": b"\xef\xbb\xbf" + TEXT,
    "UTF-16": TEXT.decode().encode("utf-16"),
    "UTF-32": TEXT.decode().encode("utf-32"),
    "Latin-1": b'{"circuitType":"inclusion\xe9"}',
    "overlong UTF-8": b'{"circuitType":"\xc0\xae"}',
    "lone surrogate": b'{"circuitType":"\\ud800"}',
    "NUL in a string": b'{"circuitType":"inclusion\\u0000"}',
    "raw control character": b'{"circuitType":"inclu\x01sion"}',
    "null": b"null",
    "true": b"true",
    "number": b"1",
    "huge number": b"1" + b"0" * 100_000,
    "number with a huge exponent": b"1e999999999",
    "NaN": b'{"circuitType":NaN}',
    "Infinity": b'{"circuitType":"inclusion","stateTreeHeight":Infinity}',
    "string": b'"inclusion"',
    "list": b"[]",
    "object": b"{}",
    "deep lists": b"[" * DEEP,
    "deep lists that end": b"[" * DEEP + b"]" * DEEP,
    "deep objects": b'{"x":' * DEEP + b"1" + b"}" * DEEP,
    "two documents": TEXT + TEXT,
    "rubbish behind": TEXT + b"x",
    "cut off": TEXT[:-1],
    "comment": b"/* */" + TEXT,
    "trailing comma": TEXT[:-1] + b",}",
    "single quotes": TEXT.replace(b'"', b"'"),
    "unknown circuit": b'{"circuitType":"' + b"x" * 10_000 + b'"}',
    "circuit of another type": b'{"circuitType":["inclusion"]}',
    "height beyond all integers": json.dumps(REQUEST | {"stateTreeHeight": 2**4000}).encode(),
    "negative height": json.dumps(REQUEST | {"stateTreeHeight": -32}).encode(),
    "value beyond the field": json.dumps(REQUEST | {"publicInputHash": "0x" + "f" * 64}).encode(),
    "value of a million digits": json.dumps(REQUEST | {"publicInputHash": "0x" + "1" * 1_000_000}).encode(),
}


@pytest.mark.parametrize("path", PATHS)
async def test_path__in_any_spelling__needs_a_key(listen: Listen, published_keys: KeyStore, path: str) -> None:
    _, port = await listen(published_keys, http={"api_keys": "ops:admin=operators-secret-key"})
    for method in ("GET", "POST", "HEAD"):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".encode())
        answer = await asyncio.wait_for(reader.read(), 60)
        writer.close()
        assert answer.split(b" ")[1] == b"401", answer


async def test_body__made_to_crash_the_server__is_refused_with_a_problem(
    serve: Serve, published_keys: KeyStore
) -> None:
    assert len(BODIES) == 36
    client = await serve(published_keys)
    for name, body in BODIES.items():
        response = await client.post("/prove", data=body)
        problem = await response.json()
        assert response.status in (400, 413), (name, problem)
        assert problem["status"] == response.status, name
        assert len(problem["message"]) < 1000, name
    state = state_of(client)
    assert sample(state, "prover_proof_panics_total", circuit_type="unknown") in (None, 0)
    assert state.bodies.used_bytes == 0
    assert not state.proofs_in_progress.running
    assert (await client.post("/prove", data=TEXT)).status == 200
