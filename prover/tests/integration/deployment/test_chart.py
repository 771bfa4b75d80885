"""The chart: presets and a matrix of values, against schemas, the command line, the settings and the probes."""

from __future__ import annotations

import contextlib
import functools
import http.client
import json
import shutil
import tarfile
import time
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import click
import pytest
import yaml  # type: ignore[import-untyped]
from container_files import WORKSPACE, Container, environment, here, stages
from deployment_tools import CHARTS, RenderingFailed, package_chart
from local_processes import free_port
from render_manifests import write_manifests
from rendered_chart import (
    Pod,
    Rendered,
    check_confined,
    check_references,
    check_schemas,
    check_secrets,
    presets,
    rendered,
    require_tools,
    selected,
)

from prover.cli.main import cli
from prover.settings import DeviceSettings, HttpSettings, Settings, settings_of
from prover.versions import VERSION

QUEUE: dict[str, Any] = {"redis.existingSecret": "redis", "workers": {"append": {"circuits": ["append"]}, "rest": {}}}
MATRIX: dict[str, dict[str, Any]] = {
    "defaults": {},
    **{
        f"keys by {source}, queue {bool(queue)}": {"keys.source": source, **queue}
        for source, queue in product(("job", "init", "image"), ({}, QUEUE))
    },
    "keys in an emptyDir, not prepared": {"keys.claim.enabled": False, "keys.prepare": False},
    "keys of a job, not prepared": {"keys.source": "job", "keys.prepare": False, "keys.circuits": ["append", "update"]},
    "keys on a claim that exists": {"keys.claim.existing": "our-claim", "keys.downloadUrl": "https://mirror.example"},
    "all keys folded": {"keys.source": "job", "keys.fold": "always"},
    "API keys": {"apiKeys.existingSecret": "api-keys"},
    "a public API": {"apiKeys.existingSecret": "api-keys", "service.type": "LoadBalancer"},
    "no API, whose Service would be public": {**QUEUE, "api.enabled": False, "service.type": "LoadBalancer"},
    "no API": {**QUEUE, "api.enabled": False},
    "an API that proves": {**QUEUE, "api.proveJobs": True, "api.threads": 4, "api.maxConcurrency": 3},
    "API by CPU": {"api.autoscaling.enabled": True},
    "workers by jobs": {
        **QUEUE,
        "autoscaling.enabled": True,
        "redis.address": "redis.data.svc:6379",
        "redis.tls": True,
    },
    "trial Redis without policies": {**QUEUE, "redis.trial.enabled": True, "networkPolicy.enabled": False},
    "GPUs without fallback": {
        **QUEUE,
        "workers": {"gpu": {"gpu": {"device": "cuda:0", "count": 2}, "runMode": "full"}},
    },
    "keys of a job on chosen nodes": {
        "keys.source": "job",
        "keys.nodeSelector": {"zone": "a"},
        "keys.tolerations": [{"key": "zone", "operator": "Exists"}],
        "keys.affinity": {"podAffinity": {}},
    },
    "settings": {"component.settings": {"PROVER_QUEUE__MEMORY_LIMIT_BYTES": "1", "PROVER_LOG__LEVEL": "debug"}},
    "image by digest": {"image.digest": "sha256:" + "0" * 64, "imagePullSecrets": [{"name": "registry"}]},
    "monitoring": {
        "monitoring": {"serviceMonitor": True, "prometheusRule": True, "dashboard": True, "labels": {"release": "x"}}
    },
}
SCALED = {**QUEUE, "autoscaling.enabled": True, "redis.address": "redis.data.svc:6379"}
CASES: Mapping[str, Path | Mapping[str, Any]] = {**{path.stem: path for path in presets("prover")}, **MATRIX}
"""Values by name."""


@pytest.fixture(scope="module", autouse=True)
def tools() -> None:
    """Helm and the schemas."""
    require_tools()


@pytest.fixture(params=CASES)
def chart(request: pytest.FixtureRequest) -> Rendered:
    """The chart under each of the values."""
    return case(request.param)


@functools.cache
def case(name: str) -> Rendered:
    """Return the chart under the values of a name."""
    return rendered("prover", CASES[name])


def provers(chart: Rendered) -> list[Pod]:
    """Return the pods of the prover."""
    return [pod for pod in chart.pods if not pod.owner["metadata"]["name"].endswith("-redis")]


def test_chart__any_values__make_objects_that_kubernetes_takes(chart: Rendered) -> None:
    check_schemas(chart)
    check_references(chart, own="prover-")


def test_chart__any_values__confine_pods_and_keep_secrets_in_files(chart: Rendered) -> None:
    check_confined(chart)
    check_secrets(chart)
    user = int(stages(WORKSPACE / "prover/Dockerfile")[-1].all("USER")[-1])
    assert {pod.spec["securityContext"]["runAsUser"] for pod in provers(chart)} == {user}


def test_chart__arguments_and_variables__are_those_of_the_program(chart: Rendered) -> None:
    for pod in provers(chart):
        for container in pod.containers:
            parse(container["args"])
            for variable in container.get("env", []):
                assert is_setting(variable["name"]), variable
            named = [word.partition("=")[2] for word in container["args"] if word.startswith("--keys-dir=")]
            named += [variable["value"] for variable in container.get("env", []) if variable["name"].endswith("_FILE")]
            mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
            for path in named:
                in_image = path == "/keys" and "keys" not in {volume["name"] for volume in pod.spec["volumes"]}
                assert in_image or any(Path(path).is_relative_to(mount) for mount in mounts), path


def parse(words: list[str]) -> None:
    """Read a command line as the program does; raises what that would."""
    command: Any = cli
    context = click.Context(cli)
    while isinstance(command, click.Group):
        command = command.get_command(context, words[0])
        assert command is not None, words
        words = words[1:]
    command.make_context(command.name, list(words), context)


def is_setting(variable: str) -> bool:
    """Return whether the prover has a setting, or a file of a secret, of that name."""
    if variable in ("REDIS_URL_FILE", "PROVER_API_KEY_FILE"):
        return True
    group, _, name = variable.removeprefix("PROVER_").lower().partition("__")
    return (name or group) in settings_of(type(getattr(Settings(), group)) if name else DeviceSettings)


def test_chart__probes_and_ports__are_those_of_the_server(chart: Rendered) -> None:
    for pod in provers(chart):
        if pod.owner["kind"] != "Deployment":
            continue
        options = pod.options()
        ports = {port["name"]: port["containerPort"] for port in pod.main["ports"]}
        assert options["--metrics-address"] == f"[::]:{ports['metrics']}"
        assert ports["metrics"] == int(HttpSettings().metrics_address.rpartition(":")[2])
        assert options.get("--prover-address") == (f"[::]:{ports['api']}" if "api" in ports else None)
        for kind, path in (("startup", "/startupz"), ("readiness", "/readyz"), ("liveness", "/livez")):
            assert pod.main[f"{kind}Probe"]["httpGet"] == {"path": path, "port": "metrics"}
        assert pod.main["startupProbe"]["initialDelaySeconds"] > 0, "the first failure would be an event of each start"


def test_chart__grace_and_updates__fit_the_drain_and_the_claim(chart: Rendered) -> None:
    for pod in provers(chart):
        if pod.owner["kind"] != "Deployment":
            continue
        options = pod.options()
        drain = float(options["--drain-delay"]) + float(options["--drain-deadline"])
        assert float(options["--drain-delay"]) >= 5, "load balancers notice failing readiness that late"
        assert pod.spec["terminationGracePeriodSeconds"] >= drain + 10
        strategy = pod.owner["spec"]["strategy"]
        [claim] = chart.of("PersistentVolumeClaim") or [{"spec": {"accessModes": ["ReadWriteMany"]}}]
        if claim["spec"]["accessModes"] == ["ReadWriteOnce"] and "our-claim" not in json.dumps(pod.spec):
            assert strategy == {"type": "Recreate"}
            assert on_one_node(chart, pod)
        elif "our-claim" not in json.dumps(pod.spec):
            waits_for_gpu = "nvidia.com/gpu" in pod.main["resources"]["limits"]
            added = {"maxUnavailable": 1, "maxSurge": 0} if waits_for_gpu else {"maxUnavailable": 0, "maxSurge": 1}
            assert strategy == {"rollingUpdate": added}
        assert pod.owner["spec"]["progressDeadlineSeconds"] >= 3600, "keys may be downloaded first"


def on_one_node(chart: Rendered, pod: Pod) -> bool:
    """Return whether a pod must be on the node of all pods that mount the keys; fail if it is spread as well."""
    terms = (
        pod.spec.get("affinity", {}).get("podAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", [])
    )
    if not terms:
        assert pod.owner["kind"] == "Job" or pod.spec["topologySpreadConstraints"], pod.name
        return False
    assert "topologySpreadConstraints" not in pod.spec, pod.name
    [term] = terms  # The first pod must match all of them.
    assert term["topologyKey"] == "kubernetes.io/hostname"
    selector = term["labelSelector"]
    [names] = selector["matchExpressions"]
    assert (names["key"], names["operator"]) == ("app.kubernetes.io/name", "In")
    near = [
        found for found in selected(chart, selector["matchLabels"]) if found.labels[names["key"]] in names["values"]
    ]
    assert [found.name for found in near] == [found.name for found in provers(chart)], "the first pod must match, too"
    return True


NEAR_DATABASE = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "database"}}}
"""A term of a pod affinity."""


@pytest.mark.parametrize("source", ["job", "init"])
def test_claim__of_one_node__puts_all_pods_of_the_keys_on_it(source: str) -> None:
    values = {**QUEUE, "redis.trial.enabled": True, "keys.source": source}
    preferred = [{"weight": 1, "podAffinityTerm": NEAR_DATABASE}]
    mine = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}, "nodeAffinity": {}}
    chart = rendered("prover", values, {"component.affinity": mine})
    assert all(on_one_node(chart, pod) for pod in provers(chart))
    assert not chart.of("PodDisruptionBudget"), "a replacement waits until all have left: a budget blocks the drain"
    assert chart.of("Job") or source == "init"
    affinity = chart.pod("Deployment prover-rest").spec["affinity"]
    assert affinity["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] == preferred
    assert affinity["nodeAffinity"] == {}
    for shared in ({"keys.claim.accessModes": ["ReadWriteMany"]}, {"keys.source": "image"}):
        chart = rendered("prover", values, shared)
        assert not any(on_one_node(chart, pod) for pod in provers(chart))
        assert len(chart.of("PodDisruptionBudget")) == 3


@pytest.mark.parametrize(
    ("owner", "name"), [("component", "api"), ("api", "api"), ("workers.rest", "rest"), ("keys", "keys")]
)
def test_claim__of_one_node__refuses_another_required_pod_affinity(owner: str, name: str) -> None:
    """The scheduler asks for one pod that matches all required terms, unless the new pod itself matches all."""
    mine = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [NEAR_DATABASE]}}
    values = {**QUEUE, "keys.source": "job", f"{owner}.affinity": mine}
    with pytest.raises(RenderingFailed, match=rf"affinity of {name} .*keys\.claim\.accessModes"):
        rendered("prover", values)
    chart = rendered("prover", values, {"keys.claim.accessModes": ["ReadWriteMany"]})
    assert mine in [pod.spec.get("affinity") for pod in chart.pods]


@pytest.mark.parametrize("modes", [["ReadWriteOnce"], ["ReadWriteMany"]])
def test_affinity__null__is_none(modes: list[str]) -> None:
    values = {**QUEUE, "keys.source": "job", "keys.claim.accessModes": modes}
    chart = rendered("prover", values, {"component.affinity": None, "keys.affinity": None})
    assert chart.objects == rendered("prover", values).objects


def test_probes__of_the_rendered_command_as_a_process__answer(reference_keys_dir: Path, tmp_path: Path) -> None:
    main = rendered("prover", {"keys.source": "image"}).pod("Deployment prover-api").main
    api, metrics = free_port(), free_port()
    places = {
        "/keys": str(reference_keys_dir),
        "[::]:3001": f"[::]:{api}",
        "[::]:9998": f"[::]:{metrics}",
    }
    words = here(["prover", *main["args"], "--drain-delay=0"], places)
    service = Container("prover", words, ["true"], tmp_path / "log", env=environment({}), cwd=tmp_path)
    try:
        for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
            deadline = time.monotonic() + 60
            while answer_at(metrics, main[kind]["httpGet"]["path"]) != 200:
                assert time.monotonic() < deadline, (kind, service.log.read_text())
                time.sleep(0.1)
    finally:
        status = service.stop()
    assert status == 0, service.log.read_text()


def answer_at(port: int, path: str) -> int:
    """Return the status of an answer, 0 without one."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    with contextlib.closing(connection), contextlib.suppress(OSError):
        connection.request("GET", path)
        return connection.getresponse().status
    return 0


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"workers": {"a": {}}}, "redis.existingSecret"),
        ({**QUEUE, "autoscaling.enabled": True}, "redis.address"),
        ({"redis.trial.enabled": True}, "redis.existingSecret"),
        ({**QUEUE, "redis.existingSecret": "redis", "workers": {"api": {}}}, "api"),
        ({"component.settings": {"PROVER_QUEUE__URL": "redis://:password@host:6379"}}, "PROVER_QUEUE__URL"),
        ({"component.settings": {"PROVER_API_KEY": "key"}}, "PROVER_API_KEY"),
        ({"component.settings": {"PROVER_HTTP__DRAIN_DEADLINE_S": "600"}}, "PROVER_HTTP__DRAIN_DEADLINE_S"),
        ({"keys.claim.accessModes": ["ReadOnlyMany"]}, "accessModes"),
        ({"api.gpu": {"device": "cpu", "count": 1}}, r"gpu of api: .*gpu\.count to 0"),
        ({"component.gpu": {"device": "cuda:1", "count": 0}}, "gpu of api: device cuda:1 needs a GPU"),
        (
            {"api.autoscaling": {"enabled": True, "minReplicas": 9}},
            r"api\.autoscaling: minReplicas \(9\) is above maxReplicas \(8\)",
        ),
        ({**SCALED, "autoscaling.minReplicas": 5}, r" autoscaling: minReplicas \(5\) is above maxReplicas \(4\)"),
        (
            {**SCALED, "workers": {"batch": {"runMode": "forester"}, "small": {"runMode": "rpc"}}},
            "workers batch and small share the queue update and prove different circuits",
        ),
        ({"api.replica": 2}, "replica"),
        ({"component.podAnnotations": {"revision": 2}}, "podAnnotations"),
        ({"api.nodeSelector": {"gpu": True}}, "nodeSelector"),
        ({"keys.source": "disk"}, "source"),
        ({"redis.trial.maxMemory": "0mb"}, "maxMemory"),
        ({"service.type": "LoadBalancer"}, r"LoadBalancer .*apiKeys\.existingSecret"),
        ({"service.type": "NodePort"}, r"NodePort .*apiKeys\.existingSecret"),
    ],
)
def test_chart__values_that_cannot_work__are_refused_with_their_name(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(RenderingFailed, match=reason):
        rendered("prover", values)


def test_pools__scaled_by_jobs__may_share_queues_if_they_prove_the_same_circuits() -> None:
    pools: dict[str, Any] = {"a": {"runMode": "forester"}, "b": {"runMode": "forester", "threads": 2}}
    assert len(rendered("prover", SCALED, {"workers": pools}).of("ScaledObject")) == 2
    pools = {"a": {"circuits": ["append", "update"]}, "b": {"circuits": ["update", "append"]}}
    assert len(rendered("prover", SCALED, {"workers": pools}).of("ScaledObject")) == 2
    pools = {"a": {"runMode": "forester"}, "b": {"runMode": "rpc"}}
    assert len(rendered("prover", QUEUE, {"workers": pools}).of("Deployment")) == 3


def test_chart__variables_of_its_arguments__are_refused_as_settings(chart: Rendered) -> None:
    schema = json.loads((WORKSPACE / "prover/deploy/chart/values.schema.json").read_text())
    refused = set(schema["$defs"]["settings"]["propertyNames"]["not"]["enum"])
    start = cli.get_command(click.Context(cli), "start")
    assert start is not None
    parts = {"--no-workers": "PROVER_QUEUE__WORKERS", "--queue-only": "PROVER_QUEUE__HTTP"}
    variables = {
        option: parameter.envvar
        for parameter in start.params
        for option in parameter.opts
        if isinstance(parameter.envvar, str)
    } | parts
    for pod in provers(chart):
        if pod.owner["kind"] == "Deployment":
            # The chart passes the slots only if no setting has them.
            named = {variables[option] for option in pod.options() if option in variables} - {"PROVER_QUEUE__SLOTS"}
            assert named <= refused


def test_components__own_values__override_the_shared_ones() -> None:
    workers = {"a": {"threads": 2, "resources": {"limits": {"cpu": "2"}}}, "b": {"gpu": {"count": 2, "device": "auto"}}}
    shared = {"component.threads": 4, "component.settings": {"PROVER_LOG__LEVEL": "debug"}}
    chart = rendered("prover", QUEUE, shared, {"workers": workers})
    api, a, b = (chart.pod(f"Deployment prover-{name}") for name in ("api", "a", "b"))
    assert [pod.options()["--threads"] for pod in (api, a, b)] == ["4", "2", "4"]
    assert a.main["resources"]["limits"] == {"memory": "4Gi", "cpu": "2"}
    assert b.main["resources"]["limits"] == {"memory": "4Gi", "nvidia.com/gpu": 2}
    assert b.options()["--device"] == "auto"
    assert "--no-workers" in api.options()
    assert "--queue-only" in a.options()
    assert all({"name": "PROVER_LOG__LEVEL", "value": "debug"} in pod.main["env"] for pod in (api, a, b))


def test_pool__with_a_repository_of_its_own__has_no_tag_and_no_digest_of_another() -> None:
    digest, other = ("sha256:" + digit * 64 for digit in "01")
    pools = {
        "a": {"image": {"repository": "cuda"}},
        "b": {"image": {"repository": "cuda", "digest": other}},
        "c": {"image": {"repository": "cuda", "tag": "2"}},
        "d": {"image": {"tag": "2"}},
    }
    images = {"image.tag": "1", "image.pullPolicy": "Always", "redis.existingSecret": "redis", "workers": pools}
    for values, expected in (
        ({}, ["zkc-prover:1", f"cuda:{VERSION}", f"cuda@{other}", "cuda:2", "zkc-prover:2"]),
        (
            {"image.digest": digest},
            [f"zkc-prover@{digest}", f"cuda:{VERSION}", f"cuda@{other}", "cuda:2", f"zkc-prover@{digest}"],
        ),
    ):
        chart = rendered("prover", images, values)
        mains = [chart.pod(f"Deployment prover-{name}").main for name in ("api", *pools)]
        assert [main["image"] for main in mains] == expected
        assert {main["imagePullPolicy"] for main in mains} == {"Always"}


def test_pool__with_several_proofs_at_once__takes_as_many_jobs_of_a_circuit() -> None:
    def slots(**pool: Any) -> str | None:
        chart = rendered("prover", {"redis.existingSecret": "redis", "workers": {"pool": pool}})
        assert "--queue-slots" not in chart.pod("Deployment prover-api").options()
        return chart.pod("Deployment prover-pool").options().get("--queue-slots")

    assert [slots(), slots(maxConcurrency=3), slots(maxConcurrency=1024)] == [None, "3", "100"]
    for setting in ("PROVER_QUEUE__SLOTS", "PROVER_MAX_CONCURRENCY"):
        assert slots(maxConcurrency=3, settings={setting: "2"}) is None


def test_presets__each__has_the_objects_of_its_purpose() -> None:
    kinds = {path.stem: [found["kind"] for found in rendered("prover", path).objects] for path in presets("prover")}
    assert kinds.keys() == {"values-standalone", "values-queue", "values-gpu"}
    assert {"Job", "ScaledObject", "StatefulSet", "ServiceMonitor", "PrometheusRule"} <= set(kinds["values-queue"])
    assert kinds["values-gpu"].count("Deployment") == 2
    assert not {"StatefulSet", "ScaledObject", "Job"} & set(kinds["values-standalone"])


def test_monitoring__objects__have_the_rules_with_links_and_the_dashboard() -> None:
    enabled = {"prometheusRule": True, "dashboard": True, "serviceMonitor": True, "labels": {"release": "x"}}
    chart = rendered("prover", {"monitoring": enabled | {"runbookUrl": "https://pages.example/"}})
    [rule] = chart.of("PrometheusRule")
    folder = WORKSPACE / "prover/deploy/monitoring"
    expected = yaml.safe_load((folder / "alerts.yaml").read_text())
    for group in expected["groups"]:
        for alert in group["rules"]:
            alert["annotations"]["runbook_url"] = "https://pages.example/" + alert["annotations"]["runbook_url"]
    assert rule["spec"] == expected
    assert rule["metadata"]["labels"]["release"] == "x"
    [monitor] = chart.of("ServiceMonitor")
    [endpoint] = monitor["spec"]["endpoints"]
    # ProverDown must not fire while a pod waits for its keys or a node, and must afterwards.
    assert "publishNotReadyAddresses" not in chart.named("Service", "prover-metrics")["spec"]
    assert endpoint["relabelings"] == [
        {"sourceLabels": ["__meta_kubernetes_pod_phase"], "regex": "Pending", "action": "drop"}
    ]
    dashboard = chart.named("ConfigMap", "prover-dashboard")
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert dashboard["data"] == {"prover.json": (folder / "dashboards/prover.json").read_text()}


@pytest.mark.parametrize("service", CHARTS)
def test_package__of_a_chart__has_presets_rules_and_dashboard_and_no_tests(service: str, tmp_path: Path) -> None:
    with tarfile.open(package_chart(service, tmp_path, "1.2.3")) as archive:
        files = {name.removeprefix(f"{service}/") for name in archive.getnames()}
    assert {path.name for path in presets(service)} | {"monitoring/alerts.yaml", "values.schema.json"} <= files
    assert f"monitoring/dashboards/{service}.json" in files
    assert "monitoring/alerts_test.yaml" not in files


def test_package__of_exported_sources__has_nothing_of_this_workspace(tmp_path: Path) -> None:
    shutil.copytree(WORKSPACE / "prover/deploy", tmp_path / "prover/deploy", symlinks=True)
    (tmp_path / "prover/deploy/chart/values-gpu.yaml").unlink()
    with tarfile.open(package_chart("prover", tmp_path, "1.2.3", tmp_path)) as archive:
        names = archive.getnames()
    assert "prover/values-queue.yaml" in names
    assert "prover/monitoring/alerts.yaml" in names
    assert "prover/values-gpu.yaml" not in names


def test_manifests__written__are_what_the_presets_render(tmp_path: Path) -> None:
    (tmp_path / "gone.yaml").write_text("of a preset that is gone")
    files = write_manifests("prover", tmp_path, "proofs")
    assert sorted(tmp_path.iterdir()) == sorted(files)
    assert [path.stem for path in files] == ["gpu", "queue", "standalone"]
    objects = [found for found in yaml.safe_load_all((tmp_path / "queue.yaml").read_text()) if found]
    [scaled] = Rendered(objects).of("ScaledObject")
    assert scaled["spec"]["triggers"][0]["metadata"]["address"] == "prover-redis.proofs.svc:6379"
    assert len(objects) == len(case("values-queue").objects)
