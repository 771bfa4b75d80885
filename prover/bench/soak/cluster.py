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
import random
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
from bench_report import Report
from cluster_programs import ClusterPrograms, ClusterUnavailable, built_programs
from deployment_tools import ToolsUnavailable, fetch
from queue_fleet import JOB_ENDS, logged_events
from redis_server import running_redis
from soak.installed_chart import PASSWORD, POOL, Cluster, running_cluster, until
from soak.queue import Outcome, faults_of, keys_in
from soak.queue_jobs import Client, Job, made_jobs

CIRCUITS = "v2_inclusion_32_1,v2_non-inclusion_40_1,batch_update_32_10,batch_append_32_10"
LAST = "batch_append_32_10"


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
            through = [proving_at_stop(logged_events(pod.log)) for pod in cluster.node.ended_of(POOL)[stopped:]]
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
            found = [line for pod in pods for line in logged_events(pod.log)]
    return Outcome(jobs, [], found, time.monotonic() - started), rows, cluster


def run(options: argparse.Namespace) -> Report:
    """Run the jobs through the cluster, and judge what came of them."""
    try:
        fetch()
        programs = built_programs()
    except (ToolsUnavailable, ClusterUnavailable) as error:
        raise SystemExit(f"no cluster on this machine: {error}") from None
    circuits = {*options.circuits.split(","), options.last}
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
    statuses = [
        pod.exit_status for pod in stopped if any(line["event"] == "workers_started" for line in logged_events(pod.log))
    ]
    clean = not outcome.count("job_requeued") and not any(statuses)
    report.require("no stop ends a running proof", clean, f"exit statuses {statuses}")
    full = all(row["most pods"] >= options.replicas for row in rows)
    report.require("every cycle reaches the maximum of replicas and zero", full, "see the table")
    return report
