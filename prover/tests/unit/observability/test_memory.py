"""Memory of machine, control group and process, read from made-up trees."""

from pathlib import Path

import pytest

from prover.observability.memory import MemoryCollector, memory_limit_bytes

GIB = 2**30
MEMINFO = f"MemTotal:       {16 * 2**20} kB\nMemFree:         123 kB\nHugePages_Total:       0\n"


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in {"proc/meminfo": MEMINFO, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


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


def test_collector__here__reports_every_label() -> None:
    (family,) = MemoryCollector().collect()
    values = {sample.labels["type"]: sample.value for sample in family.samples}
    assert set(values) == {"heap_alloc", "heap_inuse", "heap_sys", "sys"}
    assert 0 < values["heap_inuse"] <= values["sys"]


def test_collector__without_proc__reports_zero(tmp_path: Path) -> None:
    (family,) = MemoryCollector(tmp_path).collect()
    assert {sample.value for sample in family.samples} == {0}
