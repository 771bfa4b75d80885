"""Check of the machine: CPUs, memory and the disk of the journal, in units of 10^9 bytes."""

import shutil
from pathlib import Path

from forester.checks.result import CheckWarned
from shared.process.cpus_and_memory import available_cpus, memory_limit_bytes

MIN_CPUS = 8
MIN_MEMORY_GB = 16
MIN_DISK_GB = 50
"""Recommended minimums of a host (forester/docs/how-to/run.md, "Machine")."""

_GB = 10**9


def check_host(journal: Path) -> str:
    """Return the size of the machine, or of the container; CheckWarned if it is below the recommended minimums."""
    folder = next(item for item in (journal, *journal.absolute().parents) if item.exists())
    cpus, memory, disk = available_cpus(), memory_limit_bytes() / _GB, shutil.disk_usage(folder).total / _GB
    found = (("CPUs", cpus, MIN_CPUS), ("GB of memory", memory, MIN_MEMORY_GB), ("GB of disk", disk, MIN_DISK_GB))
    text = ", ".join(f"{have:.0f} {what}" for what, have, _ in found)
    # A machine of 16 GB reports a little less.
    short = [f"{least} {what}" for what, have, least in found if have < least * 0.95]
    if short:
        raise CheckWarned(f"{text}; recommended are at least {', '.join(short)}: use a larger machine in production")
    return text
