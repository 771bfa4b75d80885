"""A Kubernetes control plane of this machine's processes, with KEDA: etcd, API server, controllers, scheduler.

It has no nodes (``process_node``) and no network of its own. Its services run with the rights of their clients' token,
so roles are not tested; admission is: a namespace may enforce the security standard "restricted".
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yaml  # type: ignore[import-untyped]
from certificates import Certificates
from cluster_programs import ClusterPrograms
from deployment_tools import FOLDER
from kubernetes_api import ApiError, KubernetesApi
from local_processes import free_port, tied

PATIENCE_S = 120
AUTOSCALER_S = 2
"""Period of the autoscaler, 15 by default."""
_KEDA_NAMESPACE, _KEDA_SERVICE = "keda", "keda-metrics-apiserver"


class HelmFailed(Exception):
    """Helm or the API server refused a chart; the message is theirs."""


@dataclass
class ControlPlane:
    """A running control plane, as its clients see it."""

    folder: Path
    api: KubernetesApi
    kubeconfig: Path
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, words: list[str], variables: Mapping[str, str] | None = None) -> None:
        """Start a process that logs to NAME.log."""
        with (self.folder / f"{name}.log").open("ab") as sink:
            self._processes[name] = subprocess.Popen(
                tied(words), stdout=sink, stderr=sink, env={**os.environ, **(variables or {})}
            )

    async def until(self, name: str, condition: Callable[[], Coroutine[Any, Any, bool]]) -> None:
        """Wait until a process answers as it should."""
        for _ in range(PATIENCE_S * 4):
            with contextlib.suppress(ApiError, aiohttp.ClientError, OSError):
                if await condition():
                    return
            if self._processes[name].poll() is not None:
                break
            await asyncio.sleep(0.25)
        end = (self.folder / f"{name}.log").read_text(errors="replace")[-4000:]
        raise AssertionError(f"{name} does not start:\n{end}")

    async def helm(self, namespace: str, *words: str) -> None:
        """Run Helm in a namespace. Raises HelmFailed."""
        command = [str(FOLDER / "helm"), *words, "--namespace", namespace, "--kubeconfig", str(self.kubeconfig)]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
        _, message = await process.communicate()
        if process.returncode != 0:
            raise HelmFailed(message.decode())

    def stop(self) -> None:
        """End all processes, the last one first."""
        for process in reversed(self._processes.values()):
            process.send_signal(signal.SIGKILL)
            process.wait()


@contextlib.asynccontextmanager
async def running_control_plane(programs: ClusterPrograms, folder: Path) -> AsyncIterator[ControlPlane]:
    """Run a control plane with KEDA; its data and logs are in ``folder``."""
    certificates, token, port = Certificates.make(folder / "certificates"), secrets.token_hex(16), free_port()
    (folder / "tokens.csv").write_text(f'{token},admin,admin,"system:masters"\n')
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(_kubeconfig(f"https://127.0.0.1:{port}", token))
    async with KubernetesApi(f"https://127.0.0.1:{port}", token) as api:
        plane = ControlPlane(folder, api, kubeconfig)
        try:
            await _start_kubernetes(plane, programs, certificates, port)
            await _start_keda(plane, programs, certificates)
            yield plane
        finally:
            plane.stop()


def restricted_namespace(name: str) -> dict[str, Any]:
    """Return a namespace that enforces the security standard "restricted"."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


async def _start_kubernetes(
    plane: ControlPlane, programs: ClusterPrograms, certificates: Certificates, port: int
) -> None:
    clients, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    plane.start(
        "etcd",
        [
            *(str(programs.etcd), "--unsafe-no-fsync", f"--data-dir={plane.folder / 'etcd'}"),
            *(f"--listen-client-urls={clients}", f"--advertise-client-urls={clients}"),
            *(f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}"),
            f"--initial-cluster=default={peers}",
        ],
    )
    plane.start(
        "kube-apiserver",
        [
            *(str(programs.api_server), f"--etcd-servers={clients}", f"--cert-dir={plane.folder / 'server'}"),
            *("--bind-address=127.0.0.1", f"--secure-port={port}", f"--advertise-address={own_address()}"),
            *(f"--token-auth-file={plane.folder / 'tokens.csv'}", "--authorization-mode=RBAC"),
            *("--service-cluster-ip-range=10.0.0.0/24", "--service-account-issuer=https://kubernetes.default.svc"),
            f"--service-account-key-file={certificates.key}",
            f"--service-account-signing-key-file={certificates.key}",
            # Nodes stay as they are made: no controller of theirs runs.
            "--disable-admission-plugins=TaintNodesByCondition",
            # Requests of the API of external metrics go to KEDA.
            *("--enable-aggregator-routing=true", f"--requestheader-client-ca-file={certificates.authority}"),
            *(f"--proxy-client-cert-file={certificates.certificate}", f"--proxy-client-key-file={certificates.key}"),
            *("--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group"),
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        ],
    )

    async def is_ready() -> bool:
        return bool((await plane.api.get("/readyz"))["text"] == "ok")

    await plane.until("kube-apiserver", is_ready)
    common = [f"--kubeconfig={plane.kubeconfig}", "--leader-elect=false", "--secure-port=0"]
    plane.start(
        "kube-controller-manager",
        [
            *(str(programs.controller_manager), *common, "--controllers=*,-node-lifecycle-controller"),
            f"--service-account-private-key-file={certificates.key}",
            f"--horizontal-pod-autoscaler-sync-period={AUTOSCALER_S}s",
        ],
    )
    plane.start("kube-scheduler", [str(programs.scheduler), *common])


async def _start_keda(plane: ControlPlane, programs: ClusterPrograms, certificates: Certificates) -> None:
    api = plane.api
    await api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _KEDA_NAMESPACE}})
    for path in sorted(programs.keda_definitions.glob("*.yaml")):
        await api.create(yaml.safe_load(path.read_text()))
    metrics, served, health = free_port(), free_port(), free_port()
    for made in _external_metrics(served):
        await api.create(made)
    names = dict.fromkeys(("POD_NAMESPACE", "KEDA_CLUSTER_OBJECT_NAMESPACE"), _KEDA_NAMESPACE)
    variables = {"KUBECONFIG": str(plane.kubeconfig), "WATCH_NAMESPACE": ""} | names
    plane.start(
        "keda-operator",
        [
            *(str(programs.keda_operator), f"--cert-dir={certificates.folder}"),
            *(
                f"--metrics-bind-address=127.0.0.1:{free_port()}",
                f"--health-probe-bind-address=127.0.0.1:{health}",
            ),
            f"--metrics-service-bind-address=127.0.0.1:{metrics}",
        ],
        variables,
    )
    plane.start(
        "keda-adapter",
        [
            *(str(programs.keda_adapter), f"--secure-port={served}", f"--port={free_port()}"),
            *(f"--metrics-service-address=127.0.0.1:{metrics}", f"--cert-dir={certificates.folder}"),
            f"--tls-cert-file={certificates.certificate}",
            f"--tls-private-key-file={certificates.key}",
            f"--client-ca-file={certificates.authority}",
            *(f"--{use}-kubeconfig={plane.kubeconfig}" for use in ("lister", "authentication", "authorization")),
        ],
        variables,
    )

    async def is_healthy() -> bool:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{health}/readyz") as answer:
            return answer.status == 200

    async def is_served() -> bool:
        found = await api.get("/apis/external.metrics.k8s.io/v1beta1")
        return bool(found["kind"] == "APIResourceList")

    await plane.until("keda-operator", is_healthy)
    await plane.until("keda-adapter", is_served)


def _external_metrics(port: int) -> list[dict[str, Any]]:
    """Return the objects by which the API server finds KEDA's metrics on this machine."""
    place = {"name": _KEDA_SERVICE, "namespace": _KEDA_NAMESPACE}
    version = {"group": "external.metrics.k8s.io", "version": "v1beta1"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": place,
            "spec": {"ports": [{"name": "https", "port": 443, "targetPort": port}]},
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**place, "labels": {"kubernetes.io/service-name": _KEDA_SERVICE}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [own_address()], "conditions": {"ready": True}}],
            "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": "v1beta1.external.metrics.k8s.io"},
            "spec": {
                **version,
                "service": place,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "insecureSkipTLSVerify": True,
            },
        },
    ]


def own_address() -> str:
    """Return an address of this machine that is not a loopback one; endpoints must not be."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.connect(("192.0.2.1", 9))  # sends nothing
        address: str = found.getsockname()[0]
        return address


def _kubeconfig(server: str, token: str) -> str:
    text: str = yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "local",
            "contexts": [{"name": "local", "context": {"cluster": "local", "user": "admin"}}],
            "clusters": [{"name": "local", "cluster": {"server": server, "insecure-skip-tls-verify": True}}],
            "users": [{"name": "admin", "user": {"token": token}}],
        }
    )
    return text
