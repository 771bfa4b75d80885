"""Request bodies, bounded each and in total, in bytes and in time."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web
from msgspec import Struct

from prover.errors import BodyTooLarge, BodyTooSlow, MalformedRequest, TryAgainLater
from prover.proving.request import compact, is_readable, read_envelope, read_readable_envelope
from prover.settings import HttpSettings
from shared.requests.proof_wire import Envelope

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


class ReceivedBody(Struct, frozen=True):
    """The bytes of a body, and their SHA-256."""

    text: bytes | bytearray
    digest: bytes


async def read_body(request: web.Request, limits: HttpSettings, lease: BodyLease) -> ReceivedBody:
    """Return a body within the limits; bytes are charged when they arrive, not when they are announced.

    They are joined and hashed when they arrive, so that less is to be done after the last one.

    Raises BodyTooLarge, BodyTooSlow, TryAgainLater when memory for bodies is used up, MalformedRequest when the
    framing or the compression is broken.
    """
    _require_size(request.content_length or 0, limits)
    text = bytearray()
    digest = hashlib.sha256()
    loop = asyncio.get_running_loop()
    last_moment = loop.time() + limits.body_timeout_s
    period_bytes = limits.body_rate_bytes_per_s * _RATE_PERIOD_S
    wanted = period_bytes
    try:
        async with asyncio.timeout_at(min(last_moment, loop.time() + _RATE_PERIOD_S)) as timeout:
            async for chunk in request.content.iter_any():
                size = len(text) + len(chunk)
                _require_size(size, limits)
                lease.cover(size)
                text += chunk
                digest.update(chunk)
                if size >= wanted:
                    wanted = size + period_bytes
                    timeout.reschedule(min(last_moment, loop.time() + _RATE_PERIOD_S))
    except TimeoutError as error:
        raise BodyTooSlow from error
    except web.RequestPayloadError as error:
        raise MalformedRequest("the request body cannot be read as its headers announce") from error
    return ReceivedBody(bytes(text) if len(text) <= _IN_LOOP_BYTES else text, digest.digest())


class ExaminedBody(Struct, frozen=True):
    """A body with its SHA-256 and its envelope, which has the other members undecoded."""

    digest: bytes
    envelope: Envelope
    text: bytes | bytearray
    """The body; a large one that is stored, or too large as it is, without whitespace and unknown members."""


async def examine(body: ReceivedBody, *, is_stored: bool = True) -> ExaminedBody:
    """Read the envelope of a body, of a large one in a thread; ``is_stored`` if its text may become a job.

    Raises MalformedRequest, BodyTooLarge.
    """
    if isinstance(body.text, bytes):
        return ExaminedBody(body.digest, read_envelope(body.text), body.text)
    envelope, text = await asyncio.to_thread(_large_envelope, body.text, is_stored)
    return ExaminedBody(body.digest, envelope, text)


def _large_envelope(body: bytes | bytearray, is_stored: bool) -> tuple[Envelope, bytes | bytearray]:
    if not is_stored and is_readable(body):
        return read_readable_envelope(body), body
    text = compact(body)
    return read_envelope(text), text


def _require_size(size: int, limits: HttpSettings) -> None:
    if size > limits.body_limit_bytes:
        raise BodyTooLarge(f"the request body is larger than {limits.body_limit_bytes} bytes")
