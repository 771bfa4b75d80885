"""Keys in the chart: the Job that installs them, and the pods that wait for them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from container_files import environment, here
from in_process_service import circuit
from rendered_chart import (
    Pod,
    presets,
    rendered,
    require_tools,
    selected,
)


@pytest.fixture(scope="module", autouse=True)
def tools() -> None:
    """Helm and the schemas."""
    require_tools()


def test_keys__of_a_job__are_downloaded_verified_and_prepared_once() -> None:
    chart = rendered("prover", {"keys.source": "job", "keys.runMode": "forester", "keys.fold": "always"})
    [job] = chart.of("Job")
    words = [container["args"] for container in chart.pod(f"Job {job['metadata']['name']}").containers]
    assert words == [
        ["download", "--run-mode=forester", "--keys-dir=/keys"],
        ["keys", "verify", "--run-mode=forester", "--keys-dir=/keys"],
        ["keys", "prepare", "--run-mode=forester", "--keys-dir=/keys", "--fold"],
    ]
    [mount] = [mount for mount in chart.pod("Deployment prover-api").main["volumeMounts"] if mount["name"] == "keys"]
    assert mount["readOnly"]
    other = rendered("prover", {"keys.source": "job", "keys.runMode": "rpc"}).of("Job")
    assert job["metadata"]["name"] != other[0]["metadata"]["name"], "a Job cannot be changed"
    assert selected(chart, chart.named("Service", "prover-metrics")["spec"]["selector"]) == [
        chart.pod("Deployment prover-api")
    ], "the Job's pod gets no requests"


def test_keys__job_with_any_other_template__is_another_job() -> None:
    """A Job whose template changes makes `helm upgrade` fail."""
    job = {"keys.source": "job", "keys.claim.accessModes": ["ReadWriteMany"]}
    changes: list[dict[str, Any]] = [
        {},
        {"keys.claim.size": "13Gi"},
        {"imagePullSecrets": [{"name": "registry"}]},
        {"image.tag": "2"},
        {"keys.claim.existing": "our-claim"},
        {"keys.nodeSelector": {"zone": "a"}},
        {"keys.claim.accessModes": ["ReadWriteOnce"]},
    ]
    jobs = [rendered("prover", job, change).of("Job")[0] for change in changes]
    templates = [json.dumps(found["spec"]["template"], sort_keys=True) for found in jobs]
    names = [found["metadata"]["name"] for found in jobs]
    assert names[0] == names[1], "the size of the claim is not in the template"
    assert len(set(names)) == len(set(templates)) == len(changes) - 1


def test_keys__job__runs_on_the_nodes_of_its_values() -> None:
    place: dict[str, Any] = {
        "nodeSelector": {"cpu": "ifma"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
    }
    values = {f"keys.{name}": value for name, value in place.items()}
    chart = rendered("prover", {"keys.source": "job", "keys.claim.accessModes": ["ReadWriteMany"]}, values)
    [pod] = [pod for pod in chart.pods if pod.owner["kind"] == "Job"]
    assert {name: pod.spec[name] for name in place} == place
    [preset] = [path for path in presets("prover") if path.stem == "values-gpu"]
    gpu = rendered("prover", preset)
    [job] = [pod for pod in gpu.pods if pod.owner["kind"] == "Job"]
    pool = gpu.pod("Deployment prover-gpu")
    for name in ("nodeSelector", "tolerations"):
        assert job.spec[name] == pool.spec[name], "prepared keys fit CPUs of one kind"


POOLS = {"append": {"circuits": ["append"]}, "small": {"runMode": "local-rpc"}, "rest": {}}
"""Two pools with a selection, and one without."""


@pytest.mark.parametrize("prepare", [True, False])
def test_keys__of_an_init_container__are_those_of_the_jobs_that_the_pod_takes(prepare: bool) -> None:
    values = {"keys.source": "init", "keys.runMode": "rpc", "keys.circuits": ["update-test"], "keys.prepare": prepare}
    chart = rendered("prover", values, {"redis.existingSecret": "redis", "workers": POOLS})
    of_keys = ["--run-mode=rpc", "--circuit=update-test"]
    for name, selection in (
        ("append", ["--circuit=append"]),
        ("small", ["--run-mode=local-rpc"]),
        ("rest", of_keys),
        ("api", of_keys),
    ):
        pod = chart.pod(f"Deployment prover-{name}")
        commands = [["download"], ["keys", "prepare"]][: 1 + prepare]
        assert [container["args"] for container in pod.spec["initContainers"]] == [
            [*command, *selection, "--keys-dir=/keys"] for command in commands
        ]
        assert selected_by(pod) == ([] if name == "api" else selection), "the API queues jobs of all pools"


@pytest.mark.parametrize("source", ["init", "job", "image"])
def test_keys__instance_without_a_selection__takes_jobs_of_the_keys_that_the_chart_installs(source: str) -> None:
    values = {"keys.source": source, "redis.existingSecret": "redis", "workers": POOLS, "api.proveJobs": True}
    chart = rendered("prover", values)
    assert selected_by(chart.pod("Deployment prover-append")) == ["--circuit=append"]
    for name in ("rest", "api"):
        assert selected_by(chart.pod(f"Deployment prover-{name}")) == ["--run-mode=rpc"] * (source != "image")
    assert selected_by(rendered("prover", {"keys.source": source}).pod("Deployment prover-api")) == [], "no jobs"


def selected_by(pod: Pod) -> list[str]:
    """Return the options of a prover that select circuits."""
    return [word for word in pod.main["args"] if word.startswith(("--run-mode=", "--circuit="))]


def test_keys__of_a_job__pods_wait_for_those_that_they_prove() -> None:
    pools = {
        "append": {"circuits": ["append"], "resources": {"limits": {"memory": "9Gi"}}},
        "small": {"runMode": "rpc"},
    }
    values = {"keys.source": "job", "keys.runMode": "full", "keys.circuits": ["update-test"]}
    chart = rendered("prover", values, {"redis.existingSecret": "redis", "workers": pools})
    found = {pod.name: pod.spec["initContainers"] for pod in chart.pods if pod.owner["kind"] == "Deployment"}
    assert {name: containers[0]["args"] for name, containers in found.items()} == {
        "Deployment prover-api": ["keys", "list", "--run-mode=full", "--circuit=update-test", "--keys-dir=/keys"],
        "Deployment prover-append": ["keys", "list", "--circuit=append", "--keys-dir=/keys"],
        "Deployment prover-small": ["keys", "list", "--run-mode=rpc", "--keys-dir=/keys"],
    }
    for name, [container] in found.items():
        main = chart.pod(name).main
        same = {part: main[part] for part in ("image", "resources")}
        assert {part: container[part] for part in same} == same, "a pod asks for no more than without it"


def test_keys__of_a_job__container_as_a_process_ends_when_they_are_installed(
    reference_keys_dir: Path, tmp_path: Path
) -> None:
    first, second = (f"v2_inclusion_32_{leaves}" for leaves in (1, 2))
    chart = rendered("prover", {"keys.source": "job", "keys.circuits": [first, second], "keys.runMode": ""})
    [container] = chart.pod("Deployment prover-api").spec["initContainers"]
    assert container["command"][:3] == ["tini", "-s", "--"]
    places = {"/keys": str(tmp_path), "sleep 10": "sleep 0.1"}
    words = here([*container["command"][3:], *container["args"]], places)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    process = subprocess.Popen(words, env=environment({"PATH": path}), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert [process.stdout.readline().split()[0] for _ in range(2)] == [first, second]
        shutil.copy(reference_keys_dir / circuit(first).earlier_key_file, tmp_path)
        names = [second]
        while names[-2:] != [second, second]:
            assert len(names) < 20, "the first key is installed"
            names.append(process.stdout.readline().split()[0])
        assert process.poll() is None
        shutil.copy(reference_keys_dir / circuit(second).earlier_key_file, tmp_path)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()


def test_keys__of_a_job__container_ends_with_the_status_of_a_failure(tmp_path: Path) -> None:
    chart = rendered("prover", {"keys.source": "job"})
    [container] = chart.pod("Deployment prover-api").spec["initContainers"]
    (tmp_path / "prover").write_text("#!/bin/sh\necho broken >&2\nexit 3\n")
    (tmp_path / "prover").chmod(0o755)
    words = [*container["command"][3:], *container["args"]]
    variables = environment({"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    answer = subprocess.run(words, env=variables, capture_output=True, text=True, timeout=60)
    assert (answer.returncode, answer.stdout, answer.stderr) == (3, "", "broken\n"), "Kubernetes shows it"
