"""The compressible accounts of this forester, as ``/compressible`` and the metrics report them.

Source: forester/docs/reference/behaviour.md, "HTTP API".
"""

import time
from typing import Any

from forester.journal.compressible import TrackedCounts
from forester.observability.metrics import Metrics

REFRESH_EVERY_S = 5


class CompressibleView:
    """The latest counts; without any, compressible accounts are not tracked."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._latest: tuple[int, TrackedCounts, float] | None = None

    def show(self, slot: int, counts: TrackedCounts) -> None:
        """Publish the counts of a slot."""
        self._latest = slot, counts, time.time()
        self._metrics.compressible_tracked.set(counts.tracked)
        self._metrics.compressible_ready.set(counts.ready)

    def as_object(self) -> dict[str, Any]:
        """Return the answer of ``/compressible`` in the reference's format."""
        if self._latest is None:
            return {"enabled": False, "source": "none", "cached_at": int(time.time())}
        slot, counts, at = self._latest
        accounts: dict[str, Any] = {
            "tracked": counts.tracked,
            "compressed": self._metrics.accounts_compressed_count,
            "ready": counts.ready,
            "waiting": counts.waiting,
        }
        if counts.next_ready_slot is not None:
            accounts["next_ready_slot"] = counts.next_ready_slot
        return {
            "enabled": True,
            "ctoken_count": counts.tracked,
            "current_slot": slot,
            "total_tracked": counts.tracked,
            "total_ready": counts.ready,
            "total_waiting": counts.waiting,
            "ctoken": accounts,
            "refresh_interval_secs": REFRESH_EVERY_S,
            "source": "tracker",
            "cached_at": int(at),
        }
