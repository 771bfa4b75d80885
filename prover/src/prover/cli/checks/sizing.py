"""Values of the Helm chart for a demand, from the time of a proof: arithmetic without a machine.

prover/docs/how-to/capacity.md explains the rules.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prover.cli.options.sizing import Demand
from prover.keys.catalogue.key_estimates import constraints_of, file_bytes, resident_bytes, scratch_bytes
from shared.requests.circuit_id import CircuitId

UTILIZATION = 0.7
"""Share of the time in which a pod proves; the rest is for bursts, for HTTP, and for pods that restart."""

Seconds = Mapping[CircuitId, float]
"""Seconds of a proof and its verification, of the circuits that were measured."""

_PROCESS_BYTES = 256 * 2**20
"""Memory of a prover without keys and proofs, with room for bodies of requests."""
_DISK_RESERVE = 1.2
"""Folded keys, and the copy while a file is written."""
_MEMORY_STEP = 256 * 2**20
_MIN_MEMORY_BYTES = 2**30
_MIN_DRAIN_S, _MAX_DRAIN_S, _DRAIN_PROOFS = 60, 86_400, 3
_MIN_API_MAX_REPLICAS = 2  # minReplicas of api.autoscaling in the chart


def replicas_for(per_second: float, seconds: float) -> int:
    """Return the pods that make proofs of ``seconds`` each at a rate, one proof at a time on all CPUs of a pod."""
    return math.ceil(round(per_second * seconds / UTILIZATION, 6))


def chart_values(demands: Sequence[Demand], seconds: Seconds, threads: int) -> dict[str, Any]:
    """Return values of prover/deploy/chart for pods with ``threads`` CPUs.

    A demand is sized for the slowest of its circuits that were measured; there must be one. Batches get a pool of
    workers for each kind, other circuits are proved by the API.
    """
    values: dict[str, Any] = {}
    direct = [demand for demand in demands if not demand.kind.is_batch]
    if direct:
        permits = max(2, threads // 2)
        replicas = _replicas(direct, seconds)
        values["api"] = {
            "replicas": replicas,
            "maxConcurrency": permits,
            "resources": _resources(direct, threads, permits),
            "autoscaling": {"maxReplicas": max(_MIN_API_MAX_REPLICAS, replicas)},
        }
    kinds = dict.fromkeys(demand.kind for demand in demands if demand.kind.is_batch)
    pools: dict[str, dict[str, Any]] = {}
    for kind in kinds:
        own = [demand for demand in demands if demand.kind is kind]
        longest = max(_slowest(demand, seconds) for demand in own)
        pools[kind.value] = {
            "circuits": _names(own),
            "replicas": _replicas(own, seconds),
            "maxConcurrency": 1,
            "drainDeadlineSeconds": min(_MAX_DRAIN_S, max(_MIN_DRAIN_S, math.ceil(_DRAIN_PROOFS * longest))),
            "resources": _resources(own, threads, 1),
        }
    if pools:
        values["workers"] = pools
        values["autoscaling"] = {"maxReplicas": max(pool["replicas"] for pool in pools.values())}
    return values | {"keys": _keys(demands)}


def _replicas(demands: Sequence[Demand], seconds: Seconds) -> int:
    return replicas_for(1, sum(demand.per_second * _slowest(demand, seconds) for demand in demands))


def _slowest(demand: Demand, seconds: Seconds) -> float:
    return max(seconds[circuit] for circuit in demand.circuits if circuit in seconds)


def _names(demands: Sequence[Demand]) -> list[str]:
    return [name for demand in demands for name in demand.names]


def _resources(demands: Sequence[Demand], threads: int, permits: int) -> dict[str, dict[str, str]]:
    """Return requests and limits: a prover gives half of its memory limit to keys, and half to proofs in progress."""
    circuits = [circuit for demand in demands for circuit in demand.circuits]
    keys = sum(map(resident_bytes, circuits))
    proofs = permits * max(scratch_bytes(circuit, threads) for circuit in circuits)
    request = max(_MIN_MEMORY_BYTES, _PROCESS_BYTES + keys + proofs)
    limit = max(request, 2 * max(keys, proofs))
    return {
        "requests": {"cpu": str(threads), "memory": _memory(request)},
        "limits": {"cpu": str(threads), "memory": _memory(limit)},
    }


def _keys(demands: Sequence[Demand]) -> dict[str, Any]:
    circuits = [circuit for demand in demands for circuit in demand.circuits]
    disk = _DISK_RESERVE * sum(file_bytes(circuit) + resident_bytes(circuit) for circuit in circuits)
    memory = _memory(max(2 * _MIN_MEMORY_BYTES, _PROCESS_BYTES + max(map(_preparation_bytes, circuits))))
    return {
        "runMode": "",
        "circuits": _names(demands),
        "resources": {"requests": {"memory": memory}, "limits": {"memory": memory}},
        "claim": {"size": f"{math.ceil(disk / 2**30)}Gi"},
    }


def _preparation_bytes(circuit: CircuitId) -> int:
    """Return the approximate memory that loading a key from its source and folding it takes (``folding_bytes``)."""
    constraints = constraints_of(circuit)
    domain_size = 1 << (constraints - 1).bit_length()
    return resident_bytes(circuit) + 448 * domain_size + 128 * constraints


def _memory(count: float) -> str:
    return f"{math.ceil(count / _MEMORY_STEP) * _MEMORY_STEP // 2**20}Mi"


def sizing_notes(demands: Sequence[Demand], seconds: Seconds, threads: int) -> list[str]:
    """Return sentences about what was measured, and what the values need."""
    notes = [f"From proofs on {threads} threads of this machine; pods prove {UTILIZATION:.0%} of the time."]
    for demand in demands:
        measured = [circuit for circuit in demand.circuits if circuit in seconds]
        slowest = max(measured, key=seconds.__getitem__)
        notes.append(f"{demand.per_second:g}/s of {demand.kind}: {slowest} takes {seconds[slowest]:.3f} s.")
        if len(measured) < len(demand.circuits):
            count = f"{len(measured)} of {len(demand.circuits)} circuits"
            notes.append(f"Only {count} of {demand.kind} have a key here; others may be slower.")
    notes.append("Pods on several nodes need keys.claim.accessModes [ReadWriteMany], or keys.claim.enabled=false.")
    if any(demand.kind.is_batch for demand in demands):
        notes.append("Workers need redis.existingSecret. With KEDA (autoscaling.enabled), maxReplicas counts.")
    return notes


def yaml_text(values: Mapping[str, Any], notes: Sequence[str] = ()) -> str:
    """Return values as YAML under notes as comments: mappings in blocks, all else in JSON, which YAML contains."""
    return "".join(line + "\n" for line in (*(f"# {note}" for note in notes), *_lines(values, "")))


def _lines(values: Mapping[str, Any], indent: str) -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield f"{indent}{name}:"
            yield from _lines(value, indent + "  ")
        else:
            yield f"{indent}{name}: {json.dumps(value)}"
