"""The bound on jobs that an instance proves at once, per circuit queue and in total."""

from collections import Counter
from collections.abc import Callable

from prover.queue.circuit_queues import CircuitQueue


class JobSlots:
    """Jobs that an instance may prove at once. Belongs to the event loop."""

    def __init__(self, per_queue: int, total: int) -> None:
        self._per_queue = per_queue
        self._total = total
        self._in_use: Counter[CircuitQueue] = Counter()
        self._watchers: list[Callable[[], None]] = []

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call ``watcher`` whenever a slot is acquired or released."""
        self._watchers.append(watcher)

    def is_free(self, queue: CircuitQueue) -> bool:
        """Return whether another job of a queue may start."""
        return self._in_use[queue] < self._per_queue and self._in_use.total() < self._total

    def acquire(self, queue: CircuitQueue) -> bool:
        """Acquire a slot; False when none is free."""
        if not self.is_free(queue):
            return False
        self._change(queue, 1)
        return True

    def release(self, queue: CircuitQueue) -> None:
        """Release an acquired slot."""
        self._change(queue, -1)

    def _change(self, queue: CircuitQueue, by: int) -> None:
        self._in_use[queue] += by
        for watcher in self._watchers:
            watcher()
