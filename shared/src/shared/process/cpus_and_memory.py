"""CPUs and memory that this process may use: the machine's, or less in control groups of version 1 or 2.

Limits of every parent group apply, such as those of a systemd slice. Facts come from /proc and /sys below a root.
"""

import os
from collections.abc import Iterator
from math import ceil
from pathlib import Path

_KIB = 1024
_ROOT = Path("/")


def available_cpus(root: Path = _ROOT) -> int:
    """Return the number of CPUs of this process's affinity mask, or of its control group if that is lower.

    A fraction of a CPU counts as one. At least 1.
    """
    quota = cpu_quota(root)
    affinity = len(os.sched_getaffinity(0))
    return affinity if quota is None else max(1, min(affinity, ceil(quota)))


def cpu_quota(root: Path = _ROOT) -> float | None:
    """Return the CPUs that control groups grant, None without a limit."""
    limits = _group_limits(root, "cpu", ("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us"))
    return min((limit[0] / limit[1] for limit in limits if len(limit) == 2 and limit[1]), default=None)


def memory_limit_bytes(root: Path = _ROOT) -> int:
    """Return the bytes that this process may use: the machine's memory, or less if a control group limits it."""
    limits = _group_limits(root, "memory", ("memory.max",), ("memory.limit_in_bytes",))
    candidates = [read_kib_fields(root / "proc/meminfo").get("MemTotal", 0), *(limit[0] for limit in limits)]
    return min(limit for limit in candidates if limit > 0)


def read_kib_fields(path: Path) -> dict[str, int]:
    """Return the sizes of a file such as /proc/meminfo or /proc/self/status in bytes; none if it cannot be read."""
    fields = {}
    for line in _text(path).splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if len(words) == 2 and words[1] == "kB" and words[0].isdigit():
            fields[name] = int(words[0]) * _KIB
    return fields


def _group_limits(
    root: Path, controller: str, unified: tuple[str, ...], separate: tuple[str, ...]
) -> Iterator[list[int]]:
    """Yield the numbers in the limit files of each group; ``separate`` names those of version 1."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if number == "0" and not controllers:
            base, names = root / "sys/fs/cgroup", unified
        elif controller in controllers.split(","):
            base, names = root / "sys/fs/cgroup" / controller, separate
        else:
            continue
        # Inside a container the path may not exist, and the base is the group.
        folder = base / path.lstrip("/")
        while folder.is_relative_to(base):
            words = [word for name in names for word in _text(folder / name).split()]
            if words and all(word.isdigit() for word in words):
                yield [int(word) for word in words]
            folder = folder.parent


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
