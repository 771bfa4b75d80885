"""CPUs that the prover may use: affinity and control groups, from generated /proc and /sys trees."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from prover.cpu.cpu_count import available_cpus, cpu_quota
from prover.kernel import engine
from prover.kernel.engine import Engine


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_quota__of_a_parent_group__counts(tmp_path: Path) -> None:
    write(tmp_path / "proc/self/cgroup", "0::/system.slice/prover.service\n")
    write(tmp_path / "sys/fs/cgroup/system.slice/cpu.max", "150000 100000\n")
    write(tmp_path / "sys/fs/cgroup/system.slice/prover.service/cpu.max", "max 100000\n")
    assert cpu_quota(tmp_path) == 1.5


def test_quota__of_the_earlier_control_groups__counts(tmp_path: Path) -> None:
    write(tmp_path / "proc/self/cgroup", "4:memory:/x\n3:cpu,cpuacct:/x\n")
    write(tmp_path / "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "400000\n")
    write(tmp_path / "sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n")
    assert cpu_quota(tmp_path) == 4
    write(tmp_path / "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "-1\n")
    assert cpu_quota(tmp_path) is None


@pytest.mark.parametrize(
    ("quota", "processors"),
    [("max", 8), ("1600000", 8), ("400000", 4), ("250000", 3), ("50000", 1)],
)
def test_available__affinity_or_a_smaller_quota__counts_parts_as_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, processors: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    write(tmp_path / "proc/self/cgroup", "0::/\n")
    write(tmp_path / "sys/fs/cgroup/cpu.max", f"{quota} 100000\n")
    assert available_cpus(tmp_path) == processors


def test_available__no_control_groups__is_the_affinity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    assert available_cpus(tmp_path) == 1


def test_engine__threads_not_given__has_one_per_available_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "available_cpus", lambda: 3)
    with Engine() as chosen, Engine(1) as reported:
        assert (chosen.threads, reported.threads) == (3, 1)
