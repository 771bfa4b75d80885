"""Memory of this process and its limits, from /proc and control groups of either version."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

_KIB = 1024
_ROOT = Path("/")
_PARTS = {"heap_alloc": "RssAnon", "heap_inuse": "VmRSS", "heap_sys": "VmData", "sys": "VmSize"}
"""The reference's labels, and the closest fields of /proc/self/status."""


def memory_limit_bytes(root: Path = _ROOT) -> int:
    """Return the bytes that this process may use: the machine's memory, or less if a control group limits it."""
    candidates = [_kib_fields(root / "proc/meminfo").get("MemTotal", 0), *_group_limits(root)]
    return min(limit for limit in candidates if limit > 0)


def _group_limits(root: Path) -> Iterator[int]:
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if number == "0" and not controllers:
            base, name = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            base, name = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        # Limits of all ancestors apply; inside a container the path may not exist and the base is the group.
        folder = base / path.lstrip("/")
        while folder.is_relative_to(base):
            text = _text(folder / name).strip()
            if text.isdigit():
                yield int(text)
            folder = folder.parent


class MemoryCollector(Collector):
    """Collector of ``prover_system_memory_bytes`` with the reference's labels, read at each scrape."""

    def __init__(self, root: Path = _ROOT) -> None:
        self._status = root / "proc/self/status"

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Read the process status once."""
        fields = _kib_fields(self._status)
        family = GaugeMetricFamily(
            "prover_system_memory_bytes",
            "Memory of the process: anonymous pages, resident, data segments, address space.",
            labels=["type"],
        )
        for label, field in _PARTS.items():
            family.add_metric([label], fields.get(field, 0))
        yield family


def _kib_fields(path: Path) -> dict[str, int]:
    fields = {}
    for line in _text(path).splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if len(words) == 2 and words[1] == "kB" and words[0].isdigit():
            fields[name] = int(words[0]) * _KIB
    return fields


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
