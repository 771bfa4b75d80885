"""Loaded proving keys: found by circuit, loaded once however many ask, accounted for.

Whoever asks first loads the file in its own thread; the others wait, and a waiter may leave without
disturbing the load. A file that turned out unusable is not read again until it changes.
"""

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from prover.errors import (
    KeyMissing,
    KeyUnavailable,
    MalformedKey,
    MisnamedKey,
    ProverError,
    ShuttingDown,
    UnsupportedKey,
)
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine, LoadedKey
from prover.keys import prepared
from prover.keys.gnark_format import circuit_of
from prover.observability.metrics import Metrics
from shared.circuit_id import KEY_SUFFIX, CircuitId
from shared.logs import get_logger

_log = get_logger(__name__)

Fingerprint = tuple[str, int, int, int]


@dataclass(frozen=True)
class _Failure:
    fingerprint: Fingerprint
    error: KeyUnavailable


class KeyStore:
    """Keys of one directory. All methods may be called from several threads."""

    def __init__(self, directory: Path, engine: Engine, metrics: Metrics) -> None:
        self._directory = directory
        self._engine = engine
        self._metrics = metrics
        self._lock = threading.Lock()
        self._slots: dict[CircuitId, Future[LoadedKey]] = {}
        self._failures: dict[CircuitId, _Failure] = {}
        self._stopping = CancelFlag()

    def find(self, circuit: CircuitId) -> Path:
        """Return the key file of a circuit, under its current or an earlier name; raises KeyMissing."""
        for name in circuit.key_files:
            path = self._directory / name
            if path.is_file():
                return path
        raise KeyMissing(circuit.key_file, "put it into the keys directory of this prover (--keys-dir)")

    def installed(self) -> Mapping[CircuitId, Path]:
        """Return the key files of the directory by the circuit that their names claim."""
        try:
            names = sorted(path.name for path in self._directory.iterdir() if path.suffix == KEY_SUFFIX)
        except OSError:
            return {}
        found = (CircuitId.from_key_file(name) for name in names)
        return {circuit: self.find(circuit) for circuit in found if circuit is not None}

    def get(self, circuit: CircuitId, cancel: CancelFlag) -> LoadedKey:
        """Return the key of a circuit, loading it if need be.

        Raises KeyMissing, MalformedKey, UnsupportedKey, MisnamedKey, OutOfMemory, ShuttingDown, and
        Cancelled when ``cancel`` is raised while waiting.
        """
        with self._lock:
            if self._stopping.is_raised:
                raise ShuttingDown
            slot = self._slots.get(circuit)
            leads = slot is None
            if slot is None:
                slot = self._slots[circuit] = Future()
        if leads:
            self._load_into(slot, circuit)
        else:
            _wait(slot, cancel)
        cancel.check()
        return slot.result()

    def close(self) -> None:
        """Destroy all keys once the proofs that use them have returned; running loads are cancelled."""
        self._stopping.raise_flag()
        with self._lock:
            slots, self._slots = list(self._slots.values()), {}
        for slot in slots:
            if slot.done() and slot.exception() is None:
                slot.result().close()
        self._account()

    def _load_into(self, slot: Future[LoadedKey], circuit: CircuitId) -> None:
        try:
            key = self._load(circuit)
        except BaseException as error:
            with self._lock:
                self._slots.pop(circuit, None)
            slot.set_exception(error)
            if not isinstance(error, ProverError):
                raise
            return
        slot.set_result(key)
        with self._lock:
            orphaned = self._slots.get(circuit) is not slot
        if orphaned:  # the store was closed meanwhile
            key.close()
        self._account()

    def _load(self, circuit: CircuitId) -> LoadedKey:
        path = self.find(circuit)
        fingerprint = _fingerprint(path)
        failure = self._failures.get(circuit)
        if failure is not None and failure.fingerprint == fingerprint:
            raise failure.error.with_traceback(None)
        started = time.perf_counter()
        try:
            key = load_key_file(self._engine, path, self._stopping)
            try:
                _check_name(key, circuit, path)
            except BaseException:
                key.close()
                raise
        except (MalformedKey, UnsupportedKey, MisnamedKey) as error:
            self._failures[circuit] = _Failure(fingerprint, error)
            _log.error("key_unusable", circuit=circuit.name, file=str(path), error=error.detail)
            raise
        seconds = time.perf_counter() - started
        self._metrics.key_load_seconds.labels(circuit.kind.value).observe(seconds)
        _log.info(
            "key_loaded",
            circuit=circuit.name,
            file=str(path),
            load_s=round(seconds, 3),
            resident_bytes=key.info.resident_bytes,
        )
        return key

    def _account(self) -> None:
        with self._lock:
            done = [slot for slot in self._slots.values() if slot.done() and slot.exception() is None]
        self._metrics.keys_loaded.set(len(done))
        self._metrics.key_bytes.set(sum(slot.result().info.resident_bytes for slot in done))


def load_key_file(engine: Engine, path: Path, cancel: CancelFlag | None = None) -> LoadedKey:
    """Load a key file, from its prepared form where there is a valid one; errors name the file."""
    return prepared.load(engine, path, cancel)


def _check_name(key: LoadedKey, circuit: CircuitId, path: Path) -> None:
    held = circuit_of(key.info)
    if held is None:
        raise UnsupportedKey(f"key file {path.name} holds a circuit that this prover does not know")
    if held != circuit:
        raise MisnamedKey(f"key file {path.name} holds {held.name}; rename it to {held.key_file}")


def _fingerprint(path: Path) -> Fingerprint:
    try:
        stat = path.stat()
    except OSError as error:
        raise KeyUnavailable(f"key file {path.name} cannot be read: {error.strerror}") from error
    return path.name, stat.st_size, stat.st_mtime_ns, stat.st_ino


def _wait(slot: Future[LoadedKey], cancel: CancelFlag) -> None:
    done = threading.Event()
    wake: Callable[[object], None] = lambda _: done.set()  # noqa: E731
    slot.add_done_callback(wake)
    with cancel.watch(done.set):
        done.wait()
