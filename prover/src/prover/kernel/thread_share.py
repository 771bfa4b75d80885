"""An engine's share of the CPUs while other processes prove, updated while it proves."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prover.cpu.cpu_locks import CpuLocks
from shared.logs import get_logger

_log = get_logger(__name__)

PERIOD_S = 0.1
"""Seconds between counts of other provers while proofs run; they are also counted when a proof begins."""


class ThreadShare:
    """Control of an engine's threads: a share of the CPUs while others prove, else all. Close it."""

    def __init__(self, locks: CpuLocks, threads: int, set_active: Callable[[int | None], None]) -> None:
        """Call ``set_active`` with the share of an engine of ``threads`` threads, or None for no limit."""
        self._locks: CpuLocks | None = locks
        self._threads = threads
        self._set_active = set_active
        self._changed = threading.Condition()
        self._proofs = 0
        self._active: int | None = None
        self._watcher: threading.Thread | None = None
        self._is_idle = False

    @contextmanager
    def proving(self) -> Iterator[None]:
        """Count as proving for the block."""
        try:
            self._begin()
            yield
        finally:
            self._end()

    def close(self) -> None:
        """Stop sharing. Running proofs continue."""
        with self._changed:
            self._stop_sharing()
            watcher, self._watcher = self._watcher, None
        if watcher:
            watcher.join()

    def _begin(self) -> None:
        with self._changed:
            self._proofs += 1
            if self._proofs == 1:
                self._try_with_locks(lambda locks: locks.take(self._threads))
            self._adjust()
            if self._watcher is None:
                self._try_with_locks(self._start_watcher)
            elif self._is_idle:
                self._is_idle = False
                self._changed.notify_all()

    def _end(self) -> None:
        with self._changed:
            self._proofs -= 1
            if self._proofs == 0:
                self._try_with_locks(lambda locks: locks.give_back())

    def _start_watcher(self, _: CpuLocks) -> None:
        watcher = threading.Thread(target=self._watch, name="thread-share", daemon=True)
        watcher.start()
        self._watcher = watcher

    def _watch(self) -> None:
        with self._changed:
            while self._locks is not None:
                self._changed.wait(PERIOD_S)
                if self._proofs:
                    self._adjust()
                    continue
                self._apply(None)
                self._is_idle = True
                self._changed.wait_for(lambda: self._locks is None or not self._is_idle)

    def _adjust(self) -> None:
        self._try_with_locks(lambda locks: self._apply(locks.share()))

    def _apply(self, share: int | None) -> None:
        if share != self._active:
            self._active = share
            self._set_active(share)

    def _try_with_locks(self, act: Callable[[CpuLocks], None]) -> None:
        """Call ``act`` with the locks; if the system has no such locks, continue without sharing."""
        if self._locks is None:
            return
        try:
            act(self._locks)
        except (OSError, RuntimeError) as error:  # the latter: no more threads
            _log.warning("cpu_sharing_disabled", error=str(error), remedy="PROVER_PROVING__SHARE_DIRECTORY")
            self._stop_sharing()

    def _stop_sharing(self) -> None:
        if self._locks is not None:
            self._locks.close()
            self._locks = None
            self._apply(None)
            self._changed.notify_all()
