"""Inflow, outflow and age of the elements in queues, from consecutive states of the network; no I/O."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from forester.network_status.state import NetworkState, TreeState

WINDOW_S = 600.0
"""Inflow and outflow are means of this time."""

_MAXIMUM_MARKS = 240


class Counts(NamedTuple):
    """Elements that ever entered a queue, and elements that left it, since any point in time."""

    entered: int
    left: int


@dataclass(frozen=True)
class QueueFlow:
    """A queue at its last reading: elements that wait, elements per second in and out over ``over_s`` seconds.

    ``age_s`` is the minimum age of the oldest element: exact unless ``older`` is true, as it waited at the first
    reading. ``to_empty_s`` is None while the queue does not shrink.
    """

    backlog: int
    inflow: float
    outflow: float
    over_s: float
    age_s: float
    older: bool

    @property
    def to_empty_s(self) -> float | None:
        """Seconds until the queue is empty at the present rates."""
        if not self.backlog:
            return 0.0
        rate = self.outflow - self.inflow
        return self.backlog / rate if rate > 0 else None


@dataclass
class _Queue:
    readings: deque[tuple[float, Counts]] = field(default_factory=deque)
    marks: deque[tuple[float, int]] = field(default_factory=deque)
    """When which number had entered; those before the oldest waiting element are dropped, except the last."""


class QueueFlows:
    """The flows of all trees, whose queues are added up. ``clock`` returns seconds."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._queues: dict[str, _Queue] = {}

    def observe(self, state: NetworkState) -> None:
        """Record a state; trees that are not in it are forgotten."""
        now = self._clock()
        found = {str(item.tree.address): item for item in state.trees}
        for address in self._queues.keys() - found.keys():
            del self._queues[address]
        for address, item in found.items():
            _record(self._queues.setdefault(address, _Queue()), now, counts_of(item))

    def of(self, tree: str) -> QueueFlow | None:
        """Return the flow of a tree; None before its first reading."""
        queue = self._queues.get(tree)
        if queue is None:
            return None
        at, last = queue.readings[-1]
        began, first = queue.readings[0]
        over_s = at - began
        entered, left = last.entered - first.entered, last.left - first.left
        backlog = max(0, last.entered - last.left)
        age_s, older = _age(queue, self._clock(), last) if backlog else (0.0, False)
        rates = (entered / over_s, left / over_s) if over_s > 0 else (0.0, 0.0)
        return QueueFlow(backlog, *rates, over_s, age_s, older)


def counts_of(item: TreeState) -> Counts:
    """Return the counts of a tree's queues.

    V2 queues count what enters them. Of a V1 queue only the waiting elements are known; a V1 tree changes once for each
    element that leaves its queue, and a state tree also for each leaf that is appended.
    """
    pending = sum(item.pending.values())
    if item.batched is not None:
        entered = sum(queue.next_index for queue in item.queues.values())
        return Counts(entered, entered - pending)
    head = item.head
    left = head.next_index if item.kind.label == "AddressV1" else max(0, head.sequence_number - head.next_index)
    return Counts(left + pending, left)


def _record(queue: _Queue, now: float, counts: Counts) -> None:
    if queue.readings:
        before = queue.readings[-1][1]
        # A chain that went back, or a node behind: rates begin again.
        if counts.entered < before.entered or counts.left < before.left:
            queue.readings.clear()
            queue.marks.clear()
    queue.readings.append((now, counts))
    while len(queue.readings) > 2 and now - queue.readings[0][0] > WINDOW_S:
        queue.readings.popleft()
    if not queue.marks or queue.marks[-1][1] != counts.entered:
        queue.marks.append((now, counts.entered))
    while len(queue.marks) > 1 and queue.marks[1][1] <= counts.left:
        queue.marks.popleft()
    if len(queue.marks) > _MAXIMUM_MARKS:
        del queue.marks[1]


def _age(queue: _Queue, now: float, last: Counts) -> tuple[float, bool]:
    """Return the age of the oldest waiting element, and whether it may be older."""
    for position, (at, entered) in enumerate(queue.marks):
        if entered > last.left:
            return now - at, position == 0
    return 0.0, False
