"""Request bodies: bounded one by one and all together, in bytes and in time, also in the time that others wait."""

import asyncio
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from aiohttp import web

from prover.errors import BodyTooLarge, BodyTooSlow, MalformedRequest, TryAgainLater
from prover.proving.request import compact, read_envelope
from prover.settings import HttpSettings
from shared.proof_wire import Envelope

_LARGE_BYTES = 1 << 16
"""Bodies up to this are read by the event loop, in less time than a thread needs to begin."""


class BodyBudget:
    """Memory for the bodies of all requests together."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._used = 0

    @property
    def used_bytes(self) -> int:
        """Bytes that are lent now."""
        return self._used

    @contextmanager
    def lease(self) -> Iterator["BodyLease"]:
        """Give a lease that ends with the block."""
        lease = BodyLease(self)
        try:
            yield lease
        finally:
            self._used -= lease.size
            lease.size = 0

    def take(self, size: int) -> None:
        """Lend bytes; raises TryAgainLater when there are not enough."""
        if self._used + size > self._limit:
            raise TryAgainLater("too many large requests are in progress; try again later")
        self._used += size


class BodyLease:
    """What one request has of the budget."""

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self.size = 0

    def cover(self, size: int) -> None:
        """Have at least ``size`` bytes."""
        if size > self.size:
            self._budget.take(size - self.size)
            self.size = size


async def read_body(request: web.Request, limits: HttpSettings, lease: BodyLease) -> bytes:
    """Read a body as far as the limits allow.

    Raises BodyTooLarge, BodyTooSlow, TryAgainLater when memory for bodies is used up, MalformedRequest when the
    framing or the compression is broken.
    """
    announced = request.content_length or 0
    _require_size(announced, limits)
    lease.cover(announced)
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.body_timeout_s):
            async for chunk in request.content.iter_any():
                size += len(chunk)
                _require_size(size, limits)
                lease.cover(size)
                chunks.append(chunk)
    except TimeoutError as error:
        raise BodyTooSlow from error
    except web.RequestPayloadError as error:
        raise MalformedRequest("the request body cannot be read as its headers announce") from error
    if size <= _LARGE_BYTES:
        return b"".join(chunks)
    return await asyncio.to_thread(b"".join, chunks)


@dataclass(frozen=True)
class Examined:
    """A body that was looked at: its SHA-256, its first members, and what is left to decode."""

    digest: bytes
    envelope: Envelope
    text: bytes
    """The body itself, or a large one without blanks and unknown members."""


async def examine(body: bytes) -> Examined:
    """Hash a body and read its envelope; large ones in a thread and mostly without the interpreter lock.

    Raises MalformedRequest, BodyTooLarge.
    """
    if len(body) <= _LARGE_BYTES:
        return Examined(hashlib.sha256(body).digest(), read_envelope(body), body)
    return await asyncio.to_thread(_examine_large, body)


def _examine_large(body: bytes) -> Examined:
    text = compact(body)
    envelope = read_envelope(text)
    return Examined(hashlib.sha256(body).digest(), envelope, text)


def _require_size(size: int, limits: HttpSettings) -> None:
    if size > limits.body_limit_bytes:
        raise BodyTooLarge(f"the request body is larger than {limits.body_limit_bytes} bytes")
