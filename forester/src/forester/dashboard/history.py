"""Samples of the last 24 hours: one a minute into the journal, and as columns for the curves."""

import asyncio
import time
from collections.abc import Callable, Sequence

from forester.dashboard.activity import HistoryFacts
from forester.journal.samples import KEPT_MINUTES, MINUTE_S, Sample, SampleStore
from forester.network_status.snapshot import SnapshotKeeper
from forester.observability.metrics import Metrics, total

_COLUMNS = ("backlog", "proofs", "elements", "lamports")
STEP_MINUTES = 5
"""Minutes of a point of the curves."""


class Sampler:
    """Task that stores a sample a minute; ``history`` returns the curves of what is stored. ``clock``: Unix seconds."""

    def __init__(
        self,
        store: SampleStore,
        metrics: Metrics,
        snapshots: SnapshotKeeper,
        balance: Callable[[], int | None],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._snapshots = snapshots
        self._balance = balance
        self._clock = clock
        self._counted = self._counts()
        self.history: HistoryFacts | None = None
        """The curves; None before the journal has been read."""

    async def run(self) -> None:
        """Read what is stored, then store a sample at the end of every minute, forever. Raises JournalError."""
        self._show(await self._store.recent(self._minute()))
        while True:
            await asyncio.sleep(MINUTE_S - self._clock() % MINUTE_S)
            await self.sample()

    async def sample(self) -> None:
        """Store a sample now. Raises JournalError."""
        proofs, elements = self._counts()
        before, self._counted = self._counted, (proofs, elements)
        latest = self._snapshots.latest
        backlog = None
        if latest is not None:
            backlog = sum(count for item in latest.state.trees for count in item.pending.values())
        sample = Sample(
            *(self._minute(), backlog, max(0, proofs - before[0]), max(0, elements - before[1])), self._balance()
        )
        self._show(await self._store.add(sample))

    def _minute(self) -> int:
        return int(self._clock() // MINUTE_S)

    def _counts(self) -> tuple[int, int]:
        return total(self._metrics.proofs_made), total(self._metrics.processed)

    def _show(self, samples: Sequence[Sample]) -> None:
        self.history = columns(samples, self._minute())


def columns(samples: Sequence[Sample], minute: int) -> HistoryFacts:
    """Return the curves of the 24 hours that end with ``minute``, in points of STEP_MINUTES.

    A point has the last backlog and balance of its minutes, and the sums of their proofs and elements.
    """
    last = minute // STEP_MINUTES
    points = KEPT_MINUTES // STEP_MINUTES
    first = last - points + 1
    by_point: dict[int, Sample] = {}
    for sample in samples:
        point = sample.minute // STEP_MINUTES - first
        if not 0 <= point < points:
            continue
        before = by_point.get(point)
        proofs, elements = (before.proofs, before.elements) if before is not None else (0, 0)
        by_point[point] = Sample(
            sample.minute, sample.backlog, proofs + sample.proofs, elements + sample.elements, sample.lamports
        )
    order = [by_point.get(point) for point in range(points)]
    return HistoryFacts(
        began=first * STEP_MINUTES * MINUTE_S,
        step_s=STEP_MINUTES * MINUTE_S,
        **{name: [None if item is None else getattr(item, name) for item in order] for name in _COLUMNS},
    )
