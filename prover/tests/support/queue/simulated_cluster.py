"""KEDA, autoscaler, Deployment and kubelet of one pool of workers: real processes by the rules of the chart.

All times of the cluster are divided by a speed. A pod that a scale-down chooses proves at that moment if any pod does.
"""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keda_scaler
import redis
from queue_fleet import JOB_ENDS, Member

SCRIPTS = Path(__file__).resolve().parents[4] / "shared" / "scripts"
POD_OPTIONS = ("--queue-only", "--drain-delay", "--drain-deadline", "--preload-keys")
"""Options of the Deployment that mean the same outside a container."""
AUTOSCALER_S = 15
"""Period of the HorizontalPodAutoscaler: --horizontal-pod-autoscaler-sync-period."""


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


@dataclass
class Cluster:
    """A pool that scales while ``run`` runs."""

    workload: Workload
    redis_port: int
    folder: Path
    common: list[str]
    variables: dict[str, str]
    speed: float
    pods: list[Member] = field(default_factory=list)
    stopped: list[Member] = field(default_factory=list)
    """Pods that a scale-down stopped."""
    statuses: list[int] = field(default_factory=list)
    """Exit statuses of the stopped pods that had become workers."""
    killed: int = 0
    highest: int = 0
    more_follow: bool = False
    """True while jobs are sent: a scale-down waits until a pod proves, because that is a worse moment for it."""
    _started: int = 0
    _wanted: list[tuple[float, int]] = field(default_factory=list)
    _stops: list[asyncio.Task[int]] = field(default_factory=list)
    _last_stop: float = 0.0
    _last_sync: float = 0.0
    _active_at: float = 0.0

    async def run(self) -> None:
        """Scale until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            wanted = await asyncio.to_thread(self._replicas)
            self._activate(wanted, clock())
            await asyncio.sleep(self.workload.scaled_object["pollingInterval"] / self.speed)

    async def kill(self, rng: random.Random) -> None:
        """Kill a pod that proves while another runs; its container starts again."""
        await until(lambda: len(self.pods) > 1 and bool(self._busy()))
        pod = rng.choice(self._busy())
        pod.kill()
        self.killed += 1
        pod.start()

    async def until_none(self) -> None:
        """Wait until the pool is at zero and all stopped pods have ended."""
        await until(lambda: not self.pods)
        ended = zip(self.stopped, await asyncio.gather(*self._stops), strict=True)
        # One that is still starting ends by the signal.
        self.statuses = [status for pod, status in ended if pod.has_logged("workers_started")]

    def _replicas(self) -> int:
        spec = self.workload.scaled_object
        client = redis.Redis(port=self.redis_port)
        try:
            return keda_scaler.replicas(spec, keda_scaler.counts(client, spec))
        finally:
            client.close()

    def _activate(self, wanted: int, now: float) -> None:
        """Start the first pod or stop all, as KEDA does; otherwise leave the number to the autoscaler."""
        if wanted:
            self._active_at = now
        if not self.pods:
            if wanted:
                self._start()
        elif not wanted and now - self._active_at > self.workload.scaled_object["cooldownPeriod"] / self.speed:
            while self.pods:
                self._stop(self.pods[-1])
        elif now - self._last_sync > AUTOSCALER_S / self.speed:
            self._last_sync = now
            self._scale(wanted, now)

    def _scale(self, wanted: int, now: float) -> None:
        """Start or stop pods by the rules of the HorizontalPodAutoscaler."""
        rules = self.workload.scaled_object["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"]
        window = rules["stabilizationWindowSeconds"] / self.speed
        self._wanted = [(at, count) for at, count in self._wanted if at > now - window] + [(now, wanted)]
        most = max(2 * len(self.pods), len(self.pods) + 4)
        while len(self.pods) < min(wanted, most):
            self._start()
        surplus = len(self.pods) - max(1, *(count for _, count in self._wanted))
        [policy] = rules["policies"]
        if surplus < 1 or now - self._last_stop < policy["periodSeconds"] / self.speed:
            return
        busy = self._busy()
        if not busy and (wanted or self.more_follow):
            return
        self._last_stop = now
        for pod in (busy or self.pods)[-min(policy["value"], surplus) :]:
            self._stop(pod)

    def _busy(self) -> list[Member]:
        return [pod for pod in self.pods if pod.jobs_begun()]

    def _start(self) -> None:
        pod = Member(f"pod-{self._started}", self.folder, [*self.common, *self.workload.words], self.variables)
        self._started += 1
        self.pods.append(pod)
        self.highest = max(self.highest, len(self.pods))
        pod.start()

    def _stop(self, pod: Member) -> None:
        self.pods.remove(pod)
        self.stopped.append(pod)
        self._stops.append(asyncio.create_task(asyncio.to_thread(pod.end, signal.SIGTERM)))


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    while not condition():  # noqa: ASYNC110 - it changes in many places
        await asyncio.sleep(0.05)


def proving_at_stop(events: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the jobs that a process was proving when it got SIGTERM, each with the event that ended it there."""
    running: dict[str, str] = {}
    stopping = False
    for event in events:
        job = event.get("job_id", "")
        if event["event"] == "job_started":
            running[job] = ""
        elif event["event"] in JOB_ENDS and stopping:
            running[job] = event["event"]
        elif event["event"] in JOB_ENDS:
            running.pop(job, None)
        stopping = stopping or event["event"] == "draining"
    return running if stopping else {}
