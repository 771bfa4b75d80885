"""Limit on log lines that any client can cause: a maximum per reason, and a count of the suppressed ones."""

from prometheus_client import Counter

from prover.http.access.rate_limit import TokenBucket

_BURST = 20
_LINES_PER_S = 1


class LogThrottle:
    """Limits per reason: 20 log lines at once, then one per second.

    Reasons come from closed sets, such as error codes, so their number is bounded.
    """

    def __init__(self, suppressed: Counter) -> None:
        self._metric = suppressed
        self._buckets: dict[str, TokenBucket] = {}
        self._suppressed: dict[str, int] = {}

    def admit(self, reason: str) -> dict[str, int] | None:
        """Return fields for the line to write, with the number of lines suppressed before it; None for no line."""
        bucket = self._buckets.get(reason)
        if bucket is None:
            bucket = self._buckets[reason] = TokenBucket(_LINES_PER_S, _BURST)
        if bucket.take():
            self._suppressed[reason] = self._suppressed.get(reason, 0) + 1
            self._metric.labels(reason).inc()
            return None
        suppressed = self._suppressed.pop(reason, 0)
        return {"suppressed": suppressed} if suppressed else {}
