"""Heartbeat of an event loop, read by probes from another thread."""

import asyncio
import time

_PERIOD_S = 1.0

READY_SILENCE_S = 5.0
"""Seconds without a heartbeat after which readiness fails."""

LIVE_SILENCE_S = 30.0
"""Seconds without a heartbeat after which liveness fails: only a restart helps."""


class LoopHeartbeat:
    """Time stamp that the event loop renews every second until ``close``."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._beat()

    @property
    def silence_s(self) -> float:
        """Seconds since the last stamp."""
        return time.monotonic() - self._stamp

    def close(self) -> None:
        """Stop stamping."""
        self._timer.cancel()

    def _beat(self) -> None:
        self._stamp = time.monotonic()
        self._timer = self._loop.call_later(_PERIOD_S, self._beat)
