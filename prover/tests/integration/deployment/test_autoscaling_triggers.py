"""The chart's ScaledObject: its triggers on a real Redis with jobs, and the replicas that its formula asks for."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import keda_scaler
import pytest
import redis
from deployment_tools import CHARTS
from queue_inspection import Queue
from redis_server import RedisServer, StartRedis
from rendered_chart import rendered, require_tools

from prover.keys.catalogue.run_modes import RunMode
from prover.keys.catalogue.selection import CircuitSelection
from prover.queue.circuit_queues import CircuitQueue, Network
from prover.queue.jobs import Submission
from prover.settings import QueueSettings

PATIENT = QueueSettings(lease_s=600)


@pytest.fixture(scope="module", autouse=True)
def tools() -> None:
    """Helm."""
    require_tools()


def scaled_object(keys: str = "full", **pool: Any) -> dict[str, Any]:
    """Return the ScaledObject of a pool of workers; ``keys`` is the run mode of the keys that the chart installs."""
    values = {"redis.existingSecret": "redis", "redis.address": "redis:6379", "autoscaling.enabled": True}
    values |= {"workers": {"pool": pool}, "autoscaling.waitingJobsPerReplica": 4, "keys.runMode": keys}
    chart = rendered("prover", values)
    spec: dict[str, Any] = chart.named("ScaledObject", "prover-pool")["spec"]
    return spec


def of_all_networks(*circuits: CircuitQueue) -> set[CircuitQueue]:
    return {queue for queue in CircuitQueue if queue.without_network in circuits}


def replicas(spec: dict[str, Any], server: RedisServer) -> int:
    """Return the replicas that KEDA and the autoscaler ask for."""
    with server.client() as client:
        return keda_scaler.replicas(spec, keda_scaler.counts(client, spec))


async def test_scaled_object__jobs_wait_run_and_end__asks_for_replicas_of_all_of_them(
    redis_database: RedisServer,
) -> None:
    spec, queue = scaled_object(maxConcurrency=1), Queue(redis_database, PATIENT)
    try:
        assert spec["minReplicaCount"] == replicas(spec, redis_database) == 0
        for number in range(9):
            kind = ("update", "append", "address-append")[number % 3]
            network = (None, *Network)[number // 3]
            await queue.submit(Submission(kind, "", f"{number}".encode(), f"tree {number}", number, network=network))
        assert replicas(spec, redis_database) == 3, "nine jobs, four a replica"
        claims = [await queue.claimed(line) for line in CircuitQueue]
        assert replicas(spec, redis_database) == spec["maxReplicaCount"] == 4
        for claim in claims[:-1]:
            assert await queue.finish(claim, b"{}", 5)
        assert replicas(spec, redis_database) == 1, "the running job keeps its replica"
        assert await queue.finish(claims[-1], b"{}", 5)
        assert replicas(spec, redis_database) == 0
    finally:
        await queue.end()


@pytest.mark.parametrize("database", [0, 1])
def test_scaled_object__user_of_redis_with_the_rights_of_the_values__counts(
    redis_start: StartRedis, database: int
) -> None:
    documented = (CHARTS["prover"] / "values.yaml").read_text()
    needs = re.search(r"It needs ([\w, ]+) on \S+, and\s+# +SELECT for a database other than 0", documented)
    assert needs is not None
    rights = [f"+{word.lower()}" for word in re.findall("[A-Z]+", needs[1])] + ["+select"] * bool(database)
    server = redis_start("--user", "scaler", "on", ">secret", "~{zkc-prover}:*", *rights)
    spec = scaled_object()
    with contextlib.closing(redis.Redis(port=server.port, db=database)) as client:
        client.zadd(spec["triggers"][0]["metadata"]["listName"], {"job": 1})
    values = {"redis.existingSecret": "redis", "redis.address": "redis:6379", "autoscaling.enabled": True}
    chart = rendered("prover", values, {"workers": {"pool": {}}, "redis.username": "scaler"})
    triggers = chart.named("ScaledObject", "prover-pool")["spec"]["triggers"]
    assert {trigger["metadata"]["username"] for trigger in triggers} == {"scaler"}
    user = redis.Redis(port=server.port, db=database, username="scaler", password="secret")
    with contextlib.closing(user) as client:
        assert sum(keda_scaler.counts(client, spec).values()) == 1


def test_scaled_object__pool_of_some_circuits__counts_their_queues_alone() -> None:
    found = {
        circuits: {trigger["metadata"]["listName"] for trigger in scaled_object(circuits=list(circuits))["triggers"]}
        for circuits in (("append",), ("address-append", "append-test"), ("update", "inclusion"), ())
    }
    by_circuits = {
        circuits: {line for line in CircuitQueue if f"{{zkc-prover}}:{line.value}:pending" in names}
        for circuits, names in found.items()
    }
    assert by_circuits == {
        ("append",): of_all_networks(CircuitQueue.APPEND),
        ("address-append", "append-test"): of_all_networks(CircuitQueue.ADDRESS_APPEND, CircuitQueue.APPEND),
        ("update", "inclusion"): of_all_networks(CircuitQueue.UPDATE),
        (): set(CircuitQueue),
    }
    assert all(len(found[circuits]) == 2 * len(lines) for circuits, lines in by_circuits.items())


@pytest.mark.parametrize("mode", RunMode)
def test_scaled_object__pool_of_a_run_mode__counts_the_queues_of_all_its_circuits(mode: RunMode) -> None:
    for circuits in ([], ["append"], ["inclusion"]):
        triggers = scaled_object(runMode=mode.value, circuits=circuits)["triggers"]
        counted = {
            line for line in CircuitQueue for trigger in triggers if f":{line.value}:" in str(trigger["metadata"])
        }
        selected = CircuitSelection.of(mode, circuits).published()
        assert counted == of_all_networks(*{CircuitQueue.of(circuit.kind) for circuit in selected})


@pytest.mark.parametrize("mode", RunMode)
def test_scaled_object__pool_without_a_selection__counts_the_queues_of_the_installed_keys(mode: RunMode) -> None:
    assert scaled_object(keys=mode.value) == scaled_object(runMode=mode.value)


def test_scaled_object__pool_of_several_proofs_at_once__holds_a_replica_for_as_many() -> None:
    formula = scaled_object(maxConcurrency=3, circuits=["append"])["advanced"]["scalingModifiers"]["formula"]
    waiting, running = (
        " + ".join(f"{state}_append{network}" for network in ("", "_mainnet", "_devnet"))
        for state in ("waiting", "running")
    )
    assert formula == f"({waiting}) / 4 + ({running}) / 3"
