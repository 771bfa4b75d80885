"""Request bodies, bounded each and in total, in bytes and in time."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web
from msgspec import Struct

from prover.errors import BodyTooLarge, BodyTooSlow, MalformedRequest, TryAgainLater
from prover.proving.request import compact, read_envelope
from prover.settings import HttpSettings
from shared.proof_wire import Envelope

_IN_LOOP_BYTES = 1 << 16
"""Bodies up to this size are processed in the event loop, in less time than a thread needs to start."""


_RATE_PERIOD_S = 10.0
"""Each period of this length must reach the minimum rate: an average over the whole body would allow long pauses."""


class BodyBudget:
    """Memory for the bodies of all requests, of which one holder gets at most a share."""

    def __init__(self, limit_bytes: int, share_bytes: int) -> None:
        self._limit = limit_bytes
        self._share = share_bytes
        self._used = 0
        self._used_by: Counter[str] = Counter()

    @property
    def used_bytes(self) -> int:
        """Bytes that are leased now."""
        return self._used

    @contextmanager
    def lease(self, holder: str) -> Iterator["BodyLease"]:
        """Yield a lease of a holder, which ends with the block."""
        lease = BodyLease(self, holder)
        try:
            yield lease
        finally:
            self._used -= lease.size
            self._used_by[holder] -= lease.size
            if not self._used_by[holder]:
                del self._used_by[holder]

    def take(self, size: int, holder: str) -> None:
        """Reserve bytes for a holder. Raises TryAgainLater when the memory or its share is used up."""
        if self._used + size > self._limit:
            raise TryAgainLater("too many large requests are in progress; try again later")
        if self._used_by[holder] + size > self._share:
            raise TryAgainLater(
                "too many large requests of this client are in progress; try again later, "
                "or raise PROVER_HTTP__BODY_MEMORY_BYTES, of which a client gets half"
            )
        self._used += size
        self._used_by[holder] += size


class BodyLease:
    """Part of the budget that one request holds."""

    def __init__(self, budget: BodyBudget, holder: str) -> None:
        self._budget = budget
        self._holder = holder
        self.size = 0

    def cover(self, size: int) -> None:
        """Extend the lease to at least ``size`` bytes."""
        if size > self.size:
            self._budget.take(size - self.size, self._holder)
            self.size = size


async def read_body(request: web.Request, limits: HttpSettings, lease: BodyLease) -> bytes:
    """Return a body within the limits; bytes are charged when they arrive, not when they are announced.

    Raises BodyTooLarge, BodyTooSlow, TryAgainLater when memory for bodies is used up, MalformedRequest when the
    framing or the compression is broken.
    """
    _require_size(request.content_length or 0, limits)
    chunks: list[bytes] = []
    size = 0
    loop = asyncio.get_running_loop()
    last_moment = loop.time() + limits.body_timeout_s
    period_bytes = limits.body_rate_bytes_per_s * _RATE_PERIOD_S
    wanted = period_bytes
    try:
        async with asyncio.timeout_at(min(last_moment, loop.time() + _RATE_PERIOD_S)) as timeout:
            async for chunk in request.content.iter_any():
                size += len(chunk)
                _require_size(size, limits)
                lease.cover(size)
                chunks.append(chunk)
                if size >= wanted:
                    wanted = size + period_bytes
                    timeout.reschedule(min(last_moment, loop.time() + _RATE_PERIOD_S))
    except TimeoutError as error:
        raise BodyTooSlow from error
    except web.RequestPayloadError as error:
        raise MalformedRequest("the request body cannot be read as its headers announce") from error
    if size <= _IN_LOOP_BYTES:
        return b"".join(chunks)
    return await asyncio.to_thread(b"".join, chunks)


class ExaminedBody(Struct, frozen=True):
    """A body with its SHA-256 and its envelope, which has the other members undecoded."""

    digest: bytes
    envelope: Envelope
    text: bytes
    """The body; a large one without whitespace and unknown members."""


async def examine(body: bytes) -> ExaminedBody:
    """Hash a body and read its envelope, for large ones in two threads, mostly without the interpreter lock.

    Raises MalformedRequest, BodyTooLarge.
    """
    if len(body) <= _IN_LOOP_BYTES:
        return ExaminedBody(_digest(body), read_envelope(body), body)
    digest, (envelope, text) = await asyncio.gather(
        asyncio.to_thread(_digest, body), asyncio.to_thread(_compact_envelope, body)
    )
    return ExaminedBody(digest, envelope, text)


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()


def _compact_envelope(body: bytes) -> tuple[Envelope, bytes]:
    text = compact(body)
    return read_envelope(text), text


def _require_size(size: int, limits: HttpSettings) -> None:
    if size > limits.body_limit_bytes:
        raise BodyTooLarge(f"the request body is larger than {limits.body_limit_bytes} bytes")
