"""The prover's chart, installed by Helm on a Kubernetes control plane with KEDA and one node of processes."""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from cluster_programs import ClusterPrograms
from control_plane import ControlPlane, restricted_namespace, running_control_plane
from faulty_key_server import KeyServer, published_files, running
from golden_vectors import BATCH
from kubernetes_api import ApiError
from pod_processes import Images, PodProcesses
from pod_volumes import folder_volume
from process_node import ProcessNode, service_address
from queue_fleet import PROVER, logged_events, open_jobs

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
        """Install the chart and wait for the API, whose pods wait for the keys that the Job downloads."""
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
        return [pod for pod in self.node.of(POOL) if open_jobs(logged_events(pod.log, pod.log_start))]

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


@contextlib.asynccontextmanager
async def running_cluster(
    programs: ClusterPrograms, folder: Path, keys_dir: Path, redis_port: int, options: argparse.Namespace
) -> AsyncIterator[Cluster]:
    """Run the control plane and its node, and install the chart."""
    # False statements are of any batch circuit.
    circuits = sorted({*options.circuits.split(","), options.last, *BATCH})
    images = Images({"zkc-prover": [str(PROVER)]}, [PROVER.parent])
    with running(KeyServer(published_files(keys_dir, circuits))) as key_server:
        async with running_control_plane(programs, folder / "control-plane") as plane:
            node = ProcessNode(plane.api, images, folder / "pods")
            await node.register()
            for made in objects(folder / "claim", redis_port):
                await plane.api.create(made)
            values = folder / "values.yaml"
            values.write_text(yaml.safe_dump(chart_values(circuits, key_server.url, redis_port, options)))
            cluster = Cluster(plane, node, values)
            async with asyncio.TaskGroup() as group, service_address(node, "api", 3001) as address:
                processes = group.create_task(node.run())
                cluster.server = f"http://{address}"
                await cluster.install()
                yield cluster
                processes.cancel()


def objects(claim: Path, redis_port: int) -> list[dict[str, Any]]:
    """Return what an operator has before the chart: the namespace, the Secret of Redis, and a volume for the keys."""
    secret = {"url": f"redis://:{PASSWORD}@127.0.0.1:{redis_port}/0", "password": PASSWORD}
    return [
        restricted_namespace(NAMESPACE),
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "prover-redis", "namespace": NAMESPACE},
            "data": {name: base64.b64encode(value.encode()).decode() for name, value in secret.items()},
        },
        folder_volume(claim),
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
    # The Prometheus operator is not in this cluster.
    values["monitoring"] = {"dashboard": True}
    return values


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    while not condition():  # noqa: ASYNC110 - it changes in many places
        await asyncio.sleep(0.05)
