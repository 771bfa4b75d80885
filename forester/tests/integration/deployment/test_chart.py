"""The chart: its preset and a matrix of values, against schemas, the command line, the settings and the API."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import pytest
from deployment_tools import WORKSPACE, RenderingFailed
from rendered_chart import (
    Rendered,
    check_confined,
    check_references,
    check_schemas,
    check_secrets,
    presets,
    rendered,
    require_tools,
)

from forester.api.routes import ROUTES
from forester.cli.main import cli
from forester.rollover.spending_cap import DEFAULT_CAPS
from forester.settings.model import Settings, is_secret
from forester.settings.sources import variable
from forester.units import LAMPORTS_PER_SOL

KUBE_JOB_FAILED_S = 15 * 60
"""Wait of the Prometheus operator's alert on each failed Job; it ends only with the Job."""
TREE = "bmt1LryLZUMmF7ZtqESaw7wifBXLfXHQYoE4GAmrahU"
OF_VALUES = ("FORESTER_SECRETS_DIR", "FORESTER_LOG")
MATRIX: dict[str, dict[str, Any]] = {
    "defaults": {},
    "one of several foresters": {
        "filters": {"processorMode": "v2", "treeIds": [TREE, TREE], "groupAuthority": TREE},
        "settings": {"CU_LIMIT": "600000", "FORESTER_RPC_POOL_SIZE": "7"},
    },
    "a claim that exists, no policy": {"journal.existing": "claim", "networkPolicy.enabled": False, "port": 8080},
    "no CronJob": {"health.enabled": False, "image.digest": "sha256:" + "0" * 64, "logLevel": "debug"},
    "placed": {
        "nodeSelector": {"a": "b"},
        "tolerations": [{"operator": "Exists"}],
        "imagePullSecrets": [{"name": "x"}],
    },
    "monitoring": {"monitoring": {"serviceMonitor": True, "prometheusRule": True, "dashboard": True}},
}
CASES: Mapping[str, Path | Mapping[str, Any]] = {**{path.stem: path for path in presets("forester")}, **MATRIX}
"""Values by name."""


@pytest.fixture(scope="module", autouse=True)
def tools() -> None:
    """Helm and the schemas."""
    require_tools()


@functools.cache
def case(name: str) -> Rendered:
    """Return the chart under the values of a name."""
    return rendered("forester", CASES[name])


@pytest.fixture(params=CASES)
def chart(request: pytest.FixtureRequest) -> Rendered:
    """The chart under each of the values."""
    return case(request.param)


def test_chart__any_values__make_confined_objects_that_kubernetes_takes(chart: Rendered) -> None:
    check_schemas(chart)
    check_references(chart, own="forester-")
    check_confined(chart)
    check_secrets(chart)


def test_chart__arguments_and_variables__are_those_of_the_program_and_no_secrets(chart: Rendered) -> None:
    settings = {variable(name): name for name in Settings.model_fields}
    for pod in chart.pods:
        name, *words = pod.main["args"]
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        given = command.make_context(name, list(words), click.Context(cli)).params
        assert not [
            setting for setting, value in given.items() if value and setting in settings.values() and is_secret(setting)
        ]
        for entry in pod.main["env"]:
            if entry["name"] not in OF_VALUES:
                assert not is_secret(settings[entry["name"].removeprefix("FORESTER_")]), entry
        mounts = {mount["mountPath"] for mount in pod.main["volumeMounts"]}
        assert {"name": "FORESTER_SECRETS_DIR", "value": "/run/secrets/forester"} in pod.main["env"]
        assert mounts >= {"/run/secrets/forester", "/tmp"}  # noqa: S108 - a mount


def test_chart__journal__has_one_writer_that_ends_before_the_next_begins(chart: Rendered) -> None:
    [deployment] = chart.of("Deployment")
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    pod = chart.pod("Deployment forester")
    [mount] = [mount["mountPath"] for mount in pod.main["volumeMounts"] if mount["name"] == "state"]
    assert pod.options()["--journal"].startswith(f"{mount}/")
    for claim in chart.of("PersistentVolumeClaim"):
        assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    page = (WORKSPACE / "forester/docs/how-to/containers.md").read_text()
    [drain_s] = re.findall(r"SIGTERM drains within (\d+) s", page)
    assert pod.spec["terminationGracePeriodSeconds"] > int(drain_s)


def test_chart__probes_and_port__are_those_of_the_api(chart: Rendered) -> None:
    pod = chart.pod("Deployment forester")
    options, [port] = pod.options(), pod.main["ports"]
    assert options["--api-server-port"] == str(port["containerPort"])
    assert options["--api-server-public-bind"] == "true", "a kubelet does not reach 127.0.0.1"
    for kind, path in (("startup", "/startupz"), ("readiness", "/readyz"), ("liveness", "/livez")):
        assert path in ROUTES
        assert pod.main[f"{kind}Probe"]["httpGet"] == {"path": path, "port": port["name"]}
    [service] = chart.of("Service")
    assert [named["targetPort"] for named in service["spec"]["ports"]] == [port["name"]]


def test_health__as_a_cron_job__runs_once_and_gives_its_exit_code(chart: Rendered) -> None:
    for job in chart.of("CronJob"):
        assert job["spec"]["concurrencyPolicy"] == "Forbid"
        spec = job["spec"]["jobTemplate"]["spec"]
        assert spec["backoffLimit"] == 0
        assert 0 < spec["ttlSecondsAfterFinished"] < KUBE_JOB_FAILED_S, "one failed run is an alert that never ends"
        assert spec["activeDeadlineSeconds"] > 20, "the command's own limit"
        pod = chart.pod("CronJob forester-health")
        assert pod.spec["restartPolicy"] == "Never"
        assert pod.main["args"][:3] == ["health", "--check-balance", "--check-registration"]
        assert pod.main["env"] == chart.pod("Deployment forester").main["env"], "both read the settings"


def test_health__that_fails__is_an_alert_of_this_release_that_waits_for_the_end_of_a_run() -> None:
    chart = rendered("forester", {"monitoring.prometheusRule": True}, release="one", namespace="two")
    [groups] = [found["spec"]["groups"] for found in chart.of("PrometheusRule")]
    [rule] = [rule for group in groups for rule in group["rules"] if rule["alert"] == "ForesterHealthFails"]
    [job] = chart.of("CronJob")
    name = job["metadata"]["name"]
    assert f'kube_cronjob_status_last_schedule_time{{namespace="two", cronjob="{name}"}}' in rule["expr"]
    assert job["spec"]["jobTemplate"]["spec"]["activeDeadlineSeconds"] < int(rule["for"].removesuffix("m")) * 60


@pytest.mark.parametrize("path", presets("forester"), ids=lambda path: path.stem)
def test_preset__budget_of_an_hour__allows_a_rollover_of_any_tree(path: Path) -> None:
    [container] = rendered("forester", path).pod("Deployment forester").spec["containers"]
    given = {entry["name"].removeprefix("FORESTER_"): entry["value"] for entry in container["env"]}
    budget = float(given.get("SPENDING_BUDGET_SOL_PER_HOUR", Settings().spending_budget_sol_per_hour))
    assert budget * LAMPORTS_PER_SOL >= max(DEFAULT_CAPS.values())


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"settings": {"RPC_URL": "https://node.example/?api-key=secret"}}, "RPC_URL"),
        ({"settings": {"FORESTER_PAYER": "[1]"}}, "FORESTER_PAYER"),
        ({"settings": {"PROCESSOR_MODE": "v2"}}, r"settings\.PROCESSOR_MODE .* use filters\.processorMode"),
        ({"settings": {"FORESTER_API_SERVER_PORT": "8080"}}, r"settings\.FORESTER_API_SERVER_PORT .* use port "),
        ({"settings": {"API_SERVER_PUBLIC_BIND": "false"}}, r"settings\.API_SERVER_PUBLIC_BIND .* use networkPolicy"),
        ({"settings": {"FORESTER_LOG": "debug"}}, r"settings\.FORESTER_LOG .* use logLevel "),
        ({"settings": {"RUST_LOG": "debug"}}, r"settings\.RUST_LOG .* use logLevel "),
        ({"settings": {"FORESTER_SECRETS_DIR": "/etc"}}, r"settings\.FORESTER_SECRETS_DIR .* use existingSecret "),
        ({"settings": {"JOURNAL_PATH": "/tmp/j"}}, r"settings\.JOURNAL_PATH .* use journal\.existing"),  # noqa: S108
        ({"existingSecret": ""}, "existingSecret"),
        ({"filters.treeIds": ["no key"]}, "treeIds"),
        ({"replicas": 2}, "replicas"),
        ({"podAnnotations": {"revision": 2}}, "podAnnotations"),
    ],
)
def test_chart__values_that_cannot_work__are_refused_with_their_name(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(RenderingFailed, match=reason):
        rendered("forester", values)
