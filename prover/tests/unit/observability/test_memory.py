"""Memory of the process."""

from pathlib import Path

from prover.observability.memory import MemoryCollector


def test_collector__here__reports_every_label() -> None:
    (family,) = MemoryCollector().collect()
    values = {sample.labels["type"]: sample.value for sample in family.samples}
    assert set(values) == {"heap_alloc", "heap_inuse", "heap_sys", "sys"}
    assert 0 < values["heap_inuse"] <= values["sys"]


def test_collector__without_proc__reports_zero(tmp_path: Path) -> None:
    (family,) = MemoryCollector(tmp_path).collect()
    assert {sample.value for sample in family.samples} == {0}
