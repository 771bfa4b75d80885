"""The metrics are those of the contract, and their label values come from closed sets."""

import json
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from prover.observability.memory import MemoryCollector
from prover.observability.metrics import CIRCUIT_TYPES, STATUSES, Metrics
from shared.process.metrics import new_registry

CONTRACT = Path(__file__).resolve().parents[3] / "contracts" / "metrics.json"


def declared() -> dict[str, dict[str, Any]]:
    facts: dict[str, dict[str, Any]] = {}
    for metric in vars(Metrics(CollectorRegistry())).values():
        assert isinstance(metric, MetricWrapperBase)
        name = metric._name + ("_total" if metric._type == "counter" else "")
        entry: dict[str, Any] = {"type": metric._type, "labels": list(metric._labelnames)}
        if metric._type == "histogram":
            bounds = metric._kwargs.get("buckets") or getattr(metric, "_upper_bounds", [])
            entry["buckets"] = [float(bound) for bound in bounds]
        facts[name] = entry
    (memory,) = MemoryCollector().collect()
    facts[memory.name] = {
        "type": memory.type,
        "labels": sorted({name for line in memory.samples for name in line.labels}),
    }
    return facts


def test_metrics__declared__are_those_of_the_contract() -> None:
    assert declared() == json.loads(CONTRACT.read_text())


def test_requests__at_start__exist_for_every_circuit_and_status() -> None:
    registry = CollectorRegistry()
    Metrics(registry)
    samples = {
        (sample.labels["circuit_type"], sample.labels["status"])
        for family in registry.collect()
        if family.name == "prover_proof_requests"
        for sample in family.samples
    }
    assert samples == {(kind, status) for kind in CIRCUIT_TYPES for status in STATUSES}


def test_registry__new__reports_the_process_without_creation_times() -> None:
    registry = new_registry()
    Metrics(registry)
    names = {sample.name for family in registry.collect() for sample in family.samples}
    assert "process_resident_memory_bytes" in names
    assert not any(name.endswith("_created") for name in names)
