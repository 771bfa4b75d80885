"""Loaded proving keys: found by circuit, loaded once for all callers, within a budget of memory.

A separate thread loads each key; callers wait for it, and may stop waiting without disturbing the load. If memory is
short, the least recently used key is evicted. A key in use is evicted only when another has waited too long for its
memory, and then with its last user. An unusable file is not read again until it changes.
"""

import contextvars
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from msgspec import Struct

from prover.errors import (
    Cancelled,
    KernelMisused,
    KeyDownloadFailed,
    KeyListUnavailable,
    KeyLoading,
    KeyMissing,
    KeyUnavailable,
    MalformedKey,
    MemoryBudgetExceeded,
    MisnamedKey,
    OutOfMemory,
    ProverError,
    ShuttingDown,
    UnsupportedKey,
)
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine, LoadedKey
from prover.kernel.handles import end_all
from prover.keys.files.key_folder import (
    FileIdentity,
    check_name,
    file_identity,
    find_key,
    installed_keys,
    resident_estimate,
)
from prover.keys.files.verifying_keys import VerifyingKeys
from prover.keys.prepared import prepared_keys
from prover.keys.prepared.preparation import PreparedKeys
from prover.keys.prepared.prepared_keys import Digests
from prover.keys.store.residency import Residency, Slot
from prover.observability.metrics import Metrics
from prover.units import gibibytes
from shared.process.logs import get_logger
from shared.requests.circuit_id import CircuitId

_log = get_logger(__name__)

Fetch = Callable[[Sequence[CircuitId], CancelFlag], object]
"""Function that downloads the missing key files of circuits; raises KeyMissing or KeyDownloadFailed."""

_FETCH_RETRY_S = 30.0
_ROOM_POLL_S = 0.5
_BUSY_EVICTION_S = 2.0
"""Wait for memory after which keys in use are evicted, each with its last user."""


_Version = tuple[FileIdentity, prepared_keys.Digests]
"""Identity of a key file and its accepted digests: a failure is remembered for both."""


class _Failure(Struct, frozen=True):
    version: _Version
    error: KeyUnavailable


class KeyStore:
    """Keys of one directory. All methods may be called from several threads."""

    def __init__(
        self,
        directory: Path,
        engine: Engine,
        metrics: Metrics,
        budget_bytes: int | None = None,
        fetch: Fetch | None = None,
        prepared_keys: PreparedKeys | None = None,
        accepted_digests: Callable[[Path], Digests] = lambda _: frozenset(),
        *,
        map_written: bool = True,
    ) -> None:
        """Open a folder.

        ``budget_bytes`` bounds the memory of all loaded keys; ``fetch`` downloads missing key files; ``prepared_keys``,
        which this store closes, are mapped instead of loading key files; ``accepted_digests`` returns the digests that
        a file may have. ``map_written`` replaces a loaded key by its prepared key as soon as that is written.
        """
        self.verifying = VerifyingKeys(directory, engine)
        """The verifying keys of the folder, which need no loaded key."""
        self.directory = directory
        """Folder with the key files."""
        self._engine = engine
        self._metrics = metrics
        self._residency = Residency(budget_bytes)
        self._fetch = fetch
        self._prepared = prepared_keys
        self._accepted_digests = accepted_digests
        self._map_written = map_written
        self._changed = threading.Condition()  # never held while a key is loaded or destroyed
        self._failures: dict[CircuitId, _Failure] = {}
        self._fetch_failures: dict[CircuitId | None, tuple[float, KeyUnavailable]] = {}
        self._stopping = CancelFlag()
        metrics.key_budget_bytes.set(budget_bytes or 0)

    def find(self, circuit: CircuitId) -> Path:
        """Return the key file of a circuit, under its current or an earlier name; raises KeyMissing."""
        return find_key(self.directory, circuit)

    def installed(self) -> Mapping[CircuitId, Path]:
        """Return the key files of the directory by the circuit that their names claim."""
        return installed_keys(self.directory)

    def loaded(self, circuit: CircuitId) -> LoadedKey | None:
        """Return a key that is in memory now; it may be closed at any time.

        Takes no lock, as the event loop calls it.
        """
        slot = self._residency.find(circuit)
        if slot is None or not slot.key.done() or slot.key.exception() is not None:
            return None
        return slot.key.result()

    def is_loaded(self, circuit: CircuitId) -> bool:
        """Return whether a key is in memory now."""
        return self.loaded(circuit) is not None

    @contextmanager
    def lease(self, circuit: CircuitId, cancel: CancelFlag) -> Iterator[LoadedKey]:
        """Yield the key of a circuit, loaded if necessary; it stays in memory during the block.

        Raises KeyMissing, KeyDownloadFailed, MalformedKey, UnsupportedKey, MisnamedKey, OutOfMemory, ShuttingDown,
        and Cancelled when ``cancel`` is raised while waiting (the load continues).
        """
        slot = self._enter(circuit)
        try:
            yield cancel.result_of(slot.key)
        finally:
            self._leave(slot)

    def get(self, circuit: CircuitId, cancel: CancelFlag) -> LoadedKey:
        """Return the key of a circuit, loaded if necessary; it stays in memory until the store is closed.

        Its prepared key may take its place, and is then what ``lease`` yields. Raises like ``lease``.
        """
        slot = self._enter(circuit, pin=True)
        try:
            return cancel.result_of(slot.key)
        finally:
            self._leave(slot)

    def close(self) -> None:
        """Destroy all keys once the proofs that use them have returned; running loads are cancelled."""
        self._stopping.raise_flag()
        if self._prepared is not None:
            self._prepared.close()
        with self._changed:
            slots = self._residency.clear()
            self._changed.notify_all()
        self._end([slot for slot in slots if slot.key.done() and slot.key.exception() is None])
        self._account()

    def _enter(self, circuit: CircuitId, *, pin: bool = False) -> Slot:
        with self._changed:
            if self._stopping.is_raised:
                raise ShuttingDown
            slot = self._residency.find(circuit)
        if slot is None and self._fetch is None:
            self._require_usable(circuit, self.find(circuit))  # starts no thread for a load that is known to fail
        with self._changed:
            if self._stopping.is_raised:
                raise ShuttingDown
            slot = self._residency.find(circuit)
            is_first = slot is None
            if slot is None:
                slot = self._residency.add(circuit)
            self._residency.use(slot)
            slot.pinned |= pin
        if is_first:
            try:
                run = contextvars.copy_context().run  # its log lines have the fields of the request that started it
                threading.Thread(target=run, args=(self._load_into, slot), name=f"load {circuit}").start()
            except BaseException as error:  # a slot without a loader would make all later requests wait
                self._fail(slot, OutOfMemory(f"no thread to load a key: {error}"))
                if not isinstance(error, RuntimeError):  # that is the limit of threads
                    raise
        return slot

    def _leave(self, slot: Slot) -> None:
        with self._changed:
            ends = self._residency.leave(slot)
            self._changed.notify_all()
        if ends:
            self._end([slot])

    def _end(self, slots: Sequence[Slot]) -> None:
        """Destroy the keys of all slots. The caller does not hold the lock: a GPU may hang."""
        end_all(self._end_one, slots)

    def _end_one(self, slot: Slot) -> None:
        try:
            slot.key.result().close()
        except Exception:  # noqa: BLE001 - must not fail the request that needs the memory, or that used the key last
            _log.exception("key_not_freed", circuit=slot.circuit.name)
        finally:
            with self._changed:
                self._residency.ended(slot)
                self._changed.notify_all()
            self._account()

    def _fail(self, slot: Slot, error: BaseException) -> None:
        with self._changed:
            self._residency.drop(slot)
            self._changed.notify_all()
        slot.key.set_exception(error)
        self._account()

    def _load_into(self, slot: Slot) -> None:
        try:
            key = self._load(slot)
        except BaseException as error:
            self._fail(slot, error)
            if not isinstance(error, ProverError):
                raise
            return
        with self._changed:
            is_orphaned = not self._residency.holds(slot)
            slot.bytes = key.info.resident_bytes
            slot.key.set_result(key)
            victims = [] if is_orphaned else self._residency.evict_idle(slot)
            self._note_evicted(victims, slot)
        self._end(victims)
        if is_orphaned:  # the store was closed meanwhile
            key.close()
        self._account()

    def _load(self, slot: Slot) -> LoadedKey:
        circuit = slot.circuit
        path = self._obtain(slot)
        self._require_usable(circuit, path)
        version = self._version_of(path)
        accepted = version[1]
        started = time.perf_counter()
        try:
            # A mapped key needs no room: its pages belong to the file and are dropped when memory is short.
            key = origin = None
            if self._prepared is not None:
                key = self._prepared.map(self._engine, path, self._stopping, accepted)
            if key is None:
                self._reserve(slot, path)
                started = time.perf_counter()
                if self._prepared is None:
                    key = prepared_keys.load_source(self._engine, path, self._stopping, accepted)
                else:
                    key, origin = prepared_keys.load_with_origin(self._engine, path, self._stopping, accepted)
            try:
                check_name(key, circuit, path)
            except BaseException:
                key.close()
                raise
        except (MalformedKey, UnsupportedKey, MisnamedKey) as error:
            if isinstance(error, MalformedKey):
                error.detail += "; remove the file and run `prover download`"
                error.args = (error.detail,)
            self._failures[circuit] = _Failure(version, error)
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
            mapped_bytes=key.info.mapped_bytes,
        )
        if self._prepared is not None and origin is not None:
            end = partial(self._end_preparation, slot, path, accepted)
            reading = partial(self._reading, slot)
            queued = self._prepared.prepare_later(self._engine, key, origin, path, end, reading)
            slot.in_preparation = queued and self._map_written  # the end waits for the key, thus for this line
        return key

    @contextmanager
    def _reading(self, slot: Slot) -> Iterator[None]:
        """Count the writer of a prepared key as a user, as the memory of the key is not free before it ends.

        Raises KernelMisused if the key was evicted before.
        """
        with self._changed:
            if not self._residency.holds(slot):
                raise KernelMisused("the key was evicted")
            self._residency.use(slot)
        try:
            yield
        finally:
            self._leave(slot)

    def _end_preparation(self, slot: Slot, path: Path, accepted: Digests) -> None:
        """Replace the key of a slot by its prepared key, whose pages need no room, if it was written and is mapped."""
        mapped = None
        try:
            if self._map_written and self._prepared is not None and slot.key.exception() is None:
                mapped = self._prepared.map(self._engine, path, self._stopping, accepted)
        except Cancelled:  # the store is being closed
            pass
        except OutOfMemory as error:
            _log.warning("key_not_mapped", circuit=slot.circuit.name, file=str(path), error=error.detail)
        finally:  # after any error the loaded key stays
            with self._changed:
                slot.in_preparation = False
                is_idle = None if mapped is None else self._residency.succeed(slot, mapped)
                self._changed.notify_all()
        if mapped is None:
            return
        if is_idle is None:  # evicted, or the store was closed
            mapped.close()
            return
        if is_idle:
            self._end([slot])
        mapped.release_pages()  # the load read all of them for checksums; pages in use are read again
        self._account()
        _log.info("key_mapped", circuit=slot.circuit.name, file=str(path), mapped_bytes=mapped.info.mapped_bytes)

    def _obtain(self, slot: Slot) -> Path:
        """Return the key file, downloaded if it is missing and downloads are enabled."""
        circuit = slot.circuit
        try:
            return self.find(circuit)
        except KeyMissing:
            if self._fetch is None:
                raise
        for known in (circuit, None):
            until, failure = self._fetch_failures.get(known, (0.0, None))
            if failure is not None and time.monotonic() < until:
                if isinstance(failure, KeyListUnavailable):
                    raise KeyListUnavailable(circuit.key_file, failure.cause)
                raise failure.with_traceback(None)
        try:
            self._fetch([circuit], self._stopping)
        except (KeyMissing, KeyDownloadFailed) as error:
            # Without the list no key can be downloaded: all circuits wait together.
            failed = None if isinstance(error, KeyListUnavailable) else circuit
            self._fetch_failures[failed] = (time.monotonic() + _FETCH_RETRY_S, error)
            _log.error("key_download_failed", circuit=circuit.name, error=error.detail)
            raise
        return self.find(circuit)

    def _version_of(self, path: Path) -> _Version:
        return file_identity(path), self._accepted_digests(path)

    def _require_usable(self, circuit: CircuitId, path: Path) -> None:
        """Raise the earlier error of a file if neither the file nor its accepted digests have changed."""
        failure = self._failures.get(circuit)
        if failure is not None and failure.version == self._version_of(path):
            raise failure.error.with_traceback(None)

    def _reserve(self, slot: Slot, path: Path) -> None:
        """Wait until the key fits into the budget with those in use; others are evicted for it."""
        slot.need = resident_estimate(path, slot.circuit)
        patience_ends = time.monotonic() + _BUSY_EVICTION_S
        try:
            while (victims := self._try_to_reserve(slot, patience_ends)) is not None:
                self._end(victims)
        finally:
            with self._changed:
                self._residency.stop_waiting(slot)
                self._changed.notify_all()

    def _try_to_reserve(self, slot: Slot, patience_ends: float) -> list[Slot] | None:
        """Reserve memory for a key, and return None; else the evicted keys to destroy first, after a wait without any.

        The memory stays reserved while evicted keys are destroyed.
        """
        with self._changed:
            if self._residency.reserve(slot):
                return None
            self._require_possible(slot)
            victims = self._residency.make_room(slot)
            self._note_evicted(victims, slot)
            if not victims:
                self._wait_for_room(slot, patience_ends)
            return victims

    def _require_possible(self, slot: Slot) -> None:
        """Raise if a slot that waits for memory waits in vain. The caller holds the lock."""
        fixed, budget = self._residency.pinned_bytes(excluding=slot), self._residency.budget_bytes
        if budget is not None and fixed + slot.need > budget:
            raise MemoryBudgetExceeded(
                f"the proving key of {slot.circuit} needs about {gibibytes(slot.need)} of memory, and keys may take "
                f"{gibibytes(budget)}, of which {gibibytes(fixed)} are kept for preloaded ones: "
                "add memory, raise --key-memory-gb, preload fewer keys, or use smaller batches"
            )
        if self._stopping.is_raised:
            raise Cancelled

    def _wait_for_room(self, slot: Slot, patience_ends: float) -> None:
        """Wait a moment; the first slot whose patience ends evicts keys in use. The caller holds the lock."""
        if not slot.users:
            raise KeyLoading(f"the proving key of {slot.circuit} waits for memory; try again later")
        if not slot.bytes and time.monotonic() > patience_ends:  # else it waits only for keys that are being destroyed
            self._note_evicted(self._residency.wait_first(slot), slot)
        self._changed.wait(_ROOM_POLL_S)

    def _note_evicted(self, victims: list[Slot], slot: Slot) -> None:
        for victim in victims:
            self._metrics.key_evictions.labels(victim.circuit.kind.value).inc()
            name, newcomer = victim.circuit.name, slot.circuit.name
            _log.info("key_evicted", circuit=name, resident_bytes=victim.bytes, room_for=newcomer)

    def _account(self) -> None:
        with self._changed:
            self._metrics.keys_loaded.set(len(self._residency.loaded()))
            self._metrics.key_bytes.set(self._residency.loaded_bytes())
