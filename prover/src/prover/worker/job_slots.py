"""The bound on jobs that an instance proves at once, per circuit and in total."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable

from prover.queue.circuit_queues import CircuitQueue


class JobSlots:
    """Jobs that an instance may prove at once; the queues take turns. Belongs to the event loop.

    The queues of a circuit's networks share the slots of the circuit, because proofs of all of them need its memory.
    """

    def __init__(self, queues: Iterable[CircuitQueue], per_circuit: int, total: int) -> None:
        self.queues = list(queues)
        self.total = total
        self._per_circuit = per_circuit
        self._turns = list(self.queues)
        self._in_use: Counter[CircuitQueue] = Counter()
        self._watchers: list[Callable[[], None]] = []

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call ``watcher`` whenever a slot is acquired or released."""
        self._watchers.append(watcher)

    def is_free(self, queue: CircuitQueue) -> bool:
        """Return whether another job of a queue may start."""
        return self._in_use[queue.without_network] < self._per_circuit and self._in_use.total() < self.total

    def acquire(self, queue: CircuitQueue) -> bool:
        """Acquire a slot; False when none is free."""
        if not self.is_free(queue):
            return False
        self._turns.remove(queue)
        self._turns.append(queue)
        self._change(queue, 1)
        return True

    def acquire_next(self, idle: Collection[CircuitQueue]) -> CircuitQueue | None:
        """Acquire a slot for the queue that had its turn longest ago, except ``idle`` ones; None when none is free."""
        return next((queue for queue in list(self._turns) if queue not in idle and self.acquire(queue)), None)

    def release(self, queue: CircuitQueue) -> None:
        """Release an acquired slot."""
        self._change(queue, -1)

    def _change(self, queue: CircuitQueue, by: int) -> None:
        self._in_use[queue.without_network] += by
        for watcher in self._watchers:
            watcher()
