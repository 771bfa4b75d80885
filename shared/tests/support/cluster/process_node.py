"""A node whose pods are processes of this machine, each at a loopback address of its own."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kubernetes_api import KubernetesApi
from pod_processes import POLL_S, Images, PodProcesses

_NAME = "node"
_RANDOM = random.SystemRandom()


@dataclass
class ProcessNode:
    """The node, while ``run`` runs."""

    api: KubernetesApi
    images: Images
    folder: Path
    pods: dict[str, PodProcesses] = field(default_factory=dict)
    """Those that run, by uid."""
    ended: list[PodProcesses] = field(default_factory=list)
    """Those that were deleted."""
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    # Other clusters of this machine have other addresses.
    _network: str = field(default_factory=lambda: f"127.{_RANDOM.randrange(1, 255)}.{_RANDOM.randrange(256)}")

    async def register(self) -> None:
        """Add the node to the cluster, with more CPUs and memory than any pod asks for."""
        resources = {"cpu": "256", "memory": "1Ti", "pods": "110", "ephemeral-storage": "1Ti"}
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now}
        labels = {"kubernetes.io/hostname": _NAME, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        await self.api.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": _NAME, "labels": labels}})
        status = {"capacity": resources, "allocatable": resources, "conditions": [ready]}
        await self.api.patch(f"/api/v1/nodes/{_NAME}/status", {"status": status})

    async def run(self) -> None:
        """Start and end pods as the API server says, until cancelled."""
        try:
            while True:
                for pod in await self.api.items("/api/v1/pods", fieldSelector=f"spec.nodeName={_NAME}"):
                    self._see(pod)
                for task in list(self._tasks.values()):
                    if task.done():
                        task.result()
                await asyncio.sleep(POLL_S)
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def of(self, component: str) -> list[PodProcesses]:
        """Return the pods of a component that are not deleted, in the order of their start."""
        return [pod for pod in self.pods.values() if _component(pod.pod) == component]

    def ended_of(self, component: str) -> list[PodProcesses]:
        """Return the deleted pods of a component in the order of their end."""
        return [pod for pod in self.ended if _component(pod.pod) == component]

    def _see(self, pod: dict[str, Any]) -> None:
        uid = pod["metadata"]["uid"]
        if uid not in self._tasks:
            number = next(self._numbers)
            address = f"{self._network}.{number}"
            folder = self.folder / f"{number}-{pod['metadata']['name']}"
            folder.mkdir(parents=True)
            self.pods[uid] = made = PodProcesses(self.api, self.images, folder, address, pod)
            self._tasks[uid] = asyncio.create_task(made.run())
        elif "deletionTimestamp" in pod["metadata"] and uid in self.pods:
            gone = self.pods.pop(uid)
            gone.delete()
            self.ended.append(gone)


def _component(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["labels"].get("app.kubernetes.io/component", ""))


@contextlib.asynccontextmanager
async def service_address(node: ProcessNode, component: str, port: int) -> AsyncIterator[str]:
    """Serve host:port, from which each connection goes to the next ready pod of a component."""
    turns = itertools.count()
    writers: set[asyncio.StreamWriter] = set()

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
            sink.write_eof()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        try:
            if ready := [pod for pod in node.of(component) if pod.ready]:
                pod = ready[next(turns) % len(ready)]
                from_pod, to_pod = await asyncio.open_connection(pod.address, port)
                writers.add(to_pod)
                await asyncio.gather(pump(reader, to_pod), pump(from_pod, writer))
                to_pod.close()
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        host, own_port = server.sockets[0].getsockname()
        yield f"{host}:{own_port}"
    finally:
        server.close()
        for writer in writers:
            writer.close()
