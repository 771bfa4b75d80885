"""Keys in memory: leases, the budget, eviction, and preloading."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from circuit_inputs import circuit_inputs
from golden_vectors import load
from in_process_service import circuit
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from prover.errors import (
    DeviceBudgetExceeded,
    KernelMisused,
    KeyDownloadFailed,
    KeyMissing,
    MemoryBudgetExceeded,
    OutOfMemory,
)
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine, LoadedKey
from prover.kernel.prepared import open_prepared
from prover.keys.prepared import prepared_keys
from prover.keys.prepared.preparation import PreparedKeys
from prover.keys.store.key_store import Fetch, KeyStore
from prover.keys.store.preload import Preloader
from prover.observability.metrics import Metrics
from shared.requests.circuit_id import CircuitId

FIRST = circuit("v1_inclusion_26_1")
SECOND = circuit("v2_inclusion_32_1")
THIRD = circuit("v1_non-inclusion_26_1")

Open = Callable[..., KeyStore]


@pytest.fixture
def folder(tmp_path: Path, reference_keys_dir: Path) -> Path:
    """A folder with three published keys."""
    for wanted in (FIRST, SECOND, THIRD):
        shutil.copy(reference_keys_dir / wanted.earlier_key_file, tmp_path)
    return tmp_path


@pytest.fixture
def open_store(folder: Path, engine: Engine) -> Iterator[Open]:
    """Give a function that opens a store over the folder; its arguments are those of KeyStore."""
    stores: list[KeyStore] = []

    def open_(
        budget_bytes: int | None = None, fetch: Fetch | None = None, prepared_keys: PreparedKeys | None = None
    ) -> KeyStore:
        stores.append(KeyStore(folder, engine, Metrics(CollectorRegistry()), budget_bytes, fetch, prepared_keys))
        return stores[-1]

    yield open_
    for store in stores:
        store.close()


def use(store: KeyStore, wanted: CircuitId) -> None:
    with store.lease(wanted, CancelFlag()):
        pass


def loaded(store: KeyStore) -> set[CircuitId]:
    return {wanted for wanted in (FIRST, SECOND, THIRD) if store.is_loaded(wanted)}


def estimate(folder: Path, *circuits: CircuitId) -> int:
    """Return the reservation of the store for keys that it has not read, and a little more."""
    return sum(int((folder / wanted.earlier_key_file).stat().st_size * 1.01) for wanted in circuits)


def resident_bytes(file: Path) -> int:
    """Return memory of this process that holds pages of a mapped file."""
    maps = Path("/proc/self/smaps").read_text().splitlines()
    mapped = [number for number, line in enumerate(maps) if line.endswith(f" {file}")]
    assert mapped
    return sum(
        1024 * int(next(line for line in maps[number:] if line.startswith("Rss:")).split()[1]) for number in mapped
    )


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_store__no_thread_for_a_load__refuses_it_and_loads_the_key_later(
    open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    store = open_store()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(OutOfMemory, match="no thread to load a key: can't start new thread"):
            use(store, FIRST)
    use(store, FIRST)
    assert loaded(store) == {FIRST}


def test_store__over_its_budget__evicts_the_key_unused_for_longest(open_store: Open, folder: Path) -> None:
    store = open_store(estimate(folder, FIRST, SECOND))
    use(store, FIRST)
    use(store, SECOND)
    use(store, FIRST)
    use(store, THIRD)
    assert loaded(store) == {FIRST, THIRD}
    assert store._metrics.key_evictions.labels("inclusion")._value.get() == 1
    assert store._metrics.keys_loaded._value.get() == 2
    use(store, SECOND)
    assert SECOND in loaded(store)


def test_store__whose_budget_is_in_use__waits_for_a_lease_to_end(open_store: Open, folder: Path) -> None:
    store = open_store(estimate(folder, SECOND))
    with ThreadPoolExecutor(1) as pool:
        with store.lease(FIRST, CancelFlag()) as key:
            waiting = pool.submit(use, store, SECOND)
            with pytest.raises(TimeoutError):
                waiting.result(0.2)
            key.verifying_key.write()  # still there
        waiting.result(60)
    assert loaded(store) == {SECOND}
    with pytest.raises(KernelMisused):
        key.prove(b"")


def test_key__larger_than_the_budget__is_refused_with_need_budget_and_remedies(open_store: Open) -> None:
    store = open_store(2**20)
    with pytest.raises(
        MemoryBudgetExceeded, match=r"v1_inclusion_26_1 needs about \d.* MiB.*1\.0 MiB.*--key-memory-gb"
    ):
        use(store, FIRST)
    assert not loaded(store)


def test_key__got_permanently__is_never_evicted(open_store: Open, folder: Path) -> None:
    store = open_store(estimate(folder, FIRST, SECOND))
    pinned = store.get(FIRST, CancelFlag())
    use(store, SECOND)
    use(store, THIRD)
    assert loaded(store) == {FIRST, THIRD}
    pinned.verifying_key.write()


def test_leases__by_many_threads_within_a_small_budget__all_get_their_key(open_store: Open, folder: Path) -> None:
    store = open_store(estimate(folder, SECOND))
    expected = {wanted: store_header(open_store(), wanted) for wanted in (FIRST, SECOND, THIRD)}

    def check(number: int) -> bool:
        wanted = (FIRST, SECOND, THIRD)[number % 3]
        with store.lease(wanted, CancelFlag()) as key:
            return key.info.header == expected[wanted]

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(check, range(18)))


def test_key__waiting_while_another_is_always_in_use__gets_its_memory_in_the_end(
    open_store: Open, folder: Path
) -> None:
    store = open_store(estimate(folder, SECOND))
    stop = threading.Event()
    fulfilled = [0] * 3

    def keep_using(number: int) -> None:
        while not stop.is_set():
            with store.lease(FIRST, CancelFlag()) as key:
                assert key.info.header == (26, 1, 0, 0)
                stop.wait(0.05)
                fulfilled[number] += 1

    with ThreadPoolExecutor(4) as pool:
        others = [pool.submit(keep_using, number) for number in range(3)]
        try:
            until(lambda: all(fulfilled))
            pool.submit(use, store, SECOND).result(60)
            seen = list(fulfilled)
            until(lambda: all(now > before for now, before in zip(fulfilled, seen, strict=True)))
        finally:
            stop.set()
        for other in others:
            other.result(60)
    assert not store._residency._retiring


def store_header(store: KeyStore, wanted: CircuitId) -> tuple[int, ...]:
    with store.lease(wanted, CancelFlag()) as key:
        return key.info.header


def test_key__missing_with_a_way_to_fetch_it__is_fetched_once_for_all(
    open_store: Open, folder: Path, reference_keys_dir: Path
) -> None:
    (folder / FIRST.earlier_key_file).unlink()
    fetched: list[CircuitId] = []

    def fetch(wanted: Sequence[CircuitId], _: CancelFlag) -> None:
        fetched.extend(wanted)
        shutil.copy(reference_keys_dir / wanted[0].earlier_key_file, folder / wanted[0].key_file)

    store = open_store(fetch=fetch)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: use(store, FIRST), range(8)))
    use(store, SECOND)
    assert fetched == [FIRST]


def test_key__that_cannot_be_fetched__is_not_tried_again_at_once(open_store: Open, folder: Path) -> None:
    (folder / FIRST.earlier_key_file).unlink()
    tried: list[CircuitId] = []

    def fetch(wanted: Sequence[CircuitId], _: CancelFlag) -> None:
        tried.extend(wanted)
        raise KeyDownloadFailed("the server is unreachable")

    store = open_store(fetch=fetch)
    for _ in range(3):
        with pytest.raises(KeyDownloadFailed, match="unreachable"):
            use(store, FIRST)
    assert tried == [FIRST]


def test_preloader__whose_keys_are_there__reports_none_missing(open_store: Open) -> None:
    store = open_store()
    preloader = Preloader(store, [FIRST, SECOND])
    assert len(preloader.missing_required()) == 2
    preloader.start()
    until(lambda: not preloader.missing_required())
    assert loaded(store) == {FIRST, SECOND}


def test_preloader__with_a_prepared_key__leaves_its_pages_to_the_system_until_it_is_used(
    open_store: Open, folder: Path, engine: Engine
) -> None:
    source, forms = folder / SECOND.earlier_key_file, folder / "prepared"
    assert prepared_keys.prepare(engine, source, forms)
    file = prepared_keys.path_of(engine, source, forms)
    store = open_store(prepared_keys=PreparedKeys(forms))
    preloader = Preloader(store, [SECOND])
    preloader.start()
    until(lambda: not preloader.missing_required())
    assert resident_bytes(file) == 0
    witness = circuit_inputs(load("gnark/inclusion_32_1.json")["request"])
    inputs = b"".join(value.to_bytes(32, "big") for value in witness)
    with store.lease(SECOND, CancelFlag()) as key:
        proof = key.prove(inputs)
        key.verifying_key.verify(proof.points, inputs[: 32 * key.info.public_inputs])
    assert resident_bytes(file) > 2**20
    key.close()
    key.release_pages()


def test_preloader__keys_larger_than_the_budget_together__maps_each_as_soon_as_it_is_prepared(
    open_store: Open, folder: Path, engine: Engine
) -> None:
    wanted = (FIRST, SECOND, THIRD)
    forms = folder / "prepared"
    budget = estimate(folder, SECOND) + 3 * 2**19  # of the three, one fits at a time, with what mapped ones keep
    store = open_store(budget, prepared_keys=PreparedKeys(forms))
    preloader = Preloader(store, wanted, retry_s=3600)
    preloader.start()
    until(lambda: not preloader.missing_required())
    until(lambda: all(is_mapped(store, name) for name in wanted))
    assert store._metrics.key_bytes._value.get() < budget
    witness = circuit_inputs(load("gnark/inclusion_32_1.json")["request"])
    inputs = b"".join(value.to_bytes(32, "big") for value in witness)
    with store.lease(SECOND, CancelFlag()) as key:
        assert key.info.mapped_bytes
        proof = key.prove(inputs)
        key.verifying_key.verify(proof.points, inputs[: 32 * key.info.public_inputs])
    assert loaded(store) == set(wanted)
    assert not store._residency._retiring


def test_key__in_use_when_its_prepared_key_takes_its_place__stays_until_its_last_user_leaves(
    open_store: Open, folder: Path
) -> None:
    store = open_store(prepared_keys=PreparedKeys(folder / "prepared"))
    with store.lease(FIRST, CancelFlag()) as key:
        assert not key.info.mapped_bytes
        until(lambda: is_mapped(store, FIRST))
        key.verifying_key.write()
    with pytest.raises(KernelMisused):
        key.prove(b"")


def fail_to_map(monkeypatch: pytest.MonkeyPatch, *errors: Exception) -> list[Exception]:
    """Make mapping prepared keys raise these errors, one each time; return those that it has not raised yet."""
    left = list(errors)

    def open_or_fail(*arguments: Any, **options: Any) -> LoadedKey:
        if left:
            raise left.pop(0)
        return open_prepared(*arguments, **options)

    monkeypatch.setattr(prepared_keys, "open_prepared", open_or_fail)
    return left


@pytest.mark.parametrize(
    ("error", "event"), [(OutOfMemory("no memory for a key"), "key_not_mapped"), (MemoryError(), "unexpected_error")]
)
def test_key__without_memory_to_map_its_prepared_key__serves_as_loaded_and_later_ones_are_mapped(
    open_store: Open, folder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, event: str
) -> None:
    left = fail_to_map(monkeypatch, error)
    store = open_store(prepared_keys=PreparedKeys(folder / "prepared"))
    with capture_logs() as lines, store.lease(FIRST, CancelFlag()) as key:
        until(lambda: not left)
        until(lambda: is_mapped(store, SECOND))
        assert not is_mapped(store, FIRST)
        key.verifying_key.write()
    assert loaded(store) == {FIRST, SECOND}
    warnings = [line for line in lines if line["log_level"] in ("warning", "error")]
    assert [line["event"] for line in warnings] == [event]


@pytest.mark.parametrize("error", [OutOfMemory("no memory for a key"), MemoryError()])
def test_preloader__whose_prepared_key_cannot_be_mapped__reports_the_memory_that_is_missing(
    open_store: Open, folder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    fail_to_map(monkeypatch, error)
    store = open_store(estimate(folder, SECOND), prepared_keys=PreparedKeys(folder / "prepared"))
    preloader = Preloader(store, [FIRST, SECOND], retry_s=3600)
    preloader.start()
    until(lambda: any("add memory" in reason for reason in preloader.missing_required()))
    assert loaded(store) == {FIRST}
    preloader.close()


def test_preloader__whose_keys_cannot_be_prepared__reports_the_memory_that_is_missing(
    open_store: Open, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    forms = tmp_path_factory.mktemp("forms") / "file"
    forms.write_text("")  # no folder
    store = open_store(estimate(folder, SECOND), prepared_keys=PreparedKeys(forms))
    preloader = Preloader(store, [FIRST, SECOND], retry_s=3600)
    preloader.start()
    until(lambda: any("add memory" in reason for reason in preloader.missing_required()))
    assert loaded(store) == {FIRST}
    preloader.close()


def is_mapped(store: KeyStore, wanted: CircuitId) -> bool:
    with store.lease(wanted, CancelFlag()) as key:
        return key.info.mapped_bytes > 0


@pytest.mark.parametrize("content", [b"", b"damaged"])
def test_key__whose_prepared_key_does_not_hold__needs_room_as_if_there_were_none(
    open_store: Open, folder: Path, engine: Engine, content: bytes
) -> None:
    source, forms = folder / SECOND.earlier_key_file, folder / "prepared"
    assert prepared_keys.prepare(engine, source, forms)
    store = open_store(2**20, prepared_keys=PreparedKeys(forms))
    use(store, SECOND)
    store.close()
    prepared_keys.path_of(engine, source, forms).unlink()
    prepared_keys.path_of(engine, source, forms).write_bytes(content)
    store = open_store(2**20, prepared_keys=PreparedKeys(forms))
    with pytest.raises(MemoryBudgetExceeded):
        use(store, SECOND)


def test_preloader__with_a_missing_key__loads_the_others_and_reports_it_until_it_comes(
    open_store: Open, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = folder / FIRST.earlier_key_file
    aside = tmp_path_factory.mktemp("aside") / path.name
    path.rename(aside)
    store = open_store()
    preloader = Preloader(store, [FIRST, SECOND], retry_s=0.05)
    preloader.start()
    # A key is in the store a moment before the preloader notes it.
    until(lambda: preloader.missing_required() == [f"{FIRST}: {KeyMissing(FIRST.key_file, _remedy())}"])
    assert loaded(store) == {SECOND}
    shutil.copy(aside, path.with_suffix(".tmp"))
    path.with_suffix(".tmp").rename(path)
    until(lambda: not preloader.missing_required())


def test_preloader__whose_key_no_gpu_takes__reports_it_until_one_does(open_store: Open) -> None:
    store = open_store()
    refusals = [DeviceBudgetExceeded("it does not fit")]

    def take(_: LoadedKey) -> None:
        if refusals:
            raise refusals[0]

    preloader = Preloader(store, [FIRST], retry_s=0.05, on_loaded=take)
    preloader.start()
    until(lambda: preloader.missing_required() == [f"{FIRST}: it does not fit"])
    assert loaded(store) == {FIRST}
    refusals.clear()
    until(lambda: not preloader.missing_required())


def test_preloader__with_a_way_to_fetch__fetches_all_at_once_and_loads_what_came(
    open_store: Open, folder: Path, reference_keys_dir: Path
) -> None:
    for wanted in (FIRST, SECOND):
        (folder / wanted.earlier_key_file).unlink()
    asked: list[tuple[CircuitId, ...]] = []

    def fetch(wanted: Sequence[CircuitId], _: CancelFlag) -> None:
        asked.append(tuple(wanted))
        shutil.copy(reference_keys_dir / FIRST.earlier_key_file, folder)
        raise KeyDownloadFailed("the second is not there")

    preloader = Preloader(open_store(fetch=fetch), [FIRST, SECOND], fetch, retry_s=3600)
    preloader.start()
    until(lambda: preloader.missing_required() == [f"{SECOND}: the second is not there"])
    assert asked == [(FIRST, SECOND), (SECOND,)]
    preloader.close()


def test_preloader__with_many_keys__names_a_few_of_those_missing(open_store: Open) -> None:
    waiting = Preloader(open_store(), [circuit(f"v2_inclusion_32_{number}") for number in range(1, 21)])
    missing = waiting.missing_required()
    assert missing[0] == "v2_inclusion_32_1: not loaded yet"
    assert (len(missing), missing[-1]) == (9, "12 more keys")


def test_preloader__closed_while_it_waits__ends(open_store: Open, folder: Path) -> None:
    (folder / FIRST.earlier_key_file).unlink()
    preloader = Preloader(open_store(), [FIRST], retry_s=3600)
    preloader.start()
    until(lambda: "not found" in preloader.missing_required()[0])
    preloader.close()
    until(lambda: not any(thread.name == "preload" for thread in threading.enumerate()))


def _remedy() -> str:
    from prover.keys.files.key_folder import MISSING_REMEDY

    return MISSING_REMEDY
