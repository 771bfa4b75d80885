"""The key store: one load for all, typed failures that name the file, accounting, and an end."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from golden_vectors import load, vector_named
from in_process_service import Serve, circuit, open_store
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from prover.errors import (
    Cancelled,
    KernelMisused,
    KeyMissing,
    KeyUnavailable,
    MalformedKey,
    MisnamedKey,
    ShuttingDown,
)
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine
from prover.keys.files.provenance import KeyRecord, record_path
from prover.keys.prepared import prepared_keys
from prover.keys.prepared.preparation import PreparedKeys
from prover.keys.store.key_store import KeyStore
from prover.keys.verify import accepted_digests
from prover.observability.metrics import Metrics
from shared.requests.circuit_id import CircuitId

SMALL = circuit("v1_inclusion_26_1")
OTHER = circuit("v2_inclusion_32_1")


@pytest.fixture
def folder(tmp_path: Path, reference_keys_dir: Path) -> Path:
    """A folder with one published key under its earlier name."""
    shutil.copy(reference_keys_dir / SMALL.earlier_key_file, tmp_path)
    return tmp_path


@pytest.fixture
def store(folder: Path, engine: Engine) -> Iterator[KeyStore]:
    store = open_store(folder, engine)
    yield store
    store.close()


def loads(store: KeyStore) -> float:
    """Return how many key files were loaded."""
    samples = [sample for family in store._metrics.key_load_seconds.collect() for sample in family.samples]
    return sum(sample.value for sample in samples if sample.name.endswith("_count"))


def test_key__asked_by_many_threads__is_loaded_once(store: KeyStore) -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(lambda _: store.get(SMALL, CancelFlag()), range(16)))
    assert len({id(key) for key in keys}) == 1
    assert loads(store) == 1
    assert store._metrics.keys_loaded._value.get() == 1
    assert store._metrics.key_bytes._value.get() == keys[0].info.resident_bytes > 1_000_000


def test_key__under_either_name__is_found(store: KeyStore, folder: Path) -> None:
    assert store.find(SMALL).name == SMALL.earlier_key_file
    assert list(store.installed()) == [SMALL]
    (folder / SMALL.earlier_key_file).rename(folder / SMALL.key_file)
    assert store.find(SMALL).name == SMALL.key_file
    assert store.get(SMALL, CancelFlag()).info.header == (26, 1, 0, 0)


def test_key__in_a_folder_named_like_a_circuit__is_what_its_own_name_says(
    reference_keys_dir: Path, engine: Engine, tmp_path: Path
) -> None:
    folder = tmp_path / "append" / "batch_update_32_10.key"
    folder.mkdir(parents=True)
    (folder / SMALL.earlier_key_file).symlink_to(reference_keys_dir / SMALL.earlier_key_file)
    with contextlib.closing(open_store(folder, engine)) as store:
        assert list(store.installed()) == [SMALL]
        assert store.get(SMALL, CancelFlag()).info.header == (26, 1, 0, 0)


def test_key__absent__is_missing_by_its_current_name(store: KeyStore) -> None:
    with pytest.raises(KeyMissing, match=r"proving key file not found: v2_inclusion_32_1\.key; .*keys directory"):
        store.get(OTHER, CancelFlag())


def test_key__appearing_later__is_found_then(store: KeyStore, folder: Path, reference_keys_dir: Path) -> None:
    with pytest.raises(KeyMissing):
        store.get(OTHER, CancelFlag())
    shutil.copy(reference_keys_dir / OTHER.earlier_key_file, folder / OTHER.key_file)
    assert store.get(OTHER, CancelFlag()).info.version == 2


def test_key__under_another_circuits_name__is_named_for_what_it_holds(store: KeyStore, folder: Path) -> None:
    (folder / SMALL.earlier_key_file).rename(folder / OTHER.key_file)
    with pytest.raises(MisnamedKey, match=r"v2_inclusion_32_1\.key holds v1_inclusion_26_1; rename it to"):
        store.get(OTHER, CancelFlag())


DOMAIN_SIZE = 23
"""Offset of a byte whose change breaks the format."""
POINT = 1000
"""Offset of a byte whose change makes another valid point of a point."""


def damage(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def test_key__damaged__is_read_again_only_when_it_changes(
    store: KeyStore, folder: Path, reference_keys_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / SMALL.earlier_key_file
    damage(path, DOMAIN_SIZE)
    reads: list[Path] = []
    original = prepared_keys.load_source

    def counting(engine: Engine, path: Path, *rest: Any) -> object:
        reads.append(path)
        return original(engine, path, *rest)

    monkeypatch.setattr(prepared_keys, "load_source", counting)
    for _ in range(3):
        with pytest.raises(MalformedKey, match=r"mainnet_inclusion_26_1\.key: .*byte \d+ of the file"):
            store.get(SMALL, CancelFlag())
    assert len(reads) == 1
    shutil.copy(reference_keys_dir / SMALL.earlier_key_file, path)
    store.get(SMALL, CancelFlag())
    assert len(reads) == 2


@pytest.mark.parametrize("content", [b"", b"\0", b"not a key" * 1000, bytes(100_000)])
def test_key__that_is_something_else__is_malformed(engine: Engine, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.key"
    path.write_bytes(content)
    with pytest.raises(MalformedKey, match=r"key file x\.key: "):
        prepared_keys.load_source(engine, path)


def test_key__of_a_foreign_circuit__is_unusable_under_our_names(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / OTHER.key_file).write_bytes(bytes.fromhex(load("gnark/tiny.json")["key_v0_14_hex"]))
    store = open_store(tmp_path, engine)
    with pytest.raises(KeyUnavailable):
        store.get(OTHER, CancelFlag())


@pytest.fixture
def guarded(folder: Path, engine: Engine, tmp_path: Path) -> Iterator[Callable[..., KeyStore]]:
    """Open stores that compare digests, with or without prepared keys."""
    with contextlib.ExitStack() as stack:

        def guard(*, prepare: bool = False, manifest: Path | None = None) -> KeyStore:
            forms = PreparedKeys(tmp_path / "prepared") if prepare else None
            metrics = Metrics(CollectorRegistry())
            accepted = accepted_digests(folder, manifest)
            store = KeyStore(folder, engine, metrics, prepared_keys=forms, accepted_digests=accepted)
            return stack.enter_context(contextlib.closing(store))

        yield guard


@pytest.mark.parametrize("prepare", [False, True])
def test_key__of_another_digest_than_published__is_refused(
    guarded: Callable[..., KeyStore], folder: Path, prepare: bool
) -> None:
    guarded(prepare=prepare).get(SMALL, CancelFlag())
    damage(folder / SMALL.earlier_key_file, POINT)
    message = r"key file mainnet_inclusion_26_1\.key: checksum mismatch: its SHA-256 is .*, expected 7951.*; remove the"
    store = guarded(prepare=prepare)
    for _ in range(2):
        with pytest.raises(MalformedKey, match=message):
            store.get(SMALL, CancelFlag())


def test_key__of_a_digest_that_a_list_here_has__is_accepted(guarded: Callable[..., KeyStore], folder: Path) -> None:
    path = folder / SMALL.earlier_key_file
    damage(path, POINT)
    record = KeyRecord(path.name, 0, hashlib.sha256(path.read_bytes()).hexdigest(), SMALL.name, True, False)
    record_path(path).write_text(record.to_json())
    guarded().get(SMALL, CancelFlag())
    record_path(path).unlink()
    (folder / "CHECKSUM").write_text(f"{record.sha256}  {path.name}\n")
    guarded().get(SMALL, CancelFlag())


def test_key__refused_by_a_wrong_list__is_accepted_once_the_list_is_right(
    guarded: Callable[..., KeyStore], folder: Path
) -> None:
    path = folder / SMALL.earlier_key_file
    damage(path, POINT)
    (folder / "CHECKSUM").write_text(f"{'0' * 64}  {path.name}\n")
    store = guarded()
    for _ in range(2):
        with pytest.raises(MalformedKey, match="checksum mismatch"):
            store.get(SMALL, CancelFlag())
    (folder / "CHECKSUM").write_text(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n")
    store.get(SMALL, CancelFlag())


def test_key__repaired_with_its_old_times__is_accepted(guarded: Callable[..., KeyStore], folder: Path) -> None:
    path = folder / SMALL.earlier_key_file
    good, times = path.read_bytes(), path.stat().st_mtime_ns
    damage(path, POINT)
    os.utime(path, ns=(times, times))
    store = guarded()
    with pytest.raises(MalformedKey, match="checksum mismatch"):
        store.get(SMALL, CancelFlag())
    path.write_bytes(good)  # the same inode
    os.utime(path, ns=(times, times))
    store.get(SMALL, CancelFlag())


def test_key__prepared_before_a_manifest_forbids_it__is_refused(
    guarded: Callable[..., KeyStore], folder: Path, tmp_path: Path, engine: Engine
) -> None:
    path = folder / SMALL.earlier_key_file
    assert prepared_keys.prepare(engine, path, tmp_path / "prepared")
    manifest = tmp_path / "pins.json"
    entry = {"name": path.name, "size": path.stat().st_size, "sha256": "0" * 64}
    manifest.write_text(json.dumps({"keys": [entry]}))
    with pytest.raises(MalformedKey, match="checksum mismatch"):
        guarded(prepare=True, manifest=manifest).get(SMALL, CancelFlag())
    manifest.write_text(json.dumps({"keys": []}))
    guarded(prepare=True, manifest=manifest).get(SMALL, CancelFlag())


def test_key__next_to_a_list_that_cannot_be_read__is_accepted(guarded: Callable[..., KeyStore], folder: Path) -> None:
    (folder / "CHECKSUM").write_text("<html>")
    with capture_logs() as lines:
        guarded().get(SMALL, CancelFlag())
    assert "checksums_unreadable" in [line["event"] for line in lines]


def test_key__damaged_next_to_a_list_that_cannot_be_read__is_refused_by_its_built_in_digest(
    guarded: Callable[..., KeyStore], folder: Path
) -> None:
    (folder / "CHECKSUM").write_text("<html>")
    damage(folder / SMALL.earlier_key_file, POINT)
    with pytest.raises(MalformedKey, match="checksum mismatch"):
        guarded().get(SMALL, CancelFlag())


async def test_server__with_a_damaged_key__answers_503_and_proves_others(
    serve: Serve, store: KeyStore, folder: Path, reference_keys_dir: Path
) -> None:
    damage(folder / SMALL.earlier_key_file, DOMAIN_SIZE)
    shutil.copy(reference_keys_dir / OTHER.earlier_key_file, folder)
    client = await serve(store)
    response = await client.post("/prove", data=vector_named("prover/v1_inclusion_26_1").body)
    problem = await response.json()
    assert response.status == 503
    assert problem["code"] == "key_unusable"
    assert SMALL.earlier_key_file in problem["message"]
    assert str(folder) not in json.dumps(problem)
    response = await client.post("/prove", data=vector_named("prover/v2_inclusion_32_1").body)
    assert response.status == 200


async def test_server__with_a_wrong_point_in_a_key__hands_out_no_proof(
    serve: Serve, store: KeyStore, folder: Path
) -> None:
    """No check of a file can see this; verifying every proof does."""
    damage(folder / SMALL.earlier_key_file, POINT)
    client = await serve(store)
    response = await client.post("/prove", data=vector_named("prover/v1_inclusion_26_1").body)
    assert response.status == 500
    assert (await response.json())["code"] == "unexpected_error"


def slow_load(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Make loads wait: events 'a load has begun' and 'it may go on'."""
    begun, go_on = threading.Event(), threading.Event()
    original = prepared_keys.load_source

    def load_slowly(engine: Engine, path: Path, *rest: Any) -> object:
        begun.set()
        assert go_on.wait(30)
        return original(engine, path, *rest)

    monkeypatch.setattr(prepared_keys, "load_source", load_slowly)
    return begun, go_on


def get(store: KeyStore, circuit: CircuitId, cancel: CancelFlag) -> type[BaseException] | None:
    try:
        store.get(circuit, cancel)
    except (Cancelled, ShuttingDown, KernelMisused) as error:
        return type(error)
    return None


def test_waiter__whose_client_leaves__does_not_disturb_the_load(
    store: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = slow_load(monkeypatch)
    leader, waiter = CancelFlag(), CancelFlag()
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(get, store, SMALL, leader)
        assert begun.wait(30)
        second = pool.submit(get, store, SMALL, waiter)
        third = pool.submit(get, store, SMALL, CancelFlag())
        waiter.raise_flag()
        assert second.result(30) is Cancelled
        leader.raise_flag()
        go_on.set()
        assert first.result(30) is Cancelled
        assert third.result(30) is None
    assert loads(store) == 1


def test_store__closed_during_a_load__cancels_it(store: KeyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = slow_load(monkeypatch)
    with ThreadPoolExecutor(1) as pool:
        load_ = pool.submit(get, store, SMALL, CancelFlag())
        assert begun.wait(30)
        store.close()
        go_on.set()
        assert load_.result(30) is Cancelled
    assert get(store, SMALL, CancelFlag()) is ShuttingDown


def test_store__closed__destroys_its_keys(store: KeyStore) -> None:
    key = store.get(SMALL, CancelFlag())
    store.close()
    with pytest.raises(KernelMisused, match="the key is closed"):
        key.prove(b"")
    assert store._metrics.keys_loaded._value.get() == 0


def test_installed__of_a_folder_that_does_not_exist__is_empty(engine: Engine, tmp_path: Path) -> None:
    assert open_store(tmp_path / "absent", engine).installed() == {}
