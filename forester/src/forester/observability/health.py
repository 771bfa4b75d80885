"""Problems that make the forester unfit, written by the daemon, read by the monitoring API and the alerts; no I/O.

A condition is a short fixed word (``funds``, ``registration``, ``task tree``), so that there are few, and the same
problem always has the same name; variable details belong in its reason.
"""

import enum
import time
from collections.abc import Callable

import msgspec

from forester.observability.work_records import Short, Text
from forester.redaction import mask
from shared.process.logs import get_logger

_log = get_logger(__name__)

MAXIMUM_CONDITIONS = 64
TASK_FAILURES = 3
"""Consecutive failures after which a restarted task makes the forester unhealthy."""

TASK_QUIET_S = 120.0
"""Seconds without a failure after which a task works again; the longest pause before a restart is well below."""


class Severity(enum.StrEnum):
    """Severity of a problem, in the words of incident alerts."""

    CRITICAL = "critical"
    ERROR = "error"
    WARNING = "warning"


class Problem(msgspec.Struct, frozen=True):
    """A condition that holds, with its masked reason, its beginning (Unix seconds), and its severity.

    It is a member of the activity document, in which another process may have severities that this one does not know.
    """

    condition: Short
    reason: Text
    since: float
    severity: Short


Listener = Callable[[str, Problem | None], None]
"""Called with a condition and its problem, None if it does not hold; it must not block and not raise."""


class HealthBoard:
    """The problems of one process; belongs to one event loop. ``clock`` returns Unix seconds."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._problems: dict[str, Problem] = {}
        self._lapses: dict[str, float] = {}
        self._reported: set[str] = set()
        self._listeners: list[Listener] = []

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Problems that hold now, the oldest first."""
        self.sweep()
        return tuple(self._problems.values())

    def subscribe(self, listener: Listener) -> None:
        """Call ``listener`` from now on when a condition begins to hold, and when it ends.

        The first time that a condition is found not to hold counts as an end: an earlier process may have reported it.
        """
        self._listeners.append(listener)

    def report(
        self,
        condition: str,
        reason: str,
        *,
        severity: Severity = Severity.CRITICAL,
        lapses_after_s: float | None = None,
    ) -> None:
        """Report that a condition holds, or still holds; it ends ``lapses_after_s`` after the last report."""
        before = self._problems.get(condition)
        if before is None and len(self._problems) >= MAXIMUM_CONDITIONS:
            _log.warning("condition_dropped", condition=condition, reason=reason)
            return
        now = self._clock()
        problem = Problem(condition, mask(reason), now if before is None else before.since, severity)
        self._problems[condition] = problem
        if lapses_after_s is None:
            self._lapses.pop(condition, None)
        else:
            self._lapses[condition] = now + lapses_after_s
        if before is None:
            _log.warning("unhealthy", condition=condition, reason=problem.reason)
            self._notify(condition, problem)

    def clear(self, condition: str) -> None:
        """Report that a condition does not hold."""
        self._lapses.pop(condition, None)
        before = self._problems.pop(condition, None)
        if before is not None:
            _log.info("health_restored", condition=condition, after_s=round(self._clock() - before.since, 1))
            self._notify(condition, None)
        elif condition not in self._reported and len(self._reported) < MAXIMUM_CONDITIONS:
            self._notify(condition, None)

    def set(self, condition: str, reason: str | None, *, severity: Severity = Severity.CRITICAL) -> None:
        """Report a condition with its reason, or clear it when there is none."""
        if reason is None:
            self.clear(condition)
        else:
            self.report(condition, reason, severity=severity)

    def task_failed(self, task: str, failures: int, error: str) -> None:
        """Report consecutive failures of a supervised task; the condition ends when the failures do."""
        if failures >= TASK_FAILURES:
            reason = f"the task {task} failed {failures} times in a row: {error}"
            self.report(f"task {task}", reason, severity=Severity.ERROR, lapses_after_s=TASK_QUIET_S)

    def sweep(self) -> None:
        """End conditions that have lapsed, as reading ``problems`` also does."""
        now = self._clock()
        for condition in [name for name, at in self._lapses.items() if now >= at]:
            self.clear(condition)

    def _notify(self, condition: str, problem: Problem | None) -> None:
        if len(self._reported) < MAXIMUM_CONDITIONS:
            self._reported.add(condition)
        for listener in self._listeners:
            listener(condition, problem)
