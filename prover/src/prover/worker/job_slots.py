"""How many jobs an instance works on at once: so many per lane, and so many in all."""

from collections import Counter
from collections.abc import Callable

from prover.queue.circuit_queues import CircuitQueue


class JobSlots:
    """Places for jobs; belongs to the event loop."""

    def __init__(self, per_lane: int, in_all: int) -> None:
        self._per_lane = per_lane
        self._in_all = in_all
        self._taken: Counter[CircuitQueue] = Counter()
        self._watchers: list[Callable[[], None]] = []

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call ``watcher`` whenever a place is taken or given back."""
        self._watchers.append(watcher)

    def is_free(self, lane: CircuitQueue) -> bool:
        """Whether another job of a lane may be begun."""
        return self._taken[lane] < self._per_lane and self._taken.total() < self._in_all

    def take(self, lane: CircuitQueue) -> bool:
        """Take a place; False when none is free."""
        if not self.is_free(lane):
            return False
        self._change(lane, 1)
        return True

    def give_back(self, lane: CircuitQueue) -> None:
        """Free a place that was taken."""
        self._change(lane, -1)

    def _change(self, lane: CircuitQueue, by: int) -> None:
        self._taken[lane] += by
        for watcher in self._watchers:
            watcher()
