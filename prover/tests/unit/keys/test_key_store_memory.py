"""Memory of the key store with simulated keys: waiting, slow frees, and keys that are read in the background."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from prover.errors import DeviceLost, MemoryBudgetExceeded
from prover.kernel.cancellation import CancelFlag
from prover.keys.prepared import prepared_keys
from prover.keys.prepared.preparation import PreparedKeys
from prover.keys.store import key_store
from prover.keys.store.key_store import KeyStore
from prover.observability.metrics import Metrics
from shared.requests.circuit_id import CircuitId, CircuitKind

SMALL = [CircuitId(CircuitKind.INCLUSION, 2, (32,), (number,)) for number in (1, 2, 3)]
LARGE, LARGE_TOO = [CircuitId(CircuitKind.NON_INCLUSION, 2, (40,), (number,)) for number in (1, 2)]
SIZES = dict.fromkeys(SMALL, 30) | dict.fromkeys([LARGE, LARGE_TOO], 80)
MAPPED_BYTES = 1


class FakeKey:
    """A key of a circuit; ``mapped`` ones need next to no memory."""

    def __init__(self, folder: FakeFolder, circuit: CircuitId, *, mapped: bool = False) -> None:
        resident_bytes = MAPPED_BYTES if mapped else SIZES[circuit]
        self.info = SimpleNamespace(resident_bytes=resident_bytes, mapped_bytes=int(mapped))
        self.closed = False
        self.fault: BaseException | None = None
        """Raised by the end of the key."""
        self._folder = folder

    def release_pages(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """End the key."""
        assert self._folder.may_free.wait(60)
        self.closed = True
        if self.fault is not None:
            raise self.fault


class FakeFolder:
    """Key files of all circuits, whose loads and preparations are simulated."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loads: list[CircuitId] = []
        self.prepared: set[CircuitId] = set()
        self.may_free, self.may_prepare = threading.Event(), threading.Event()
        self.may_free.set()
        self.may_prepare.set()
        self.is_preparing = threading.Event()
        self._circuits = {circuit.key_file: circuit for circuit in SIZES}
        monkeypatch.setattr(key_store, "find_key", lambda _, circuit: Path(circuit.key_file))
        monkeypatch.setattr(key_store, "file_identity", str)
        monkeypatch.setattr(key_store, "check_name", lambda *_: None)
        monkeypatch.setattr(key_store, "resident_estimate", lambda _, circuit: SIZES[circuit])
        monkeypatch.setattr(prepared_keys, "load_source", self._load)
        monkeypatch.setattr(prepared_keys, "load_with_origin", lambda *arguments: (self._load(*arguments), "origin"))
        monkeypatch.setattr(prepared_keys, "open_existing", self._map)
        monkeypatch.setattr(prepared_keys, "prepare_loaded", self._prepare)

    def _load(self, _: object, path: Path, *__: object) -> FakeKey:
        time.sleep(0.01)
        self.loads.append(self._circuits[path.name])
        return FakeKey(self, self.loads[-1])

    def _map(self, _: object, path: Path, *__: object) -> FakeKey | None:
        circuit = self._circuits[path.name]
        return FakeKey(self, circuit, mapped=True) if circuit in self.prepared else None

    def _prepare(self, key: FakeKey, _: object, __: object, path: Path, *___: object) -> bool:
        self.is_preparing.set()
        assert self.may_prepare.wait(60)
        assert not key.closed
        self.prepared.add(self._circuits[path.name])
        return True


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> FakeFolder:
    monkeypatch.setattr(key_store, "_BUSY_EVICTION_S", 0.2)
    return FakeFolder(monkeypatch)


Open = Callable[..., KeyStore]


@pytest.fixture
def open_store(folder: FakeFolder) -> Iterator[Open]:
    """Give a function that opens a store with a budget, and prepared keys if any."""
    stores: list[KeyStore] = []

    def open_(budget_bytes: int, prepared: PreparedKeys | None = None) -> KeyStore:
        engine, metrics = cast("Any", None), Metrics(CollectorRegistry())
        stores.append(KeyStore(Path("keys"), engine, metrics, budget_bytes, None, prepared))
        return stores[-1]

    yield open_
    for store in stores:
        store.close()


def use(store: KeyStore, circuit: CircuitId) -> None:
    with store.lease(circuit, CancelFlag()):
        pass


def key_bytes(store: KeyStore) -> float:
    value: float = store._metrics.key_bytes._value.get()
    return value


@contextmanager
def blocked(permission: threading.Event) -> Iterator[None]:
    """Withdraw a permission for the block."""
    permission.clear()
    try:
        yield
    finally:
        permission.set()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_key__that_needs_the_memory_of_several_always_in_use__gets_it_and_they_are_loaded_once_more(
    open_store: Open, folder: FakeFolder
) -> None:
    store = open_store(100)
    stop, cancel = threading.Event(), CancelFlag()

    def keep_using(circuit: CircuitId) -> None:
        while not stop.is_set():
            with store.lease(circuit, CancelFlag()):
                stop.wait(0.05)

    with ThreadPoolExecutor(6) as pool:
        users = [pool.submit(keep_using, circuit) for circuit in SMALL * 2]
        until(lambda: len(folder.loads) == len(SMALL))
        deadline = threading.Timer(20, cancel.raise_flag)
        deadline.start()
        try:
            with store.lease(LARGE, cancel):
                assert sorted(folder.loads[:4], key=str) == sorted([*SMALL, LARGE], key=str)
        finally:
            deadline.cancel()
            stop.set()
        for user in users:
            user.result(60)
    assert store._residency.first_waiting is None
    assert len(folder.loads) <= 2 * len(SMALL) + 1


def test_key__freed_slowly__delays_only_the_key_that_needs_its_memory(open_store: Open, folder: FakeFolder) -> None:
    store = open_store(60)
    for circuit in SMALL[:2]:
        use(store, circuit)
    with ThreadPoolExecutor(2) as pool, blocked(folder.may_free):
        waiting = pool.submit(use, store, SMALL[2])
        until(lambda: not store.is_loaded(SMALL[0]))
        pool.submit(use, store, SMALL[1]).result(10)
        assert folder.loads == SMALL[:2]  # the memory is not free yet
        assert store._residency.loaded_bytes() == 60
        folder.may_free.set()
        waiting.result(60)
    assert folder.loads == SMALL
    assert key_bytes(store) == 60


def failed_ends(lines: Sequence[MutableMapping[str, Any]]) -> list[str]:
    """Return the circuits of the keys whose failed end is logged."""
    return [line["circuit"] for line in lines if line["event"] == "key_not_freed" and line["log_level"] == "error"]


def fault_of(store: KeyStore, circuit: CircuitId, error: BaseException) -> None:
    """Let the end of a loaded key fail."""
    cast("Any", store.loaded(circuit)).fault = error


def test_key__whose_end_fails__is_logged_and_keeps_no_memory_nor_other_keys(open_store: Open) -> None:
    store = open_store(100)
    for circuit in SMALL[:2]:
        use(store, circuit)
    for circuit in SMALL[:2]:
        fault_of(store, circuit, DeviceLost("no copy was freed"))
    with capture_logs() as lines:
        use(store, LARGE)
    assert failed_ends(lines) == [circuit.name for circuit in SMALL[:2]]
    assert (store.is_loaded(LARGE), key_bytes(store)) == (True, SIZES[LARGE])
    fault_of(store, LARGE, DeviceLost("no copy was freed"))
    with capture_logs() as lines:
        store.close()
    assert failed_ends(lines) == [LARGE.name]
    assert key_bytes(store) == 0


def test_key__whose_end_fails_with_its_last_user__does_not_fail_the_request(open_store: Open) -> None:
    store = open_store(100)
    with ThreadPoolExecutor(1) as pool, capture_logs() as lines:
        with store.lease(LARGE, CancelFlag()) as key:
            cast("Any", key).fault = DeviceLost("no copy was freed")
            waiting = pool.submit(use, store, LARGE_TOO)
            until(lambda: not store.is_loaded(LARGE))
        waiting.result(60)
    assert failed_ends(lines) == [LARGE.name]


def test_key__that_waits_for_one_in_use__delays_none_that_fits_next_to_it(open_store: Open, folder: FakeFolder) -> None:
    store = open_store(130)
    with ThreadPoolExecutor(3) as pool:
        with store.lease(LARGE, CancelFlag()):
            waiting = pool.submit(use, store, LARGE_TOO)
            until(lambda: not store.is_loaded(LARGE))  # retired
            pool.submit(use, store, SMALL[0]).result(10)
            assert folder.loads == [LARGE, SMALL[0]]
        waiting.result(60)
    assert store.is_loaded(SMALL[0])


def test_key__that_waits_for_one_in_use__evicts_no_idle_key_that_fits_next_to_it(open_store: Open) -> None:
    store = open_store(150)
    for circuit in SMALL[:2]:
        use(store, circuit)
    with ThreadPoolExecutor(1) as pool:
        with store.lease(LARGE, CancelFlag()):
            waiting = pool.submit(use, store, LARGE_TOO)
            until(lambda: not store.is_loaded(LARGE))
            assert all(store.is_loaded(circuit) for circuit in SMALL[:2])
        waiting.result(60)
    assert all(store.is_loaded(circuit) for circuit in SMALL[:2])


def test_key__that_can_never_fit__evicts_none(open_store: Open) -> None:
    store = open_store(100)
    store.get(SMALL[0], CancelFlag())
    use(store, SMALL[1])
    with pytest.raises(MemoryBudgetExceeded):
        use(store, LARGE)
    assert store.is_loaded(SMALL[1])


def test_key__that_waits_for_a_preparation__delays_no_other(
    open_store: Open, folder: FakeFolder, tmp_path: Path
) -> None:
    store = open_store(100, PreparedKeys(tmp_path))
    with ThreadPoolExecutor(2) as pool, blocked(folder.may_prepare):
        store.get(SMALL[0], CancelFlag())
        assert folder.is_preparing.wait(60)
        waiting = pool.submit(use, store, LARGE)
        with pytest.raises(TimeoutError):
            waiting.result(0.5)  # longer than its patience
        pool.submit(use, store, SMALL[1]).result(10)
        folder.may_prepare.set()
        waiting.result(60)
    assert folder.loads == [SMALL[0], SMALL[1], LARGE]


def test_load__whose_thread_fails_to_start__fails_and_the_next_request_loads_the_key(
    open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(_: threading.Thread) -> None:
        raise MemoryError

    store, cancel = open_store(100), CancelFlag()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_memory)
        with pytest.raises(MemoryError):
            use(store, LARGE)
    deadline = threading.Timer(10, cancel.raise_flag)
    deadline.start()
    with store.lease(LARGE, cancel):
        deadline.cancel()


def test_key__whose_prepared_key_is_being_written__keeps_its_memory_until_the_end(
    open_store: Open, folder: FakeFolder, tmp_path: Path
) -> None:
    store = open_store(40, PreparedKeys(tmp_path))
    with ThreadPoolExecutor(1) as pool, blocked(folder.may_prepare):
        use(store, SMALL[0])
        assert folder.is_preparing.wait(60)
        waiting = pool.submit(use, store, SMALL[1])
        until(lambda: not store.is_loaded(SMALL[0]))  # retired, as another waits for its memory
        with pytest.raises(TimeoutError):
            waiting.result(0.2)
        assert folder.loads == SMALL[:1]
        folder.may_prepare.set()
        waiting.result(60)
    assert folder.loads == SMALL[:2]


def test_key__evicted_before_its_prepared_key_is_written__is_not_read(
    open_store: Open, folder: FakeFolder, tmp_path: Path
) -> None:
    store = open_store(60, PreparedKeys(tmp_path))
    with blocked(folder.may_prepare):
        use(store, SMALL[0])
        assert folder.is_preparing.wait(60)
        use(store, SMALL[1])  # its preparation is queued
        use(store, SMALL[2])
        assert not store.is_loaded(SMALL[1])
    until(lambda: folder.prepared == {SMALL[0], SMALL[2]})


def test_key__replaced_by_its_prepared_key_while_in_use__counts_until_its_last_user_leaves(
    open_store: Open, folder: FakeFolder, tmp_path: Path
) -> None:
    store = open_store(100, PreparedKeys(tmp_path))
    with store.lease(SMALL[0], CancelFlag()):
        until(lambda: key_bytes(store) == SIZES[SMALL[0]] + MAPPED_BYTES)
    assert key_bytes(store) == MAPPED_BYTES
