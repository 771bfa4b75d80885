"""Observations of the services that a forester calls: latency, last error, lag; filled by the calls themselves.

Source: forester/docs/reference/dashboard.md, "Activity object".
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from types import SimpleNamespace

import aiohttp
from yarl import URL

from forester.redaction import mask

NODE, INDEXER, PROVER = "node", "indexer", "prover"
"""Roles of services."""

_KEPT = 32
"""Latest calls whose median is the latency."""

_ERROR_LENGTH = 300

_UNANSWERED_S = 2.0
"""A call that is cancelled later than this was not answered in time. Limits of calls are longer, and end them by
cancellation, as a drain does at any moment."""

_SERVER_FAULT = 500
_NOT_FOUND = 404
_REFUSED = (401, 402, 403, _NOT_FOUND, 408, 429)


@dataclass
class ServiceRecord:
    """A service: ``role`` (node, indexer, prover), its host, and the calls to it.

    ``failures`` counts consecutive ones. Times are Unix seconds; ``lag_slots`` is how far an indexer is behind,
    ``queued`` the jobs that wait at a prover.
    """

    role: str
    host: str
    fallback: bool = False
    in_use: Callable[[], bool] = lambda: True
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))
    answered_at: float | None = None
    failed_at: float | None = None
    failures: int = 0
    failing_since: float | None = None
    error: str | None = None
    lag_slots: int | None = None
    queued: int | None = None

    @property
    def latency_s(self) -> float | None:
        """Median seconds of the latest calls; None before the first answer."""
        return median(self.seconds) if self.seconds else None


class ServiceRecords:
    """The services of one process, in the order in which they were added."""

    def __init__(self) -> None:
        self._records: dict[tuple[str, str], ServiceRecord] = {}

    @property
    def records(self) -> tuple[ServiceRecord, ...]:
        """All services."""
        return tuple(self._records.values())

    def add(
        self, role: str, url: str, *, fallback: bool = False, in_use: Callable[[], bool] = lambda: True
    ) -> ServiceRecord | None:
        """Observe the service at ``url``, of which only the host is kept; None for a URL without one."""
        origin = _origin(url)
        if origin is None:
            return None
        key = (role, origin)
        if key not in self._records:
            self._records[key] = ServiceRecord(role, origin, fallback, in_use)
        return self._records[key]

    def of(self, role: str, url: str) -> ServiceRecord | None:
        """Return the record of a service; None if it is not observed."""
        origin = _origin(url)
        return None if origin is None else self._records.get((role, origin))

    def trace(self, *roles: str) -> aiohttp.TraceConfig:
        """Return the observer of a session that calls services of ``roles``.

        A call lasts until the header of its answer. Calls that the server holds open until something happens
        (``wait`` in the query) have no latency, and may be cancelled at any time. So may a call whose
        ``trace_request_ctx`` is a function that returns whether its time is over, unless it is.
        """
        config = aiohttp.TraceConfig()

        def found(url: URL) -> ServiceRecord | None:
            origin = _origin(url)
            records = (self._records.get((role, origin)) for role in roles) if origin is not None else ()
            return next((record for record in records if record is not None), None)

        async def began(_: aiohttp.ClientSession, context: SimpleNamespace, __: object) -> None:
            context.began = time.monotonic()

        async def ended(_: aiohttp.ClientSession, context: SimpleNamespace, end: aiohttp.TraceRequestEndParams) -> None:
            record, status = found(end.url), end.response.status
            if record is None:
                return
            is_gone = end.method == "DELETE" and status == _NOT_FOUND  # as intended
            if status >= _SERVER_FAULT or (status in _REFUSED and not is_gone):
                self._failed(record, f"answered with status {status}")
                return
            record.failures, record.failing_since, record.answered_at = 0, None, time.time()
            if "wait" not in end.url.query:
                record.seconds.append(time.monotonic() - context.began)

        async def failed(
            _: aiohttp.ClientSession, context: SimpleNamespace, end: aiohttp.TraceRequestExceptionParams
        ) -> None:
            record, lasted_s = found(end.url), time.monotonic() - context.began
            if record is None:
                return
            if isinstance(end.exception, Exception):
                self._failed(record, str(end.exception) or type(end.exception).__name__)
            elif (
                isinstance(end.exception, asyncio.CancelledError)
                and lasted_s >= _UNANSWERED_S
                and "wait" not in end.url.query
                and (context.trace_request_ctx is None or context.trace_request_ctx())
            ):
                self._failed(record, f"no answer within {lasted_s:.1f} s")

        config.on_request_start.append(began)
        config.on_request_end.append(ended)
        config.on_request_exception.append(failed)
        return config

    def _failed(self, record: ServiceRecord, error: str) -> None:
        record.failures += 1
        record.failed_at = time.time()
        record.failing_since = record.failing_since or record.failed_at
        record.error = mask(error)[:_ERROR_LENGTH]


def _origin(url: URL | str) -> str | None:
    """Return host and port: path and query may hold a key."""
    try:
        parsed = URL(url)
        return None if parsed.host is None else f"{parsed.host}:{parsed.port}"
    except ValueError:
        return None
