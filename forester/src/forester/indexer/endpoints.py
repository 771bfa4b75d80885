"""Choice between two indexers: the fallback while the first fails or is stuck; no I/O."""

import time
from collections.abc import Callable

from yarl import URL

from forester.urls import shown
from shared.process.logs import get_logger

FAILURES_BEFORE_FALLBACK = 3
PROBE_S = 30.0
"""After this long on the fallback, one exchange tries the first indexer again."""

SLOTS_APART = 20
"""A later indexer reports itself unhealthy (forester/docs/reference/indexer.md, "Health and slot")."""

_log = get_logger(__name__)


class Endpoints:
    """The first indexer, and a fallback or none. ``clock`` returns seconds."""

    def __init__(self, first: str, fallback: str | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.first = URL(first)
        self.fallback = URL(fallback) if fallback is not None else None
        self._clock = clock
        self._failures = 0
        self._fallback_until = 0.0
        self._failed_over = False
        self._contradicted_until = 0.0

    @property
    def current(self) -> URL:
        """The indexer in use: the fallback for a while after failures of the first, or while that is stuck."""
        if self.fallback is not None and (self._failed_over or self._clock() < self._fallback_until):
            return self.fallback
        return self.first

    def begin_probe(self) -> bool:
        """Return whether to check the first indexer, which was stuck; True for one of several callers."""
        if not self._failed_over or self._clock() < self._fallback_until:
            return False
        self._fallback_until = self._clock() + PROBE_S
        return True

    def other(self, url: URL) -> URL | None:
        """Return the indexer that is not ``url``, None if there is only one."""
        return self.fallback if url is self.first else self.first

    def note(self, url: URL, *, failed: bool) -> None:
        """Record the result of an exchange; after consecutive failures the fallback is used for PROBE_S seconds.

        A failing fallback, in use because the first is stuck, is replaced by the first in the same way.
        """
        if self.fallback is None or url is not (self.fallback if self._failed_over else self.first):
            return
        self._failures = self._failures + 1 if failed else 0
        if self._failures >= FAILURES_BEFORE_FALLBACK:
            if self._failed_over:
                self.fail_over(url)
            else:
                if not self._fallback_until:  # an outage is one line, however often the first one is tried
                    self._log_failover(url)
                self._fallback_until = self._clock() + PROBE_S
        elif not failed and not self._failed_over and 0 < self._fallback_until <= self._clock():
            self._recovered()

    def fail_over(self, url: URL) -> None:
        """Use the other indexer from now on: this one is unusable although it may answer."""
        self._log_failover(url)
        self._failed_over = url is self.first
        self._failures = 0
        self._fallback_until = self._clock() + PROBE_S if self._failed_over else 0.0

    def contradicted(self) -> None:
        """Use the other indexer, because the chain contradicts answers of this one; once in PROBE_S seconds.

        Answers of the replaced indexer may still be in use meanwhile: they must not replace the other one.
        """
        if self.fallback is None or self._clock() < self._contradicted_until:
            return
        self._contradicted_until = self._clock() + PROBE_S
        self.fail_over(self.current)

    def record_probe(self, *, late: bool) -> None:
        """Record whether the first indexer is still late, unless the fallback was replaced meanwhile."""
        if not self._failed_over:
            return
        self._failed_over = late
        self._failures = 0
        if late:
            self._fallback_until = self._clock() + PROBE_S
        else:
            self._recovered()

    def _recovered(self) -> None:
        self._fallback_until = 0.0
        _log.info("indexer_primary_recovered", indexer=shown(self.first))

    def _log_failover(self, url: URL) -> None:
        _log.warning("indexer_failed_over", indexer=shown(url), failures=self._failures)
