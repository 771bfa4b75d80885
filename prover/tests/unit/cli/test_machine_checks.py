"""Checks of a machine: facts from made-up /proc and /sys trees, minimums, addresses, keys that do not fit."""

from __future__ import annotations

import os
import shutil
from collections import namedtuple
from pathlib import Path

import pytest
from msgspec.structs import replace

from prover.cli.checks.keys import key_checks
from prover.cli.checks.machine import check_cores, check_gpu, check_memory, check_rotation, machine_checks
from prover.cli.checks.result import CheckResult, Status
from prover.kernel.engine import Engine
from prover.keys.catalogue.selection import CircuitSelection
from prover.keys.prepared.prepared_keys import path_of
from prover.settings import KeySettings, ProvingSettings
from shared.requests.circuit_id import CircuitId, CircuitKind

GIB = 2**30
SMALL = CircuitId(CircuitKind.INCLUSION, 2, (32,), (1,))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_cores__below_the_minimum_or_throttled__are_a_warning_with_the_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)))
    assert check_cores(tmp_path).status is Status.WARNING
    assert check_cores(tmp_path).detail == "4 CPUs; 16 are recommended"
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    assert check_cores(tmp_path).status is Status.OK
    write(tmp_path / "proc/self/cgroup", "0::/\n")
    write(tmp_path / "sys/fs/cgroup/cpu.max", "250000 100000\n")
    found = check_cores(tmp_path)
    assert found.status is Status.WARNING
    assert "grants 2.5" in found.detail


@pytest.mark.parametrize(("size", "status"), [(31 * 10**9, Status.WARNING), (32 * 10**9, Status.OK)])
def test_memory__is_compared_with_the_minimum(size: int, status: Status) -> None:
    assert check_memory(size).status is status


@pytest.mark.parametrize(
    ("device", "rotational", "status"),
    [("sda", "1", Status.WARNING), ("sda", "0", Status.OK), ("vda", "1", Status.OK), (None, "", Status.INFO)],
)
def test_rotation__of_the_disk_under_a_partition__is_found(
    tmp_path: Path, device: str | None, rotational: str, status: Status
) -> None:
    number = tmp_path.stat().st_dev
    if device is not None:
        write(tmp_path / f"sys/devices/{device}/queue/rotational", rotational)
        (tmp_path / f"sys/devices/{device}/{device}1").mkdir()
        (tmp_path / "sys/dev/block").mkdir(parents=True)
        link = tmp_path / f"sys/dev/block/{os.major(number)}:{os.minor(number)}"
        link.symlink_to(tmp_path / f"sys/devices/{device}/{device}1")
    assert check_rotation(tmp_path / "absent/keys", tmp_path).status is status


def test_gpu__known_to_the_driver__is_named(tmp_path: Path) -> None:
    assert "none" in check_gpu(tmp_path).detail
    write(tmp_path / "proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t NVIDIA H200\nIRQ: 3\n")
    assert check_gpu(tmp_path).detail.startswith("NVIDIA H200;")


def test_machine__as_it_is__has_every_check(tmp_path: Path) -> None:
    names = [check.name for check in machine_checks(tmp_path)]
    assert names == ["processors", "arithmetic", "memory", "disk", "disk kind", "open files", "GPU"]


def checks_of(selection: CircuitSelection, settings: KeySettings) -> dict[str, CheckResult]:
    return {check.name: check for check in key_checks(settings, ProvingSettings(), selection)}


def test_keys__absent__are_a_failure_or_with_downloads_a_warning(tmp_path: Path) -> None:
    selection = CircuitSelection.of(names=("update-test",))
    found = checks_of(selection, KeySettings(directory=tmp_path))["keys"]
    assert found.status is Status.FAILURE
    assert "proving key file not found: batch_update_32_10.key" in found.detail
    downloads = KeySettings(directory=tmp_path, auto_download=True)
    assert checks_of(selection, downloads)["keys"].status is Status.WARNING
    assert checks_of(CircuitSelection.everything(), KeySettings(directory=tmp_path))["keys"].status is Status.FAILURE
    nowhere = checks_of(selection, KeySettings(directory=tmp_path / "absent"))["keys directory"]
    assert nowhere.status is Status.FAILURE


def test_keys__of_a_wrong_size__are_a_failure(tmp_path: Path) -> None:
    (tmp_path / SMALL.key_file).write_bytes(b"")
    found = checks_of(CircuitSelection.everything(), KeySettings(directory=tmp_path))
    assert found["keys"].status is Status.OK
    assert found["key sizes"].status is Status.FAILURE
    (tmp_path / SMALL.key_file).write_bytes(b"12345")
    manifest = tmp_path / "pins.json"
    manifest.write_text(f'{{"keys": [{{"name": "{SMALL.key_file}", "size": 7, "sha256": "{"0" * 64}"}}]}}')
    found = checks_of(CircuitSelection.everything(), KeySettings(directory=tmp_path, manifest=manifest))
    assert "v2_inclusion_32_1.key has 5 bytes" in found["key sizes"].detail
    manifest.write_text("{")
    found = checks_of(CircuitSelection.everything(), KeySettings(directory=tmp_path, manifest=manifest))
    assert found["key sizes"].status is Status.FAILURE


def test_keys__too_large_for_memory__are_a_failure_and_together_a_warning(tmp_path: Path) -> None:
    production = CircuitSelection.of(names=("append", "update"))
    assert checks_of(production, KeySettings(directory=tmp_path, memory_gib=1))["memory for keys"].status is (
        Status.FAILURE
    )
    some = checks_of(production, KeySettings(directory=tmp_path, memory_gib=5))["memory for keys"]
    assert some.status is Status.WARNING
    assert "batch_update_32_500 takes about 4.4 GiB" in some.detail
    assert checks_of(production, KeySettings(directory=tmp_path, memory_gib=32))["memory for keys"].status is Status.OK
    little = key_checks(KeySettings(directory=tmp_path), ProvingSettings(working_memory_bytes=GIB), production)
    assert {check.name: check for check in little}["memory for proofs"].status is Status.FAILURE


def test_preloaded_keys__that_are_prepared__do_not_count_against_the_budget(tmp_path: Path) -> None:
    settings = KeySettings(directory=tmp_path, memory_gib=0.001)
    source = tmp_path / SMALL.key_file
    source.write_bytes(b"12345")

    def preload(settings: KeySettings) -> Status:
        found = key_checks(settings, ProvingSettings(), CircuitSelection.everything(), [SMALL])
        return {check.name: check for check in found}["memory for preload"].status

    assert preload(settings) is Status.FAILURE
    settings.prepared_folder.mkdir()
    with Engine(1) as engine:
        path_of(engine, source, settings.prepared_folder).write_bytes(b"")
    assert preload(settings) is Status.OK
    assert preload(replace(settings, prepare=False)) is Status.FAILURE


Usage = namedtuple("Usage", "total used free")


def test_keys__larger_than_the_disk__are_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(100 * GIB, 98 * GIB, 2 * GIB))
    found = checks_of(CircuitSelection.of(names=("append",)), KeySettings(directory=tmp_path))["disk for keys"]
    assert found.status is Status.FAILURE
    assert "2.0 GiB are free" in found.detail
