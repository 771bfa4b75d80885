"""The chart's trial Redis: its configuration, its memory and its password."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from container_files import compose
from deployment_tools import RenderingFailed
from local_processes import free_port
from redis_server import missing
from rendered_chart import rendered, require_tools, selected

from prover.queue.circuit_queues import CircuitQueue

QUEUE: dict[str, Any] = {"redis.existingSecret": "redis", "workers": {"append": {"circuits": ["append"]}, "rest": {}}}
TRIAL: dict[str, Any] = {**QUEUE, "redis.trial.enabled": True}
EMPTY = '""'


@pytest.fixture(scope="module", autouse=True)
def tools() -> None:
    """Helm and the schemas."""
    require_tools()


@pytest.mark.parametrize(("size", "size_bytes"), [("2gb", 2 * 2**30), ("700mb", 700 * 2**20)])
def test_trial_redis__bodies_of_all_queues__fit_into_nine_tenths_of_it(size: str, size_bytes: int) -> None:
    name = "PROVER_QUEUE__MEMORY_LIMIT_BYTES"

    def limits(**values: Any) -> set[str | None]:
        chart = rendered("prover", QUEUE, values)
        pods = [pod for pod in chart.pods if pod.owner["kind"] == "Deployment"]
        return {next((entry["value"] for entry in pod.main["env"] if entry["name"] == name), None) for pod in pods}

    trial: dict[str, Any] = {"redis.trial.enabled": True, "redis.trial.maxMemory": size}
    [limit] = limits(**trial)
    assert limit is not None
    # Redis needs up to a third more than the bodies, and submissions stop at nine tenths of it.
    assert 0.89 * size_bytes < int(limit) * len(CircuitQueue) * 4 / 3 <= 0.9 * size_bytes
    assert limits(**trial, **{"component.settings": {name: "1"}}) == {"1"}
    assert limits() == {None}


def test_trial_redis__image_and_limits__are_those_of_compose() -> None:
    chart = rendered("prover", TRIAL)
    pod = chart.pod("StatefulSet prover-redis")
    service = compose()["services"]["redis"]
    assert pod.main["image"] == service["image"]
    lines = chart.named("ConfigMap", "prover-redis")["data"]["redis.conf"].split("\n")
    words = service["command"]
    for name in ("appendonly", "appendfsync", "save", "maxmemory-policy", "maxmemory"):
        assert f"{name} {words[words.index(f'--{name}') + 1] or EMPTY}" in lines
    [policy] = [found for found in chart.of("NetworkPolicy") if found["metadata"]["name"] == "prover-redis"]
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert "egress" not in policy["spec"], "it needs no way out"
    peers = policy["spec"]["ingress"][0]["from"]
    assert [selected(chart, peer["podSelector"]["matchLabels"]) for peer in peers] == [
        [chart.pod(f"Deployment prover-{name}") for name in ("api", "append", "rest")]
    ]


def test_trial_redis__configuration_that_changes__restarts_it() -> None:
    def annotations(**values: Any) -> dict[str, str]:
        pod = rendered("prover", TRIAL, values).pod("StatefulSet prover-redis")
        found: dict[str, str] = pod.owner["spec"]["template"]["metadata"]["annotations"]
        return found

    before = annotations()
    assert annotations(**{"redis.trial.size": "9Gi", "image.tag": "2"}) == before, "it needs no restart"
    assert annotations(**{"redis.trial.maxMemory": "1gb"}) != before


@pytest.mark.parametrize(
    ("limit", "size", "is_enough"),
    [
        ("2Gi", "2gb", False),
        ("2.8Gi", "2gb", True),
        ("3000M", "2gb", False),
        (3221225472, "2gb", True),
        ("1e9", "700mb", False),
        ("1100M", "700mb", True),
        (None, "2gb", True),
    ],
)
def test_trial_redis__memory_limit_too_near_to_its_data__is_refused(
    limit: str | int | None, size: str, is_enough: bool
) -> None:
    values = {"redis.trial.maxMemory": size, "redis.trial.resources.limits.memory": limit}
    if is_enough:
        pod = rendered("prover", TRIAL, values).pod("StatefulSet prover-redis")
        assert pod.main["resources"]["limits"].get("memory") == limit
    else:
        with pytest.raises(
            RenderingFailed, match=rf"limits\.memory \({limit}\) .*Raise the limit or lower redis\.trial"
        ):
            rendered("prover", TRIAL, values)


def test_trial_redis__its_command_and_probe_as_processes__require_the_password_of_the_file(tmp_path: Path) -> None:
    if reason := missing():
        pytest.skip(reason)
    chart = rendered("prover", TRIAL)
    main, port = chart.pod("StatefulSet prover-redis").main, free_port()
    (tmp_path / "password").write_text("secret of a file")
    configuration = chart.named("ConfigMap", "prover-redis")["data"]["redis.conf"]
    assert "dir /data\n" in configuration
    (tmp_path / "redis.conf").write_text(f"{configuration.replace('/data', str(tmp_path))}port {port}\n")
    (tmp_path / "written").mkdir()
    places = {"/run/secrets/redis": f"{tmp_path}", "/etc/redis": f"{tmp_path}", "/tmp": f"{tmp_path}/written"}  # noqa: S108
    places["redis-cli"] = f"redis-cli -p {port}"

    def local(words: list[str]) -> list[str]:
        return [re.sub("|".join(places), lambda found: places[found[0]], word) for word in words]

    words = local(main["command"])
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT)
    try:
        probe = local(main["readinessProbe"]["exec"]["command"])
        deadline = time.monotonic() + 30
        while subprocess.run(probe, capture_output=True).returncode != 0:
            assert server.poll() is None, (tmp_path / "log").read_text()
            assert time.monotonic() < deadline, (tmp_path / "log").read_text()
            time.sleep(0.1)
        answer = subprocess.run(["redis-cli", "-p", str(port), "ping"], capture_output=True, text=True)
        assert "NOAUTH" in answer.stdout
        configured = ["redis-cli", "-p", str(port), "--pass", "secret of a file", "config", "get", "save"]
        answer = subprocess.run(configured, capture_output=True, text=True)
        assert answer.stdout == "save\n\n", "a snapshot that fails would stop all writes"
        assert (tmp_path / "written/redis.conf").stat().st_mode & 0o077 == 0
    finally:
        server.terminate()
        assert server.wait(30) == 0, "redis-server itself gets the signal"
