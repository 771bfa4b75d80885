"""Which of two indexers is in use: the second while the first fails or stands; no I/O."""

import time
from collections.abc import Callable

from yarl import URL

from forester.urls import shown
from shared.logs import get_logger

FAILURES_BEFORE_FALLBACK = 3
PROBE_S = 30.0
"""After this long on the fallback, one exchange tries the first indexer again."""

SLOTS_APART = 20
"""An indexer that is farther behind calls itself unhealthy (forester/docs/reference/indexer.md, "Health and slot")."""

_log = get_logger(__name__)


class Endpoints:
    """The first indexer, and a second one or none. ``clock`` returns seconds."""

    def __init__(self, first: str, second: str | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.first = URL(first)
        self.second = URL(second) if second is not None else None
        self._clock = clock
        self._failures = 0
        self._second_until = 0.0
        self._standing = False

    @property
    def current(self) -> URL:
        """Where calls go: to the second one for a while after failures of the first, or while that stands."""
        if self.second is not None and (self._standing or self._clock() < self._second_until):
            return self.second
        return self.first

    def begin_look(self) -> bool:
        """Whether to look at the first indexer, which was left because it stood; of several askers one is told so."""
        if not self._standing or self._clock() < self._second_until:
            return False
        self._second_until = self._clock() + PROBE_S
        return True

    def other(self, url: URL) -> URL | None:
        """The indexer that is not ``url``, None if there is one only."""
        return self.second if url is self.first else self.first

    def note(self, url: URL, *, failed: bool) -> None:
        """Take in how an exchange went; after failures in a row the first indexer is left for PROBE_S seconds.

        So is the second one if it is in use because the first stands, which is better than nothing.
        """
        if self.second is None or url is not (self.second if self._standing else self.first):
            return
        self._failures = self._failures + 1 if failed else 0
        if self._failures < FAILURES_BEFORE_FALLBACK:
            return
        if self._standing:
            self.leave(url)
        else:
            _log.warning("indexer_fallback_used", indexer=shown(self.first), failures=self._failures)
            self._second_until = self._clock() + PROBE_S

    def leave(self, url: URL) -> None:
        """Use the other indexer from now on: this one is no good although it may answer."""
        self._standing = url is self.first
        self._failures = 0
        self._second_until = self._clock() + PROBE_S if self._standing else 0.0
        _log.warning("indexer_failed_over", indexer=shown(url))

    def looked(self, *, late: bool) -> None:
        """Take in whether the first indexer is late still, unless the second one was left meanwhile."""
        if not self._standing:
            return
        self._standing = late
        self._failures = 0
        self._second_until = self._clock() + PROBE_S if late else 0.0
