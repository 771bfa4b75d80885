"""State for the probes of an orchestrator: need of a restart, success of the start; no I/O."""

from collections.abc import Callable, Collection

from forester.observability.health import HealthBoard, Problem

STEPS = ("node", "indexer", "tasks")
"""Steps of a start: the node and the indexer have answered once, the tasks of the daemon run."""


class Probes:
    """Steps of the start that are left, and tasks that have died. A process that drains has no dead tasks."""

    def __init__(self) -> None:
        self._left = dict.fromkeys(STEPS)
        self._sources: list[Callable[[], Collection[str]]] = []
        self.draining = False

    def reach(self, step: str) -> None:
        """Record that a step of the start has succeeded; a later failure does not undo it."""
        self._left.pop(step, None)

    def follow(self, board: HealthBoard) -> None:
        """Record the indexer's first answer when the board records the indexer as healthy."""

        def record(condition: str, problem: Problem | None) -> None:
            if condition == "indexer" and problem is None:
                self.reach(condition)

        board.subscribe(record)

    def watch(self, dead_tasks: Callable[[], Collection[str]]) -> None:
        """Read the names of dead tasks from one more source."""
        self._sources.append(dead_tasks)

    @property
    def missing(self) -> tuple[str, ...]:
        """Steps of the start that have not succeeded yet."""
        return tuple(self._left)

    @property
    def dead_tasks(self) -> tuple[str, ...]:
        """Names of the tasks that have died."""
        return () if self.draining else tuple(sorted({name for source in self._sources for name in source()}))
