"""Health of the device, from its latest proofs."""

import threading
import time

_REMEMBERED_S = 60.0


class DeviceHealth:
    """Latest failure of the device, kept until a proof succeeds, or for a minute: it is then tried again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failed_at = 0.0
        self._failure: str | None = None

    def note_failure(self, description: str) -> None:
        """Record that the device failed."""
        with self._lock:
            self._failure, self._failed_at = description, time.monotonic()

    def note_success(self) -> None:
        """Clear failures after a proof that was verified."""
        with self._lock:
            self._failure = None

    def problem(self) -> str | None:
        """Return the failure of the last minute, None without one."""
        with self._lock:
            if self._failure is not None and time.monotonic() - self._failed_at > _REMEMBERED_S:
                self._failure = None
            return self._failure
