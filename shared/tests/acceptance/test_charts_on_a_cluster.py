"""The charts with their presets on a Kubernetes API server: it admits every object, and every pod of a workload.

No node runs the pods; `soak cluster` of the prover's benchmarks does that.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cluster_programs import ClusterPrograms, built_programs
from control_plane import ControlPlane, restricted_namespace, running_control_plane
from deployment_tools import CHARTS
from rendered_chart import presets, require_tools

pytestmark = pytest.mark.skipif(shutil.which("go") is None, reason="go, which builds the cluster, is not installed")
NAMESPACE = "admitted"
WITHOUT_OPERATOR = "monitoring.serviceMonitor=false,monitoring.prometheusRule=false"
"""The Prometheus operator's resources are not those of Kubernetes and KEDA."""
PRESETS = [(service, path) for service in CHARTS for path in presets(service)]


@pytest.fixture(scope="module")
def programs() -> ClusterPrograms:
    """Those of the cluster."""
    require_tools()
    return built_programs()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("service", "path"), PRESETS, ids=[f"{service}-{path.stem}" for service, path in PRESETS])
async def test_chart__under_the_restricted_standard__all_pods_are_admitted(
    service: str, path: Path, programs: ClusterPrograms, tmp_path: Path
) -> None:
    async with running_control_plane(programs, tmp_path / "plane") as plane:
        await plane.api.create(restricted_namespace(NAMESPACE))
        words = ("--values", str(path), "--set", WITHOUT_OPERATOR)
        await plane.helm(NAMESPACE, "install", service, str(CHARTS[service]), *words)
        await _run_once(plane)
        await _until_admitted(plane)


async def _run_once(plane: ControlPlane) -> None:
    """Make the Job that each CronJob would make."""
    for found in await plane.api.items(f"/apis/batch/v1/namespaces/{NAMESPACE}/cronjobs"):
        metadata = {"name": found["metadata"]["name"], "namespace": NAMESPACE}
        made = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": metadata,
            "spec": found["spec"]["jobTemplate"]["spec"],
        }
        await plane.api.create(made)


async def _until_admitted(plane: ControlPlane) -> None:
    """Wait until every Deployment, StatefulSet and Job has its pods."""
    missing: list[str] = []
    for _ in range(60):
        missing = [
            f"{kind} {workload['metadata']['name']}"
            for kind in ("apps/v1/{}/deployments", "apps/v1/{}/statefulsets", "batch/v1/{}/jobs")
            for workload in await plane.api.items("/apis/" + kind.format(f"namespaces/{NAMESPACE}"))
            if not _has_pods(workload)
        ]
        if not missing:
            return
        await asyncio.sleep(0.5)
    events = await plane.api.items(f"/api/v1/namespaces/{NAMESPACE}/events")
    reasons = [event["message"] for event in events if event["type"] == "Warning"]
    pytest.fail(f"without pods: {missing}; {reasons}")


def _has_pods(workload: Mapping[str, Any]) -> bool:
    """Return True if a workload has all pods; one that KEDA scales may have none."""
    status = workload.get("status", {})
    wanted = workload["spec"].get("replicas", 1)
    return bool(status.get("replicas", status.get("active", 0)) >= wanted)
