"""Check of the machine: CPUs, memory and the disk of the journal, in units of 10^9 bytes."""

import os
import shutil
from pathlib import Path

from forester.checks.result import CheckWarned

MIN_CPUS = 8
MIN_MEMORY_GB = 16
MIN_DISK_GB = 50
"""Recommended minimums of a host (forester/docs/how-to/run.md, "Machine")."""

_CONTROL_GROUP = Path("/sys/fs/cgroup")
_GB = 10**9


def check_host(journal: Path) -> str:
    """Return the size of the machine, or of the container; CheckWarned if it is below the recommended minimums."""
    folder = next(item for item in (journal, *journal.absolute().parents) if item.exists())
    cpus, memory, disk = _cpus(), _memory_bytes() / _GB, shutil.disk_usage(folder).total / _GB
    found = (("CPUs", cpus, MIN_CPUS), ("GB of memory", memory, MIN_MEMORY_GB), ("GB of disk", disk, MIN_DISK_GB))
    text = ", ".join(f"{have:.0f} {what}" for what, have, _ in found)
    # A machine of 16 GB reports a little less.
    short = [f"{least} {what}" for what, have, least in found if have < least * 0.95]
    if short:
        raise CheckWarned(f"{text}; recommended are at least {', '.join(short)}: use a larger machine in production")
    return text


def _cpus() -> float:
    usable = float(len(os.sched_getaffinity(0)))
    quota, _, period = _text(_CONTROL_GROUP / "cpu.max").partition(" ")
    return min(usable, int(quota) / int(period)) if quota.isdigit() and period.strip().isdigit() else usable


def _memory_bytes() -> int:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _text(_CONTROL_GROUP / "memory.max").strip()
    return min(total, int(limit)) if limit.isdigit() else total


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
