"""Jobs in bursts through workers that a simulated cluster scales from zero to four and back, with kills.

The cluster reads the chart's ScaledObject and Deployment. It counts the triggers on a real Redis, computes replicas by
the formula, and starts and stops real workers, as KEDA and the autoscaler of Kubernetes do; all of its times are
divided by --speed. A killed worker starts again, as a kubelet starts a container again. Exit status 1 if a job is lost
or ends wrongly, if a scale-down ends a running proof, or if the workers do not reach four and zero in each cycle.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import redis
from bench_report import Report
from queue_fleet import Member, running_fleet
from queue_jobs import Client, Job, made_jobs
from redis_server import running_redis
from soak_queue import Outcome, faults_of, keys_in

SCRIPTS = Path(__file__).resolve().parents[2] / "shared" / "scripts"
CARDINALITY = {"list": "llen", "none": "llen", "zset": "zcard", "set": "scard", "hash": "hlen"}
"""The command by which KEDA's redis scaler counts a key of each type, since 2.0."""
POD_OPTIONS = ("--queue-only", "--drain-delay", "--drain-deadline", "--preload-keys")
"""Options of the Deployment that mean the same outside a container."""


@dataclass
class Workload:
    """The scaled Deployment: rules of the ScaledObject, options of its pods."""

    scaled_object: dict[str, Any]
    words: list[str]

    @classmethod
    def rendered(cls, maximum: int, jobs_per_replica: int) -> Workload:
        """Return the pool ``pool`` of the chart with autoscaling."""
        sys.path.insert(0, str(SCRIPTS))
        from deployment_tools import fetch, render

        fetch()
        values = {
            "redis": {"existingSecret": "redis", "address": "redis:6379"},
            "autoscaling": {"enabled": True, "maxReplicas": maximum, "waitingJobsPerReplica": jobs_per_replica},
            "workers": {"pool": {"maxConcurrency": 1}},
        }
        objects = {(found["kind"], found["metadata"]["name"]): found for found in render("prover", values)}
        args = objects["Deployment", "prover-pool"]["spec"]["template"]["spec"]["containers"][0]["args"]
        words = [word for word in args if word.startswith(POD_OPTIONS)]
        return cls(objects["ScaledObject", "prover-pool"]["spec"], words)

    def wanted(self, counts: dict[str, int]) -> int:
        """Return the replicas that the formula asks for."""
        modifiers = self.scaled_object["advanced"]["scalingModifiers"]
        value: float = eval(modifiers["formula"], {}, counts)  # noqa: S307 - a sum of counts
        return min(math.ceil(value / float(modifiers["target"])), int(self.scaled_object["maxReplicaCount"]))


@dataclass
class Cluster:
    """Autoscaler, Deployment and kubelet of one pool."""

    workload: Workload
    redis_port: int
    folder: Path
    common: list[str]
    variables: dict[str, str]
    speed: float
    pods: list[Member] = field(default_factory=list)
    ended: list[Member] = field(default_factory=list)
    """Pods that a scale-down stopped."""
    killed: int = 0
    highest: int = 0
    statuses: list[int] = field(default_factory=list)
    """Exit statuses of the stopped pods."""
    _started: int = 0
    _history: list[tuple[float, int]] = field(default_factory=list)
    _stops: list[asyncio.Task[int]] = field(default_factory=list)
    _last_stop: float = 0.0
    _active_at: float = 0.0

    def counts(self) -> dict[str, int]:
        """Return the value of each trigger."""
        client: Any = redis.Redis(port=self.redis_port)
        found = {}
        for trigger in self.workload.scaled_object["triggers"]:
            name = trigger["metadata"]["listName"]
            found[trigger["name"]] = getattr(client, CARDINALITY[client.type(name).decode()])(name)
        client.close()
        return found

    async def run(self) -> None:
        """Scale until cancelled."""
        while True:
            self.scale(self.workload.wanted(await asyncio.to_thread(self.counts)), time.monotonic())
            await asyncio.sleep(self.workload.scaled_object["pollingInterval"] / self.speed)

    def scale(self, wanted: int, now: float) -> None:
        """Start or stop pods, as far as the rules allow it now."""
        spec = self.workload.scaled_object
        behavior = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
        if wanted:
            self._active_at = now
        if not self.pods:
            if wanted:
                self._start()  # KEDA activates one replica; the autoscaler continues from there
            return
        window = behavior["scaleDown"]["stabilizationWindowSeconds"] / self.speed
        self._history = [(at, count) for at, count in self._history if at > now - window] + [(now, wanted)]
        steady = max(1, *(count for _, count in self._history))
        most = max(2 * len(self.pods), len(self.pods) + 4)
        while len(self.pods) < min(wanted, most):
            self._start()
        [policy] = behavior["scaleDown"]["policies"]
        if steady < len(self.pods) and now - self._last_stop > policy["periodSeconds"] / self.speed:
            self._last_stop = now
            for _ in range(min(policy["value"], len(self.pods) - steady)):
                self._stop()
        if len(self.pods) == 1 and not wanted and now - self._active_at > spec["cooldownPeriod"] / self.speed:
            self._stop()

    async def kill(self, rng: random.Random) -> None:
        """Kill a pod when two run; its container starts again."""
        await until(lambda: len(self.pods) > 1)
        pod = rng.choice(self.pods)
        pod.kill()
        self.killed += 1
        pod.start()

    async def until_none(self) -> None:
        """Wait until the pool is at zero and all stopped pods have ended."""
        await until(lambda: not self.pods)
        self.statuses = await asyncio.gather(*self._stops)

    def _start(self) -> None:
        pod = Member(f"pod-{self._started}", self.folder, [*self.common, *self.workload.words], self.variables)
        self._started += 1
        self.pods.append(pod)
        self.highest = max(self.highest, len(self.pods))
        pod.start()

    def _stop(self) -> None:
        # Kubernetes chooses; here the newest, busy or not.
        pod = self.pods.pop()
        self.ended.append(pod)
        self._stops.append(asyncio.create_task(asyncio.to_thread(pod.end, signal.SIGTERM)))


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    while not condition():  # noqa: ASYNC110 - it changes in many places
        await asyncio.sleep(0.05)


async def drive(
    cluster: Cluster, server: str, jobs: Sequence[Job], options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Send the jobs in cycles of bursts; return a row for each cycle."""
    rng = random.Random(options.seed)
    rows = []
    timeout = aiohttp.ClientTimeout(total=30)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        scaling = asyncio.create_task(cluster.run())
        client = Client(session, [server], time.monotonic() + options.patience)
        for cycle in range(options.cycles):
            mine, cluster.highest, began = jobs[cycle :: options.cycles], 0, time.time()
            async with asyncio.TaskGroup() as group:
                group.create_task(cluster.kill(rng))
                for burst in range(options.bursts):
                    for job in mine[burst :: options.bursts]:
                        group.create_task(client.see_through(job))
                    await asyncio.sleep(options.pause)
            ended = time.time()
            await cluster.until_none()
            first = min(job.ended_at for job in mine if job.proof is not None) - began
            rows.append(
                {
                    "cycle": cycle + 1,
                    "jobs": len(mine),
                    "most replicas": cluster.highest,
                    "first job to first proof s": round(first, 1),
                    "all ended after s": round(ended - began, 1),
                    "at zero after s": round(time.time() - began, 1),
                }
            )
        scaling.cancel()
        await asyncio.wait([scaling])
    return rows


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("--jobs", type=int, default=300, help="jobs in all (default 300)")
    parser.add_argument("--cycles", type=int, default=2, help="from zero and back (default 2)")
    parser.add_argument("--bursts", type=int, default=3, help="bursts in a cycle (default 3)")
    parser.add_argument("--pause", type=float, default=5, help="seconds from burst to burst (default 5)")
    parser.add_argument("--replicas", type=int, default=4, help="maximum replicas (default 4)")
    parser.add_argument("--jobs-per-replica", type=int, default=4, help="waiting jobs of a replica (default 4)")
    parser.add_argument("--speed", type=float, default=10, help="divisor of the cluster's times (default 10)")
    parser.add_argument(
        "--circuits", default="v2_inclusion_32_1,v2_non-inclusion_40_1", help="circuits of the jobs (default: two)"
    )
    parser.add_argument("--patience", type=float, default=1500, help="seconds until a job is lost (default 1500)")
    parser.add_argument("--seed", type=int, default=1, help="seed of jobs and kills (default 1)")


def run(options: argparse.Namespace) -> Report:
    """Run the jobs through the cluster, and judge what came of them."""
    workload = Workload.rendered(options.replicas, options.jobs_per_replica)
    jobs = made_jobs(options.jobs, options.seed, 0, options.circuits.split(","))
    with tempfile.TemporaryDirectory() as keys, tempfile.TemporaryDirectory() as data:
        keys_dir, folder = keys_in(Path(keys), set(options.circuits.split(","))), Path(data)
        common = ["--keys-dir", str(keys_dir), "--threads", "1", "--max-concurrency", "1"]
        started = time.monotonic()
        with running_redis(folder, appendonly=True) as server:
            variables = {"REDIS_URL": server.url, "PROVER_QUEUE__ATTEMPTS": "20"}
            with running_fleet(folder, keys_dir, server.url, variables, workers=0) as ([api], _):
                cluster = Cluster(workload, server.port, folder, common, variables, options.speed)
                try:
                    rows = asyncio.run(drive(cluster, f"http://127.0.0.1:{api.api_port}", jobs, options))
                finally:
                    for pod in cluster.pods:
                        pod.end(signal.SIGKILL)
                events = [line for member in (api, *cluster.ended) for line in member.events()]
        outcome = Outcome(jobs, [], events, time.monotonic() - started)
        faults = faults_of(outcome, keys_dir, 3)
    report = Report({"cycles": [*rows]})
    report.figures = {
        "jobs": len(jobs),
        "lost": sum(any(fault.startswith("lost") for fault in job.faults) for job in jobs),
        "pods stopped by scale-down": len(cluster.ended),
        "running proofs ended by scale-down": outcome.count("job_requeued"),
        "pods killed": cluster.killed,
    }
    report.require("no job is lost or ends wrongly, proofs verify", not faults, "; ".join(faults) or "no fault")
    clean = not outcome.count("job_requeued") and not any(cluster.statuses)
    report.require("no scale-down ends a running proof", clean, f"exit statuses {cluster.statuses}")
    full = all(row["most replicas"] == options.replicas for row in rows)
    report.require("every cycle reaches the maximum of replicas and zero", full, str(rows))
    return report
