"""Prepared keys of a running prover: used if they exist, written in the background if not.

One thread writes the prepared key of a key that was loaded from its source, after that key is ready: no proof waits for
it. A failure only slows the next start, so it is logged once.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

from prover.errors import Cancelled, DiskFull, KernelMisused, ProverError, SettingsInvalid
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine, LoadedKey
from prover.keys.prepared import prepared_keys
from prover.keys.prepared.prepared_keys import Digests, Source
from shared.process.logs import get_logger

_log = get_logger(__name__)

_REMEDY = (
    "the key is read from its source at every start; make room, choose a writable folder "
    "(PROVER_KEYS__PREPARED_DIRECTORY), or disable preparation (PROVER_KEYS__PREPARE=false)"
)


class _PreparationRequest(NamedTuple):
    engine: Engine
    key: LoadedKey
    origin: Source
    source: Path
    on_end: Callable[[], None]
    reading: Callable[[], AbstractContextManager[None]]


class PreparedKeys:
    """The prepared keys of one prover. All methods may be called from several threads."""

    def __init__(self, folder: Path) -> None:
        """Use and fill ``folder``, which is created when the first key is prepared."""
        self.folder = folder
        self._lock = threading.Lock()
        self._requests: deque[_PreparationRequest] = deque()
        self._worker: threading.Thread | None = None
        self._refused = False
        self._stopping = CancelFlag()

    def map(
        self, engine: Engine, source: Path, cancel: CancelFlag | None = None, accepted: Digests = frozenset()
    ) -> LoadedKey | None:
        """Map the prepared key of a key file; None if there is no valid one."""
        return prepared_keys.open_existing(engine, source, self.folder, cancel, accepted)

    def prepare_later(
        self,
        engine: Engine,
        key: LoadedKey,
        origin: Source,
        source: Path,
        on_end: Callable[[], None] = lambda: None,
        reading: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> bool:
        """Queue a key that prepared_keys.load_with_origin returned for preparation; return whether that was done.

        Does not wait. ``on_end`` is called in another thread when the prepared key was written, or could not be, unless
        this object is closed before. ``reading`` is entered while the key is read, not while it is queued; the key is
        skipped if that raises KernelMisused.
        """
        with self._lock:
            if self._refused or self._stopping.is_raised:
                return False
            if self._worker is None:
                worker = threading.Thread(target=self._work, name="prepare keys")
                try:
                    worker.start()
                except RuntimeError as error:  # the limit of threads is reached
                    _log.warning("key_not_prepared", source=str(source), error=str(error), remedy=_REMEDY)
                    return False
                self._worker = worker
            self._requests.append(_PreparationRequest(engine, key, origin, source, on_end, reading))
        return True

    def close(self) -> None:
        """Stop; a prepared key that is being written is abandoned and removed."""
        self._stopping.raise_flag()
        with self._lock:
            self._requests.clear()
            worker = self._worker
        if worker is not None:
            worker.join()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._requests:
                    self._worker = None
                    return
                request = self._requests.popleft()
            if not self._refused:
                with _unexpected_errors_logged():
                    self._prepare(request)
            if not self._stopping.is_raised:
                with _unexpected_errors_logged():
                    request.on_end()

    def _prepare(self, request: _PreparationRequest) -> None:
        engine, key, origin, source, _, reading = request
        try:
            with reading():
                prepared_keys.prepare_loaded(key, origin, engine, source, self.folder, self._stopping)
        except (Cancelled, KernelMisused):  # the key or the store was closed meanwhile
            return
        except (ProverError, OSError) as error:
            # Other faults affect the folder, not this key; a full disk may have room for smaller or later keys.
            self._refused = isinstance(error, SettingsInvalid) and not isinstance(error, DiskFull)
            _log.warning("key_not_prepared", source=str(source), error=str(error), remedy=_REMEDY)


@contextmanager
def _unexpected_errors_logged() -> Iterator[None]:
    """Log an exception of the block instead of raising it: later keys must still be prepared."""
    try:
        yield
    except Exception:  # noqa: BLE001 - logged with its traceback
        _log.exception("unexpected_error")
