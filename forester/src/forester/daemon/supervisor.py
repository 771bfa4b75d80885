"""Tasks that are restarted when they fail, and end together within a bounded time.

A failure never reaches another task. A task that wants to end cleanly checks ``stopping``; others are cancelled. A task
that a bug has cancelled is dead: only a restart of the process starts it again.
"""

import asyncio
from collections.abc import Awaitable, Callable

from prometheus_client import CollectorRegistry, Counter

from forester.errors import ForesterError
from forester.waiting import occurs_within
from shared.process.logs import get_logger
from shared.process.retries import Backoff, run_restarting

_log = get_logger(__name__)

RESTARTS = Backoff(0.2, 30.0)
STEADY_S = 60.0
"""A task that ran this long before it failed begins with the shortest pause again."""

Work = Callable[[], Awaitable[object]]


class Supervisor:
    """The tasks of one process. Restarts are counted by ``kind``, of which there are few; names are for logs.

    ``failed`` is called with the kind of a task, its consecutive failures, and the reason.
    """

    def __init__(
        self,
        registry: CollectorRegistry | None = None,
        *,
        failed: Callable[[str, int, str], None] = lambda *_: None,
        backoff: Backoff = RESTARTS,
    ) -> None:
        self._failed = failed
        self._backoff = backoff
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._draining: set[str] = set()
        self._dead: set[str] = set()
        self.stopping = asyncio.Event()
        self.restarts = Counter(
            "forester_task_restarts_total",
            "Tasks that failed and were started again",
            ("task",),
            registry=registry or CollectorRegistry(auto_describe=True),
        )

    @property
    def names(self) -> frozenset[str]:
        """Names of the tasks that run."""
        return frozenset(self._tasks)

    @property
    def dead(self) -> frozenset[str]:
        """Names of the tasks that have died."""
        return frozenset(self._dead)

    def start(self, kind: str, work: Work, *, name: str | None = None, drains: bool = False) -> None:
        """Run ``work`` until it returns; ValueError if a task of this name runs; no effect while stopping.

        With ``drains`` the task checks ``stopping`` and then ends; other tasks are cancelled at once.
        """
        name = name or kind
        if name in self._tasks:
            raise ValueError(f"a task named {name} is running")
        if self.stopping.is_set():
            return
        task = asyncio.create_task(self._supervise(kind, name, work), name=name)
        self._tasks[name] = task
        if drains:
            self._draining.add(name)
        task.add_done_callback(self._forget)

    async def stop(self, within_s: float) -> bool:
        """Request the end of all tasks, cancel the rest after ``within_s`` seconds; return False if any was."""
        self.stopping.set()
        draining = {task for name, task in self._tasks.items() if name in self._draining}
        others = set(self._tasks.values()) - draining
        for task in others:
            task.cancel()
        late = (await asyncio.wait(draining, timeout=within_s))[1] if draining else set()
        for task in late:
            task.cancel()
        if late:
            _log.warning("drain_cut_short", tasks=sorted(task.get_name() for task in late), after_s=within_s)
        if late or others:
            await asyncio.wait(late | others)
        return not late

    def count_failure(self, kind: str, failures: int, reason: str) -> None:
        """Count a defect that a task of a kind survived as if the task had been restarted."""
        self.restarts.labels(kind).inc()
        self._failed(kind, failures, reason)

    def _forget(self, task: asyncio.Task[None]) -> None:
        name = task.get_name()
        del self._tasks[name]
        self._draining.discard(name)
        if (task.cancelled() or task.exception() is not None) and not self.stopping.is_set():
            self._dead.add(name)
            _log.error("task_died", task=name, exc_info=None if task.cancelled() else task.exception())

    async def _supervise(self, kind: str, name: str, work: Work) -> None:
        def failed(error: Exception, failures: int, pause_s: float) -> None:
            _report(name, error, failures, pause_s)
            self.count_failure(kind, failures, str(error) or type(error).__name__)

        if not self.stopping.is_set():
            await run_restarting(work, self._backoff, failed, steady_s=STEADY_S, pause=self.pause)

    async def pause(self, seconds: float) -> bool:
        """Sleep until the time or the end of all tasks is over; return whether the end is requested."""
        return await occurs_within(self.stopping, seconds)


def _report(name: str, error: Exception, failures: int, pause_s: float) -> None:
    """Log expected failures in one line, other errors with their trace."""
    facts = {"task": name, "failures": failures, "again_in_s": round(pause_s, 3)}
    if isinstance(error, ForesterError):
        _log.warning("task_failed", error=error.detail, **facts)
    else:
        _log.error("task_crashed", exc_info=error, **facts)
