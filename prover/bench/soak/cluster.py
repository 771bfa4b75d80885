"""Jobs in bursts through workers that a simulated cluster scales from zero to four and back, with kills.

The cluster reads the chart's ScaledObject and Deployment. It counts the triggers on a real Redis, computes replicas by
the formula, and starts and stops real workers, as KEDA and the autoscaler of Kubernetes do; all of its times are
divided by --speed. A killed worker starts again, as a kubelet starts a container again. After the bursts a client sends
one batch after another, and each surplus pod is stopped while it proves one of them. Exit status 1 if a job is lost or
ends wrongly, if a scale-down ends a running proof or meets none, or if a cycle does not reach the maximum and zero.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
from bench_report import Report
from queue_fleet import running_fleet
from redis_server import running_redis
from simulated_cluster import Cluster, Workload, proving_at_stop
from soak.queue import Outcome, faults_of, keys_in
from soak.queue_jobs import Client, Job, made_jobs

CIRCUITS = "v2_inclusion_32_1,v2_non-inclusion_40_1,batch_update_32_10,batch_append_32_10"
LAST = "batch_append_32_10"


async def drive(cluster: Cluster, server: str, jobs: list[Job], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Send the jobs in cycles of bursts, and add more while pods are stopped; return a row for each cycle."""
    rng, rows = random.Random(options.seed), []
    shares = [jobs[cycle :: options.cycles] for cycle in range(options.cycles)]
    async with (
        # Jobs are late before this, and named; it ends a cluster that does not scale.
        asyncio.timeout(2 * options.patience),
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session,
        asyncio.TaskGroup() as group,
    ):
        scaling = group.create_task(cluster.run())
        client = Client(session, server, time.monotonic() + options.patience)
        for number, mine in enumerate(shares):
            cluster.highest, stopped, began = 0, len(cluster.stopped), time.time()
            cluster.more_follow = True
            await send(cluster, client, mine, rng, options)
            ended = time.time()
            while len(cluster.pods) > 1:
                [job] = made_jobs(1, options.seed + len(jobs), 0, [options.last])
                jobs.append(job)
                await client.see_through(job)
            cluster.more_follow = False
            await cluster.until_none()
            first = min(job.ended_at for job in mine if job.proof is not None) - began
            through = [proving_at_stop(pod.events(of_all_starts=False)) for pod in cluster.stopped[stopped:]]
            rows.append(
                {
                    "cycle": number + 1,
                    "jobs": len(mine),
                    "most replicas": cluster.highest,
                    "first job to first proof s": round(first, 1),
                    "all ended after s": round(ended - began, 1),
                    "at zero after s": round(time.time() - began, 1),
                    "pods stopped": len(through),
                    "while they proved": sum(map(bool, through)),
                    "proofs finished there": sum(list(found.values()).count("job_finished") for found in through),
                }
            )
        scaling.cancel()
    return rows


async def send(
    cluster: Cluster, client: Client, jobs: Sequence[Job], rng: random.Random, options: argparse.Namespace
) -> None:
    """Send jobs in bursts, and kill a pod meanwhile; return when all of them ended."""
    async with asyncio.TaskGroup() as group:
        group.create_task(cluster.kill(rng))
        for burst in range(options.bursts):
            for job in jobs[burst :: options.bursts]:
                group.create_task(client.see_through(job))
            await asyncio.sleep(options.pause)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("--jobs", type=int, default=300, help="jobs of all bursts (default 300)")
    parser.add_argument("--cycles", type=int, default=2, help="from zero and back (default 2)")
    parser.add_argument("--bursts", type=int, default=3, help="bursts in a cycle (default 3)")
    parser.add_argument("--pause", type=float, default=5, help="seconds from burst to burst (default 5)")
    parser.add_argument("--replicas", type=int, default=4, help="maximum replicas (default 4)")
    parser.add_argument("--jobs-per-replica", type=int, default=4, help="waiting jobs of a replica (default 4)")
    parser.add_argument("--speed", type=float, default=10, help="divisor of the cluster's times (default 10)")
    parser.add_argument("--circuits", default=CIRCUITS, help=f"circuits of the jobs (default {CIRCUITS})")
    parser.add_argument("--last", default=LAST, help=f"circuit of the jobs while pods are stopped (default {LAST})")
    parser.add_argument("--independent", type=int, default=3, help="proofs verified by other code, too (default 3)")
    parser.add_argument("--patience", type=float, default=1500, help="seconds until a job is lost (default 1500)")
    parser.add_argument("--seed", type=int, default=1, help="seed of jobs and kills (default 1)")


def run(options: argparse.Namespace) -> Report:
    """Run the jobs through the cluster, and judge what came of them."""
    workload, circuits = Workload.rendered(options.replicas, options.jobs_per_replica), options.circuits.split(",")
    jobs = made_jobs(options.jobs, options.seed, 0, circuits)
    with tempfile.TemporaryDirectory() as keys, tempfile.TemporaryDirectory() as data:
        keys_dir, folder = keys_in(Path(keys), {*circuits, options.last}), Path(data)
        common = ["--keys-dir", str(keys_dir), "--threads", "1", "--max-concurrency", "1"]
        started = time.monotonic()
        with running_redis(folder, appendonly=True) as server:
            variables = {"REDIS_URL": server.url, "PROVER_QUEUE__ATTEMPTS": "20"}
            with running_fleet(folder, keys_dir, server.url, variables, workers=0) as ([api], _):
                cluster = Cluster(workload, server.port, folder, common, variables, options.speed)
                try:
                    rows = asyncio.run(drive(cluster, f"http://127.0.0.1:{api.api_port}", jobs, options))
                except TimeoutError:
                    raise SystemExit(f"{len(cluster.pods)} pods are left after {2 * options.patience:g} s") from None
                finally:
                    for pod in cluster.pods:
                        pod.end(signal.SIGKILL)
                events = [line for member in (api, *cluster.stopped) for line in member.events()]
        outcome = Outcome(jobs, [], events, time.monotonic() - started)
        faults = faults_of(outcome, keys_dir, options.independent)
    return report_of(outcome, cluster, rows, faults, options)


def report_of(
    outcome: Outcome, cluster: Cluster, rows: list[dict[str, Any]], faults: list[str], options: argparse.Namespace
) -> Report:
    """Return the cycles, and the bounds that they kept."""
    report = Report({"cycles": [*rows]})
    report.figures = {
        "jobs": len(outcome.jobs),
        "lost": sum(any(fault.startswith("lost") for fault in job.faults) for job in outcome.jobs),
        "pods stopped by scale-down": len(cluster.stopped),
        "pods stopped while they proved": sum(row["while they proved"] for row in rows),
        "running proofs ended by scale-down": outcome.count("job_requeued"),
        "pods killed": cluster.killed,
    }
    report.require("no job is lost or ends wrongly, proofs verify", not faults, "; ".join(faults) or "no fault")
    met = all(row["proofs finished there"] == row["while they proved"] > 0 for row in rows)
    report.require("each cycle stops pods while they prove, and they finish these proofs", met, "see the table")
    clean = not outcome.count("job_requeued") and not any(cluster.statuses)
    report.require("no scale-down ends a running proof", clean, f"exit statuses {cluster.statuses}")
    full = all(row["most replicas"] == options.replicas for row in rows)
    report.require("every cycle reaches the maximum of replicas and zero", full, "see the table")
    return report
