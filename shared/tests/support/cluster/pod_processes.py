"""A pod whose containers are processes of this machine: starts, probes, restarts and the end, as a kubelet does it.

Nothing is isolated: no file system, no limits, no user of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from kubernetes_api import ApiError, KubernetesApi
from local_processes import tied
from pod_volumes import made_volumes, on_this_machine

POLL_S = 0.25
RESTART_S = 1.0
"""Pause before a container starts again."""
_INIT = ("tini", "-s", "--")


@dataclass(frozen=True)
class Images:
    """Contents of the images: the entry point of each repository, and folders for PATH."""

    entry_points: Mapping[str, Sequence[str]]
    folders: Sequence[Path]

    def command(self, container: Mapping[str, Any]) -> list[str]:
        """Return the words of a container's process."""
        repository = container["image"].partition("@")[0].rpartition(":")[0]
        words = [*container.get("command", self.entry_points[repository]), *container.get("args", [])]
        return words[len(_INIT) :] if tuple(words[: len(_INIT)]) == _INIT else words

    def environment(self) -> dict[str, str]:
        """Return the variables of every process."""
        path = os.pathsep.join([*map(str, self.folders), os.environ["PATH"]])
        return {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ} | {"PATH": path}


@dataclass
class PodProcesses:
    """One pod from its start to its end."""

    api: KubernetesApi
    images: Images
    folder: Path
    address: str
    pod: dict[str, Any]
    restarts: int = 0
    ready: bool = False
    exit_status: int | None = None
    """How the last process of the container ended."""
    log_start: int = 0
    """Where in the log the output of its last process begins."""
    over: bool = False
    """True once nothing of it runs any more."""
    volumes: dict[str, Path] = field(default_factory=dict)
    _process: asyncio.subprocess.Process | None = None
    _deleted: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def name(self) -> str:
        """The pod's name."""
        return str(self.pod["metadata"]["name"])

    @property
    def log(self) -> Path:
        """Output of the container, over its restarts."""
        return self.folder / "container.log"

    @property
    def _path(self) -> str:
        return f"/api/v1/namespaces/{self.pod['metadata']['namespace']}/pods/{self.name}"

    async def run(self) -> None:
        """Run it until it is deleted, or, if it is not to be restarted, until its end."""
        await self._run()
        self.over = True

    async def _run(self) -> None:
        self.volumes = await made_volumes(self.api, self.pod, self.folder / "volumes")
        spec = self.pod["spec"]
        for container in spec.get("initContainers", []):
            while await self._until_end(container) != 0:
                if self._deleted.is_set():
                    return await self._removed()
                await asyncio.sleep(RESTART_S)
        [container] = spec["containers"]
        while True:
            self.exit_status = await self._until_end(container, probed=True)
            self.ready = False
            if self._deleted.is_set():
                return await self._removed()
            if spec["restartPolicy"] == "Never" or (spec["restartPolicy"] == "OnFailure" and self.exit_status == 0):
                return await self._report("Failed" if self.exit_status else "Succeeded")
            self.restarts += 1
            await self._report("Running")
            await asyncio.sleep(RESTART_S)

    def delete(self) -> None:
        """End it: the API server has noted the deletion."""
        self._deleted.set()

    def kill(self) -> None:
        """Send SIGKILL to its process; the container starts again."""
        assert self._process is not None, f"{self.name} does not run"
        self._process.kill()

    async def _until_end(self, container: Mapping[str, Any], *, probed: bool = False) -> int:
        """Run a container's process and return its status."""
        words = [self._here(word, container) for word in self.images.command(container)]
        variables = {entry["name"]: self._here(entry["value"], container) for entry in container.get("env", [])}
        temporary = {"TMPDIR": str(self.volumes["tmp"])} if "tmp" in self.volumes else {}
        with self.log.open("ab") as sink:
            self.log_start = sink.tell()
            self._process = process = await asyncio.create_subprocess_exec(
                *tied(words), stdout=sink, stderr=sink, env=self.images.environment() | temporary | variables
            )
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(self._deleted.wait())]
        if probed:
            tasks.append(asyncio.create_task(self._probe(container)))
        ended = asyncio.create_task(process.wait())
        try:
            done, _ = await asyncio.wait([ended, *tasks], return_when=asyncio.FIRST_COMPLETED)
            if ended in done:
                return ended.result()
            # Deleted, or a probe that failed: both give the process its time.
            await self._set_ready(False)
            process.send_signal(signal.SIGTERM)
            try:
                return await asyncio.wait_for(asyncio.shield(ended), self.pod["spec"]["terminationGracePeriodSeconds"])
            except TimeoutError:
                process.kill()
                return await ended
        finally:
            for task in (*tasks, ended):
                task.cancel()
            if process.returncode is None:
                process.kill()

    def _here(self, text: str, container: Mapping[str, Any]) -> str:
        return on_this_machine(text, container, self.volumes, self.address)

    async def _probe(self, container: Mapping[str, Any]) -> None:
        """Probe until the startup or liveness probe fails as often as it may."""
        ports = {port["name"]: port["containerPort"] for port in container.get("ports", [])}
        async with aiohttp.ClientSession() as session:

            async def passes(probe: Mapping[str, Any]) -> bool:
                asked = probe["httpGet"]
                port = ports.get(asked["port"], asked["port"])
                timeout = aiohttp.ClientTimeout(total=probe.get("timeoutSeconds", 1))
                with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
                    async with session.get(f"http://{self.address}:{port}{asked['path']}", timeout=timeout) as answer:
                        return answer.status < 400
                return False

            async def until_failed(probe: Mapping[str, Any], *, once: bool = False) -> None:
                await asyncio.sleep(probe.get("initialDelaySeconds", 0))
                failures = 0
                while failures < probe.get("failureThreshold", 3):
                    passed = await passes(probe)
                    if passed and once:
                        return
                    failures = 0 if passed else failures + 1
                    await asyncio.sleep(probe.get("periodSeconds", 10))
                raise _ProbeFailed

            async def readiness(probe: Mapping[str, Any]) -> None:
                while True:
                    await self._set_ready(await passes(probe))
                    await asyncio.sleep(probe.get("periodSeconds", 10))

            await self._report("Running")
            with contextlib.suppress(_ProbeFailed, ExceptionGroup):
                if "startupProbe" in container:
                    await until_failed(container["startupProbe"], once=True)
                async with asyncio.TaskGroup() as group:
                    if "readinessProbe" in container:
                        group.create_task(readiness(container["readinessProbe"]))
                    else:
                        await self._set_ready(True)
                    if "livenessProbe" in container:
                        group.create_task(until_failed(container["livenessProbe"]))
                await asyncio.Event().wait()

    async def _set_ready(self, ready: bool) -> None:
        if ready != self.ready:
            self.ready = ready
            await self._report("Running")

    async def _report(self, phase: str) -> None:
        """Report the state of the pod to the API server."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        ready = "True" if self.ready else "False"
        conditions = {"PodScheduled": "True", "Initialized": "True", "ContainersReady": ready, "Ready": ready}
        ended = phase in ("Succeeded", "Failed")
        state = {"terminated": {"exitCode": self.exit_status or 0}} if ended else {"running": {"startedAt": now}}
        [container] = self.pod["spec"]["containers"]
        status = {
            "phase": phase,
            "podIP": self.address,
            "podIPs": [{"ip": self.address}],
            "startTime": self.pod["metadata"]["creationTimestamp"],
            "conditions": [
                {"type": kind, "status": value, "lastTransitionTime": now} for kind, value in conditions.items()
            ],
            "containerStatuses": [
                {
                    "name": container["name"],
                    "image": container["image"],
                    "imageID": container["image"],
                    "ready": self.ready,
                    "started": not ended,
                    "restartCount": self.restarts,
                    "state": state,
                }
            ],
        }
        with contextlib.suppress(ApiError):  # deleted meanwhile
            await self.api.patch(f"{self._path}/status", {"status": status})

    async def _removed(self) -> None:
        """Delete the pod at the API server, because nothing of it runs any more."""
        uid = self.pod["metadata"]["uid"]
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        with contextlib.suppress(ApiError):
            await self.api.call("DELETE", self._path, options)


class _ProbeFailed(Exception):
    """A probe failed as often as it may."""
