"""Limits of log lines that any client can cause, one for each reason, and a count of the suppressed lines."""

from prometheus_client import Counter

from shared.process.rate_limits import LogThrottle

_BURST = 20
_APART_S = 1.0


class LogThrottles:
    """Limits per reason: 20 log lines at once, then one per second.

    Reasons come from closed sets, such as error codes, so their number is bounded.
    """

    def __init__(self, suppressed: Counter) -> None:
        self._metric = suppressed
        self._throttles: dict[str, LogThrottle] = {}

    def admit(self, reason: str) -> dict[str, int] | None:
        """Return fields for the line to write, with the number of lines suppressed before it; None for no line."""
        throttle = self._throttles.setdefault(reason, LogThrottle(_APART_S, _BURST))
        events = throttle.due()
        if not events:
            self._metric.labels(reason).inc()
            return None
        return {"suppressed": events - 1} if events > 1 else {}
