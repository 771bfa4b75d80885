"""Jobs in bursts through the chart on a Kubernetes control plane with KEDA, which scales workers from zero and back.

etcd, the API server, controllers, the scheduler and KEDA are the real ones, in a namespace that enforces the security
standard "restricted"; pods are processes of this machine. Helm installs the chart, its Job downloads and prepares the
keys. In each cycle a worker is killed and starts again; an upgrade replaces all pods while they prove. Then a client
sends one batch after another, and each pod that the autoscaler stops proves one of them. Exit status 1 if a job is lost
or ends wrongly, if a stop ends a running proof or meets none, or if a cycle does not reach the maximum and zero. It
needs a Go compiler, and builds the programs of the cluster first (ten minutes).
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import json
import random
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import faulty_key_server
import yaml  # type: ignore[import-untyped]
from bench_report import Report
from cluster_programs import ClusterPrograms, built_programs
from control_plane import ControlPlane, restricted_namespace, running_control_plane
from deployment_tools import fetch
from golden_vectors import BATCH
from kubernetes_api import ApiError
from pod_processes import Images, PodProcesses
from process_node import ProcessNode, service_address
from queue_fleet import JOB_ENDS, PROVER
from redis_server import running_redis
from soak.queue import Outcome, faults_of, keys_in
from soak.queue_jobs import Client, Job, made_jobs

from shared.requests.circuit_id import CircuitId

CIRCUITS = "v2_inclusion_32_1,v2_non-inclusion_40_1,batch_update_32_10,batch_append_32_10"
LAST = "batch_append_32_10"
NAMESPACE, POOL, PASSWORD = "proving", "pool", "secret"
CHART = Path(__file__).resolve().parents[2] / "deploy" / "chart"
UPGRADED = ("--set-string", "component.podAnnotations.revision=2")


@dataclass
class Cluster:
    """The chart as it runs, and what a client needs."""

    plane: ControlPlane
    node: ProcessNode
    values: Path
    server: str = ""
    killed: int = 0
    highest: int = 0

    async def install(self) -> None:
        """Install the chart and wait for the API: the Job has filled the claim of keys then."""
        await self.plane.helm(NAMESPACE, "install", "prover", str(CHART), "--values", str(self.values))
        await until(lambda: any(pod.ready for pod in self.node.of("api")))

    async def upgrade(self) -> None:
        """Replace all pods."""
        before = {pod.name for component in ("api", POOL) for pod in self.node.of(component)}
        await self.plane.helm(NAMESPACE, "upgrade", "prover", str(CHART), "--values", str(self.values), *UPGRADED)
        await until(lambda: not before & {pod.name for pod in self.node.pods.values()})

    async def kill(self, rng: random.Random) -> None:
        """Kill a worker that proves while another runs; its container starts again."""
        await until(lambda: len(self.node.of(POOL)) > 1 and bool(self.busy()))
        rng.choice(self.busy()).kill()
        self.killed += 1

    def busy(self) -> list[PodProcesses]:
        """Return the workers that prove."""
        return [pod for pod in self.node.of(POOL) if jobs_begun(pod)]

    async def choose(self) -> None:
        """Let the autoscaler stop pods that prove before others, until cancelled: the worse moment for a stop."""
        pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
        while True:
            busy = {pod.name for pod in self.busy()}
            for pod in self.node.of(POOL):
                cost = {"controller.kubernetes.io/pod-deletion-cost": "-1" if pod.name in busy else "0"}
                with contextlib.suppress(ApiError):  # it is gone
                    await self.plane.api.patch(f"{pods}/{pod.name}", {"metadata": {"annotations": cost}})
            self.highest = max(self.highest, len(self.node.of(POOL)))
            await asyncio.sleep(0.2)


async def drive(cluster: Cluster, jobs: list[Job], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Send the jobs in cycles of bursts, and add more while pods are stopped; return a row for each cycle."""
    rng, rows = random.Random(options.seed), []
    shares = [jobs[cycle :: options.cycles] for cycle in range(options.cycles)]
    async with (
        # Jobs are late before this, and named; it ends a cluster that does not scale.
        asyncio.timeout(2 * options.patience),
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session,
        asyncio.TaskGroup() as group,
    ):
        choosing = group.create_task(cluster.choose())
        client = Client(session, cluster.server, time.monotonic() + options.patience)
        for number, mine in enumerate(shares):
            cluster.highest, stopped, began = 0, len(cluster.node.ended_of(POOL)), time.time()
            await send(cluster, client, mine, rng, options, upgraded=number == options.cycles - 1)
            ended = time.time()
            while len(cluster.node.of(POOL)) > 1:
                [job] = made_jobs(1, options.seed + len(jobs), 0, [options.last])
                jobs.append(job)
                await client.see_through(job)
            await until(lambda: not cluster.node.of(POOL) and all(pod.over for pod in cluster.node.ended))
            first = min(job.ended_at for job in mine if job.proof is not None) - began
            through = [proving_at_stop(events(pod)) for pod in cluster.node.ended_of(POOL)[stopped:]]
            rows.append(
                {
                    "cycle": number + 1,
                    "jobs": len(mine),
                    "most pods": cluster.highest,
                    "first job to first proof s": round(first, 1),
                    "all ended after s": round(ended - began, 1),
                    "at zero after s": round(time.time() - began, 1),
                    "pods stopped": len(through),
                    "while they proved": sum(map(bool, through)),
                    "proofs finished there": sum(list(found.values()).count("job_finished") for found in through),
                }
            )
        choosing.cancel()
    return rows


async def send(
    cluster: Cluster,
    client: Client,
    jobs: Sequence[Job],
    rng: random.Random,
    options: argparse.Namespace,
    *,
    upgraded: bool,
) -> None:
    """Send jobs in bursts, kill a pod and perhaps upgrade meanwhile; return when all of them ended."""

    async def disturb() -> None:
        await cluster.kill(rng)
        if upgraded:
            await cluster.upgrade()

    async with asyncio.TaskGroup() as group:
        group.create_task(disturb())
        for burst in range(options.bursts):
            for job in jobs[burst :: options.bursts]:
                group.create_task(client.see_through(job))
            await asyncio.sleep(options.pause)


@contextlib.asynccontextmanager
async def running_cluster(
    programs: ClusterPrograms, folder: Path, keys_dir: Path, redis_port: int, options: argparse.Namespace
) -> AsyncIterator[Cluster]:
    """Run the control plane and its node, and install the chart."""
    # False statements are of any batch circuit.
    circuits = sorted({*options.circuits.split(","), options.last, *BATCH})
    images = Images({"zkc-prover": [str(PROVER)]}, [PROVER.parent])
    with faulty_key_server.running(faulty_key_server.KeyServer(key_files(keys_dir, circuits))) as key_server:
        async with running_control_plane(programs, folder / "control-plane") as plane:
            node = ProcessNode(plane.api, images, folder / "pods")
            await node.register()
            for made in objects(folder / "claim", redis_port):
                await plane.api.create(made)
            values = folder / "values.yaml"
            values.write_text(yaml.safe_dump(chart_values(circuits, key_server.url, redis_port, options)))
            cluster = Cluster(plane, node, values)
            async with asyncio.TaskGroup() as group, service_address(node, "api", 3001) as address:
                running = group.create_task(node.run())
                cluster.server = f"http://{address}"
                await cluster.install()
                yield cluster
                running.cancel()


def key_files(keys_dir: Path, circuits: Collection[str]) -> dict[str, bytes]:
    """Return the key files of circuits by the names under which they are published."""
    found = {circuit: path for path in keys_dir.glob("*.key") if (circuit := CircuitId.from_key_file(path.name))}
    return {f"{circuit.name}.key": path.read_bytes() for circuit, path in found.items() if circuit.name in circuits}


def objects(claim: Path, redis_port: int) -> list[dict[str, Any]]:
    """Return what an operator has before the chart: the namespace, the Secret of Redis, and a volume for the keys."""
    claim.mkdir(parents=True)
    secret = {"url": f"redis://:{PASSWORD}@127.0.0.1:{redis_port}/0", "password": PASSWORD}
    return [
        restricted_namespace(NAMESPACE),
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "prover-redis", "namespace": NAMESPACE},
            "data": {name: base64.b64encode(value.encode()).decode() for name, value in secret.items()},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "keys"},
            "spec": {
                "capacity": {"storage": "100Gi"},
                "accessModes": ["ReadWriteMany"],
                "hostPath": {"path": str(claim)},
            },
        },
    ]


def chart_values(circuits: list[str], keys_url: str, redis_port: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return the values of the installation: those of values-queue.yaml with shorter times."""
    values: dict[str, Any] = yaml.safe_load((CHART / "values-queue.yaml").read_text())
    values["image"] = {"repository": "zkc-prover", "tag": "local"}
    values["component"] = {"threads": 1}
    values["workers"] = {POOL: {"maxConcurrency": 1, "drainDeadlineSeconds": 300}}
    values["autoscaling"] |= {
        "maxReplicas": options.replicas,
        "waitingJobsPerReplica": options.jobs_per_replica,
        "pollingSeconds": 1,
        "cooldownSeconds": 10,
        "stabilizationSeconds": 5,
    }
    values["redis"] = {"existingSecret": "prover-redis", "address": f"127.0.0.1:{redis_port}"}
    # Not folded: no proof is timed here.
    values["keys"] |= {"runMode": "", "circuits": circuits, "downloadUrl": keys_url, "fold": "never"}
    # Their resources are those of an operator of this cluster who has none.
    values["monitoring"] = {"dashboard": True}
    return values


def events(pod: PodProcesses, *, of_all_starts: bool = True) -> list[dict[str, Any]]:
    """Return the log lines of a pod; one that a kill cut off is skipped."""
    found = []
    written = pod.log.read_bytes() if pod.log.exists() else b""
    for line in written[0 if of_all_starts else pod.log_start :].splitlines():
        with contextlib.suppress(json.JSONDecodeError):
            found.append(json.loads(line))
    return [line for line in found if isinstance(line, dict) and "event" in line]


def jobs_begun(pod: PodProcesses) -> set[str]:
    """Return ids of the jobs that a pod began and did not end since its process started."""
    begun: set[str] = set()
    for event in events(pod, of_all_starts=False):
        if event["event"] == "job_started":
            begun.add(event["job_id"])
        elif event["event"] in JOB_ENDS:
            begun.discard(event.get("job_id", ""))
    return begun


def proving_at_stop(found: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the jobs that a process was proving when it got SIGTERM, each with the event that ended it there."""
    running: dict[str, str] = {}
    stopping = False
    for event in found:
        job = event.get("job_id", "")
        if event["event"] == "job_started":
            running[job] = ""
        elif event["event"] in JOB_ENDS and stopping:
            running[job] = event["event"]
        elif event["event"] in JOB_ENDS:
            running.pop(job, None)
        stopping = stopping or event["event"] == "draining"
    return running if stopping else {}


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    while not condition():  # noqa: ASYNC110 - it changes in many places
        await asyncio.sleep(0.05)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("--jobs", type=int, default=300, help="jobs of all bursts (default 300)")
    parser.add_argument("--cycles", type=int, default=2, help="from zero and back (default 2)")
    parser.add_argument("--bursts", type=int, default=3, help="bursts in a cycle (default 3)")
    parser.add_argument("--pause", type=float, default=5, help="seconds from burst to burst (default 5)")
    parser.add_argument("--replicas", type=int, default=4, help="maximum replicas (default 4)")
    parser.add_argument("--jobs-per-replica", type=int, default=4, help="waiting jobs of a replica (default 4)")
    parser.add_argument("--circuits", default=CIRCUITS, help=f"circuits of the jobs (default {CIRCUITS})")
    parser.add_argument("--last", default=LAST, help=f"circuit of the jobs while pods are stopped (default {LAST})")
    parser.add_argument("--independent", type=int, default=3, help="proofs verified by other code, too (default 3)")
    parser.add_argument("--patience", type=float, default=1500, help="seconds until a job is lost (default 1500)")
    parser.add_argument("--seed", type=int, default=1, help="seed of jobs and kills (default 1)")
    parser.add_argument("--logs", type=Path, help="folder that keeps logs and data")


async def soak(
    programs: ClusterPrograms, folder: Path, keys_dir: Path, options: argparse.Namespace
) -> tuple[Outcome, list[dict[str, Any]], Cluster]:
    """Run the jobs through the cluster."""
    jobs, started = made_jobs(options.jobs, options.seed, 0, options.circuits.split(",")), time.monotonic()
    with running_redis(folder, appendonly=True, password=PASSWORD) as server:
        async with running_cluster(programs, folder, keys_dir, server.port, options) as cluster:
            rows = await drive(cluster, jobs, options)
            pods = [*cluster.node.pods.values(), *cluster.node.ended]
            found = [line for pod in pods for line in events(pod)]
    return Outcome(jobs, [], found, time.monotonic() - started), rows, cluster


def run(options: argparse.Namespace) -> Report:
    """Run the jobs through the cluster, and judge what came of them."""
    fetch()
    programs, circuits = built_programs(), {*options.circuits.split(","), options.last}
    with tempfile.TemporaryDirectory() as keys, tempfile.TemporaryDirectory() as data:
        keys_dir, folder = keys_in(Path(keys), circuits), options.logs or Path(data)
        folder.mkdir(parents=True, exist_ok=True)
        outcome, rows, cluster = asyncio.run(soak(programs, folder, keys_dir, options))
        faults = faults_of(outcome, keys_dir, options.independent)
    return report_of(outcome, cluster, rows, faults, options)


def report_of(
    outcome: Outcome, cluster: Cluster, rows: list[dict[str, Any]], faults: list[str], options: argparse.Namespace
) -> Report:
    """Return the cycles, and the bounds that they kept."""
    stopped = cluster.node.ended_of(POOL)
    report = Report({"cycles": [*rows]})
    report.figures = {
        "jobs": len(outcome.jobs),
        "lost": sum(any(fault.startswith("lost") for fault in job.faults) for job in outcome.jobs),
        "pods stopped": len(stopped),
        "pods stopped while they proved": sum(row["while they proved"] for row in rows),
        "running proofs ended by a stop": outcome.count("job_requeued"),
        "pods killed": cluster.killed,
    }
    report.require("no job is lost or ends wrongly, proofs verify", not faults, "; ".join(faults) or "no fault")
    met = all(row["proofs finished there"] == row["while they proved"] > 0 for row in rows)
    report.require("each cycle stops pods while they prove, and they finish these proofs", met, "see the table")
    # One that is still starting ends by the signal.
    statuses = [pod.exit_status for pod in stopped if any(line["event"] == "workers_started" for line in events(pod))]
    clean = not outcome.count("job_requeued") and not any(statuses)
    report.require("no stop ends a running proof", clean, f"exit statuses {statuses}")
    full = all(row["most pods"] >= options.replicas for row in rows)
    report.require("every cycle reaches the maximum of replicas and zero", full, "see the table")
    return report
