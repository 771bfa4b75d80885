"""Prepared keys of a running prover: used where they are there, made in the background where they are not.

A key that was loaded from its source is written in its prepared form by one thread, after it is ready: no proof waits
for that. What goes wrong costs the next start its speed and nothing else, so it is logged once.
"""

import threading
from collections import deque
from pathlib import Path
from typing import NamedTuple
from weakref import WeakKeyDictionary

from prover.errors import Cancelled, DiskFull, KernelMisused, ProverError, SettingsInvalid
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine, LoadedKey
from prover.keys.prepared import prepared_keys
from prover.keys.prepared.prepared_keys import Digests, Source
from shared.logs import get_logger

_log = get_logger(__name__)

_REMEDY = (
    "the key is read from its source at every start; make room, choose a writable folder "
    "(PROVER_KEYS__PREPARED_DIRECTORY), or switch this off (PROVER_KEYS__PREPARE=false)"
)


class _Order(NamedTuple):
    engine: Engine
    key: LoadedKey
    origin: Source
    source: Path


class PreparedKeys:
    """The prepared forms of the keys of one prover. All methods may be called from several threads."""

    def __init__(self, folder: Path) -> None:
        """Use and fill ``folder``, which is made when the first key is prepared."""
        self._folder = folder
        self._lock = threading.Lock()
        self._origins: WeakKeyDictionary[LoadedKey, Source] = WeakKeyDictionary()
        self._orders: deque[_Order] = deque()
        self._worker: threading.Thread | None = None
        self._refused = False
        self._stopping = CancelFlag()

    @property
    def folder(self) -> Path:
        """Where prepared keys lie."""
        return self._folder

    def map(
        self, engine: Engine, source: Path, cancel: CancelFlag | None = None, accepted: Digests = frozenset()
    ) -> LoadedKey | None:
        """Map the prepared form of a key file; None where there is none that holds."""
        return prepared_keys.open_existing(engine, source, self._folder, cancel, accepted)

    def load_source(
        self, engine: Engine, source: Path, cancel: CancelFlag | None = None, accepted: Digests = frozenset()
    ) -> LoadedKey:
        """Load a key file itself, for ``prepare_later``; raises like prepared.load_source."""
        key, origin = prepared_keys.load_with_origin(engine, source, cancel, accepted)
        with self._lock:
            self._origins[key] = origin
        return key

    def prepare_later(self, engine: Engine, key: LoadedKey, source: Path) -> None:
        """Have a key that ``load_source`` gave written in its prepared form, unless it is one; does not wait."""
        with self._lock:
            origin = self._origins.pop(key, None)
            if origin is None or self._refused or self._stopping.is_raised:
                return
            self._orders.append(_Order(engine, key, origin, source))
            if self._worker is None:
                self._worker = threading.Thread(target=self._work, name="prepare keys")
                self._worker.start()

    def close(self) -> None:
        """Stop: a key that is being written is given up, and nothing of it is left."""
        self._stopping.raise_flag()
        with self._lock:
            self._orders.clear()
            worker = self._worker
        if worker is not None:
            worker.join()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._orders or self._refused:
                    self._worker = None
                    return
                order = self._orders.popleft()
            self._prepare(order)

    def _prepare(self, order: _Order) -> None:
        engine, key, origin, source = order
        try:
            prepared_keys.prepare_loaded(key, origin, engine, source, self._folder, self._stopping)
        except (Cancelled, KernelMisused):  # the key or the store was closed meanwhile
            return
        except (ProverError, OSError) as error:
            # The folder is to blame, not this key; a disk may get room again, and has some for smaller keys.
            self._refused = isinstance(error, SettingsInvalid) and not isinstance(error, DiskFull)
            _log.warning("key_not_prepared", source=str(source), error=str(error), remedy=_REMEDY)
