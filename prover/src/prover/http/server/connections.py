"""Limits on connections below HTTP: their number, and the time for the first header and for an unread answer."""

import asyncio
import resource
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from prover.errors import HeaderTooSlow, TryAgainLater
from prover.http.access.clients import peer_network
from prover.http.server.framing import raw_answer
from prover.http.server.log_throttle import LogThrottles
from prover.observability.metrics import Metrics
from prover.settings import HttpSettings
from shared.process.logs import get_logger

_log = get_logger(__name__)

_HEADER_ENDS = (b"\r\n\r\n", b"\n\n")
_LONGEST_END = 4
_RESERVED_DESCRIPTORS = 256
"""Descriptors for key files, logs and the metrics address."""

_FULL = raw_answer(TryAgainLater("too many connections are open; try again later (503)"), "Retry-After: 1")
_ADDRESS_FULL = raw_answer(
    TryAgainLater("too many connections are open from this address; try again later (503)"), "Retry-After: 1"
)
_TOO_SLOW = raw_answer(HeaderTooSlow())
_REFUSAL_TIMEOUT_S = 2
"""Seconds for a client to receive a refusal."""


class ConnectionGuards:
    """Factory of the guards of one listener; counts their connections in total and by network."""

    def __init__(
        self,
        make_handler: Callable[[], asyncio.Protocol],
        settings: HttpSettings,
        metrics: Metrics,
        log_throttle: LogThrottles,
    ) -> None:
        self._make_handler = make_handler
        self.limit = allowed_connections(settings.connection_limit)
        self.address_limit = settings.address_connection_limit or -(-self.limit // 2)
        self.header_timeout_s = settings.header_timeout_s
        self.write_timeout_s = settings.write_timeout_s
        self.open = 0
        self._open_by_network: Counter[str] = Counter()
        self._metrics = metrics
        self._log_throttle = log_throttle

    def __call__(self) -> "ConnectionGuard":
        """Return the protocol of a new connection."""
        return ConnectionGuard(self, self._make_handler())

    def enter(self, network: str) -> bytes | None:
        """Count a connection of a network; return the refusal if it exceeds a limit."""
        if self.open >= self.limit:
            self._metrics.rejected.labels("connections").inc()
            self.note_closed("connection_limit", network)
            return _FULL
        if self._open_by_network[network] >= self.address_limit:
            self._metrics.rejected.labels("connections").inc()
            self.note_closed("address_connection_limit", network)
            return _ADDRESS_FULL
        self.open += 1
        self._open_by_network[network] += 1
        self._metrics.connections.set(self.open)
        return None

    def leave(self, network: str) -> None:
        """Count a connection that was closed."""
        self.open -= 1
        self._open_by_network[network] -= 1
        if not self._open_by_network[network]:
            del self._open_by_network[network]
        self._metrics.connections.set(self.open)

    def refuse_header(self, network: str) -> None:
        """Count a header that did not end in time."""
        self._metrics.responses.labels(str(HeaderTooSlow.status)).inc()
        self.note_closed("header_timeout", network)

    def note_closed(self, reason: str, network: str) -> None:
        """Count and log a connection that was ended for a limit; the reason is the setting's name."""
        self._metrics.closed_connections.labels(reason).inc()
        fields = self._log_throttle.admit(reason)
        if fields is not None:
            _log.info("connection_closed", reason=reason, client=network, **fields)


class ConnectionGuard(asyncio.Protocol):
    """A protocol that enforces the limits and forwards to aiohttp's protocol.

    aiohttp closes a connection without data, or with an incomplete later header, after the idle timeout. The first
    header has its own, shorter limit.
    """

    def __init__(self, guards: ConnectionGuards, handler: asyncio.Protocol) -> None:
        self._guards = guards
        self._handler = handler
        self._transport: asyncio.Transport | None = None
        self._admitted = False
        self._network = ""
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._tail: bytes | None = b""
        """The last bytes of a header that has not ended yet; None once it has."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the connection, or answer 503 and close it."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - for the type checker
        self._transport = transport
        self._network = peer_network(transport.get_extra_info("peername"))
        refusal = self._guards.enter(self._network)
        if refusal is not None:
            transport.write(refusal)
            transport.close()
            return
        self._admitted = True
        # Writing pauses when the system's buffers are full. aiohttp then handles no further request of the connection,
        # so that it keeps one answer at most.
        transport.set_write_buffer_limits(high=0)
        self._handler.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Check for the end of the first header and forward the bytes."""
        if not self._admitted:
            return
        if self._tail is not None:
            self._watch(data)
        self._handler.data_received(data)

    def eof_received(self) -> bool | None:
        """Forward the end of input."""
        return self._handler.eof_received() if self._admitted else None

    def connection_lost(self, exc: Exception | None) -> None:
        """Forward the end of the connection and stop counting it."""
        self._stop_timer()
        self._stop_write_timer()
        if self._admitted:
            self._admitted = False
            self._guards.leave(self._network)
            self._handler.connection_lost(exc)

    def pause_writing(self) -> None:
        """Forward backpressure; a client has the write timeout to read the pending answer."""
        if self._admitted:
            loop = asyncio.get_running_loop()
            self._write_timer = loop.call_later(self._guards.write_timeout_s, self._abandon)
            self._handler.pause_writing()

    def resume_writing(self) -> None:
        """Forward the end of backpressure."""
        self._stop_write_timer()
        if self._admitted:
            self._handler.resume_writing()

    def _watch(self, data: bytes) -> None:
        assert self._tail is not None  # noqa: S101 - for the type checker
        # Servers ignore empty lines before a request.
        seen = self._tail + data if self._tail else data.lstrip(b"\r\n")
        if any(end in seen for end in _HEADER_ENDS):
            self._tail = None
            self._stop_timer()
            return
        self._tail = seen[-_LONGEST_END:]
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._guards.header_timeout_s, self._refuse_slow_header)

    def _refuse_slow_header(self) -> None:
        assert self._transport is not None  # noqa: S101 - data came in through it
        self._guards.refuse_header(self._network)
        self._transport.write(_TOO_SLOW)
        self._transport.close()
        self._timer = asyncio.get_running_loop().call_later(_REFUSAL_TIMEOUT_S, self._transport.abort)

    def _abandon(self) -> None:
        """Abort a connection whose client does not read; closing it would wait for the client."""
        assert self._transport is not None  # noqa: S101 - it was written to
        self._guards.note_closed("write_timeout", self._network)
        self._transport.abort()

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def allowed_connections(wanted: int) -> int:
    """Raise the limit of open files for ``wanted`` connections; return the number that the system allows."""
    needed = wanted + _RESERVED_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        target = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        with suppress(OSError, ValueError):  # the system limit may be lower
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    allowed = max(1, soft - _RESERVED_DESCRIPTORS)
    _log.warning(
        "connection_limit_lowered", wanted=wanted, allowed=allowed, remedy="raise the limit of open files (ulimit -n)"
    )
    return allowed
