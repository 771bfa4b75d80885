"""Memory of this process, from /proc."""

from collections.abc import Iterable
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from shared.process.cpus_and_memory import read_kib_fields

_ROOT = Path("/")
_PARTS = {"heap_alloc": "RssAnon", "heap_inuse": "VmRSS", "heap_sys": "VmData", "sys": "VmSize"}
"""The reference's labels, and the closest fields of /proc/self/status."""


class MemoryCollector(Collector):
    """Collector of ``prover_system_memory_bytes`` with the reference's labels, read at each scrape."""

    def __init__(self, root: Path = _ROOT) -> None:
        self._status = root / "proc/self/status"

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Read the process status once."""
        fields = read_kib_fields(self._status)
        family = GaugeMetricFamily(
            "prover_system_memory_bytes",
            "Memory of the process: anonymous pages, resident, data segments, address space.",
            labels=["type"],
        )
        for label, field in _PARTS.items():
            family.add_metric([label], fields.get(field, 0))
        yield family
