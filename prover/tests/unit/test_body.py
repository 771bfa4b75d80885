"""Digests of request bodies: the right ones, and not at the expense of other requests."""

from __future__ import annotations

import asyncio
import hashlib
import threading

import pytest

from prover.http import body

SHORT = b"short"
LONG = bytes(1 << 20)


@pytest.mark.parametrize("data", [b"", SHORT, LONG])
async def test_digest__of_any_body__is_its_sha256(data: bytes) -> None:
    assert await body.digest_of(data) == hashlib.sha256(data).digest()


async def test_digest__of_a_large_body__lets_the_event_loop_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    went_on = threading.Event()
    sha256 = hashlib.sha256

    def slow(data: bytes) -> object:
        assert went_on.wait(60), "the event loop waits for the digest"
        return sha256(data)

    monkeypatch.setattr(hashlib, "sha256", slow)
    asyncio.get_running_loop().call_soon(went_on.set)
    assert await body.digest_of(LONG) == sha256(LONG).digest()
