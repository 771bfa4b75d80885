"""CPUs that this process may use: affinity, and control groups of version 1 or 2."""

import os
from collections.abc import Iterator
from math import ceil
from pathlib import Path

_ROOT = Path("/")


def available_cpus(root: Path = _ROOT) -> int:
    """Return the number of CPUs of this process's affinity mask, or of its control group if that is lower.

    A fraction of a CPU counts as one. At least 1.
    """
    quota = cpu_quota(root)
    affinity = len(os.sched_getaffinity(0))
    return affinity if quota is None else max(1, min(affinity, ceil(quota)))


def cpu_quota(root: Path = _ROOT) -> float | None:
    """Return the CPUs that control groups of version 1 or 2 grant, None without a limit."""
    return min(_quotas(root), default=None)


def _quotas(root: Path) -> Iterator[float]:
    try:
        groups = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in groups:
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if number == "0" and not controllers:
            base = root / "sys/fs/cgroup"
        elif "cpu" in controllers.split(","):
            base = root / "sys/fs/cgroup/cpu"
        else:
            continue
        folder = base / path.lstrip("/")
        while folder.is_relative_to(base):
            yield from _quota_of(folder)
            folder = folder.parent


def _quota_of(folder: Path) -> Iterator[float]:
    texts = []
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        try:
            texts = [word for name in names for word in (folder / name).read_text().split()]
        except OSError:
            continue
        break
    if len(texts) == 2 and all(text.isdigit() for text in texts) and int(texts[1]):
        yield int(texts[0]) / int(texts[1])
