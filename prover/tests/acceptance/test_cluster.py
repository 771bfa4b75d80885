"""The chart on a Kubernetes control plane, whose pods are processes."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest
from cluster_programs import built_programs
from control_plane import restricted_namespace, running_control_plane
from deployment_tools import CHARTS
from faulty_key_server import KeyServer, published_files, running
from golden_vectors import vector_named
from pod_processes import Images
from pod_volumes import folder_volume
from process_node import ProcessNode, service_address
from rendered_chart import require_tools

BENCH = Path(__file__).resolve().parents[3] / "shared/bench/bench.py"
CIRCUITS = ("v2_inclusion_32_1", "v2_non-inclusion_40_1")
FEW_KEYS = f"component.runMode=,component.preload=none,keys.runMode=,keys.circuits={{{','.join(CIRCUITS)}}}"
PROVER = Path(sys.executable).with_name("prover")
pytestmark = [
    pytest.mark.skipif(shutil.which("go") is None, reason="go, which builds the cluster's programs, is not installed"),
    pytest.mark.timeout(3600),
]


async def test_standalone_preset__installed_by_helm__downloads_keys_and_proves(
    reference_keys_dir: Path, tmp_path: Path
) -> None:
    require_tools()
    programs, chart = built_programs(), CHARTS["prover"]
    node_images = Images({"zkc-prover": [str(PROVER)]}, [PROVER.parent])
    files = published_files(reference_keys_dir, CIRCUITS)
    with running(KeyServer(files)) as key_server:
        async with running_control_plane(programs, tmp_path / "plane") as plane:
            node = ProcessNode(plane.api, node_images, tmp_path / "pods")
            await node.register()
            for made in (restricted_namespace("proving"), folder_volume(tmp_path / "keys")):
                await plane.api.create(made)
            async with asyncio.TaskGroup() as group, service_address(node, "api", 3001) as address:
                processes = group.create_task(node.run())
                preset, few = str(chart / "values-standalone.yaml"), f"{FEW_KEYS},keys.downloadUrl={key_server.url}"
                await plane.helm("proving", "install", "prover", str(chart), "--values", preset, "--set", few)
                status, answer = await _proof(address)
                processes.cancel()
    assert (status, sorted(answer)) == (200, ["ar", "bs", "krs"])
    assert {name for name in files if (tmp_path / "keys" / name).exists()} == set(files)


async def _proof(address: str) -> tuple[int, dict[str, object]]:
    """Return the answer to a request, which waits until a pod is ready: until then connections are closed."""
    body = vector_named("prover/v2_inclusion_32_1").body
    async with aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.post(f"http://{address}/prove", data=body) as answer:
                    return answer.status, await answer.json()
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.5)


def test_queue_preset__one_cycle_of_the_soak_with_a_kill_and_an_upgrade__keeps_all_bounds() -> None:
    words = ["soak", "cluster", "--jobs", "40", "--cycles", "1", "--replicas", "2"]
    answer = subprocess.run([sys.executable, BENCH, *words], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr[-4000:]
