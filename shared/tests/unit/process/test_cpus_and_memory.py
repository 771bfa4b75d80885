"""CPUs and memory that a process may use: affinity, machine and control groups, from made-up /proc and /sys trees."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shared.process.cpus_and_memory import available_cpus, cpu_quota, memory_limit_bytes

GIB = 2**30
MEMINFO = f"MemTotal:       {16 * 2**20} kB\nMemFree:         123 kB\nHugePages_Total:       0\n"


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in {"proc/meminfo": MEMINFO, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "cpus"),
    [
        ({}, None),
        ({"proc/self/cgroup": "rubbish\n\n::\n"}, None),
        (
            {
                "proc/self/cgroup": "0::/system.slice/prover.service\n",
                "sys/fs/cgroup/system.slice/cpu.max": "150000 100000\n",
                "sys/fs/cgroup/system.slice/prover.service/cpu.max": "max 100000\n",
            },
            1.5,
        ),
        (
            {
                "proc/self/cgroup": "4:memory:/x\n3:cpu,cpuacct:/x\n",
                "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "400000\n",
                "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000\n",
            },
            4,
        ),
        (
            {
                "proc/self/cgroup": "3:cpu,cpuacct:/x\n",
                "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000\n",
            },
            None,
        ),
    ],
)
def test_quota__of_groups_and_their_parents__is_the_least(
    tmp_path: Path, files: dict[str, str], cpus: float | None
) -> None:
    assert cpu_quota(tree(tmp_path, files)) == cpus


@pytest.mark.parametrize(
    ("quota", "cpus"),
    [("max", 8), ("1600000", 8), ("400000", 4), ("250000", 3), ("50000", 1)],
)
def test_available__affinity_or_a_smaller_quota__counts_parts_as_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, cpus: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    files = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": f"{quota} 100000\n"}
    assert available_cpus(tree(tmp_path, files)) == cpus


def test_available__no_control_groups__is_the_affinity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    assert available_cpus(tmp_path) == 1


@pytest.mark.parametrize(
    ("files", "gib"),
    [
        ({}, 16),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": f"{3 * GIB}\n"}, 3),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/memory.max": f"{4 * GIB}\n"}, 4),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/memory.max": f"{4 * GIB}\n",
                "sys/fs/cgroup/a/b/memory.max": f"{2 * GIB}\n",
            },
            2,
        ),
        ({"proc/self/cgroup": "0::/../other\n", "sys/fs/cgroup/memory.max": f"{5 * GIB}\n"}, 5),
        ({"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"}, 16),
        (
            {
                "proc/self/cgroup": "11:cpu,cpuacct:/x\n9:memory:/docker/1\n",
                "sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": f"{6 * GIB}\n",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            },
            6,
        ),
        ({"proc/self/cgroup": "rubbish\n\n::\n"}, 16),
    ],
)
def test_limit__of_machine_and_groups__is_the_least(tmp_path: Path, files: dict[str, str], gib: int) -> None:
    assert memory_limit_bytes(tree(tmp_path, files)) == gib * GIB


def test_limit__here__is_a_positive_number() -> None:
    assert memory_limit_bytes() > 2**20
