"""Whether the device proves correctly: what its latest proofs say."""

import threading
import time

_REMEMBERED_S = 60.0


class DeviceHealth:
    """Remembers a failure of the device until a proof succeeds, or for a minute, after which it is tried again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failed_at = 0.0
        self._failure: str | None = None

    def note_failure(self, what: str) -> None:
        """Remember that the device failed."""
        with self._lock:
            self._failure, self._failed_at = what, time.monotonic()

    def note_success(self) -> None:
        """Forget failures: a proof was made and verified."""
        with self._lock:
            self._failure = None

    def problem(self) -> str | None:
        """Return the failure that still counts, if any."""
        with self._lock:
            if self._failure is not None and time.monotonic() - self._failed_at > _REMEMBERED_S:
                self._failure = None
            return self._failure
