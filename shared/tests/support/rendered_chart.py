"""Rendered charts as tests read them, and what holds for the chart of any service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
from deployment_tools import CHARTS, ToolsUnavailable, custom_resource_errors, fetch, render
from skipping import skip_or_fail

KUBERNETES_VERSIONS = ("1.27", "1.36")
"""The oldest version of Chart.yaml and a recent one."""
_CUSTOM = ("keda.sh/", "monitoring.coreos.com/")


@dataclass(frozen=True)
class Pod:
    """A pod template with the object that makes its pods."""

    owner: dict[str, Any]
    labels: Mapping[str, str]
    spec: dict[str, Any]

    @property
    def name(self) -> str:
        """Kind and name of the owner."""
        return f"{self.owner['kind']} {self.owner['metadata']['name']}"

    @property
    def containers(self) -> list[dict[str, Any]]:
        """All containers, those that run first included."""
        return [*self.spec.get("initContainers", []), *self.spec["containers"]]

    @property
    def main(self) -> dict[str, Any]:
        """The only container that keeps running."""
        [container] = self.spec["containers"]
        return dict(container)

    def options(self) -> dict[str, str]:
        """Return the options of the main container with their values; repeated ones with their last."""
        words = [word for word in self.main["args"] if word.startswith("--")]
        return {name: value for name, _, value in (word.partition("=") for word in words)}


class Rendered:
    """The objects of a chart."""

    def __init__(self, objects: Sequence[dict[str, Any]]) -> None:
        self.objects = list(objects)

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Return the objects of a kind."""
        return [found for found in self.objects if found["kind"] == kind]

    def named(self, kind: str, name: str) -> dict[str, Any]:
        """Return the object of a kind and a name."""
        [found] = [found for found in self.of(kind) if found["metadata"]["name"] == name]
        return found

    @property
    def pods(self) -> list[Pod]:
        """The pod templates of all objects that make pods."""
        return list(self._pods())

    def pod(self, name: str) -> Pod:
        """Return the pod template of ``Kind name``."""
        [found] = [pod for pod in self.pods if pod.name == name]
        return found

    def _pods(self) -> Iterator[Pod]:
        for owner in self.objects:
            spec = owner.get("spec", {})
            template = spec.get("jobTemplate", {}).get("spec", spec).get("template")
            if template and "spec" in template:
                yield Pod(owner, template["metadata"]["labels"], template["spec"])


def rendered(
    service: str, *values: Path | Mapping[str, Any], release: str = "", namespace: str = "default"
) -> Rendered:
    """Return the objects of a service's chart."""
    return Rendered(render(service, *values, release=release, namespace=namespace))


def require_tools() -> None:
    """Fetch helm and the schemas; where that fails the test is skipped, or fails in the gate."""
    try:
        fetch()
    except ToolsUnavailable as error:
        skip_or_fail(f"charts cannot be rendered here: {error}")


def presets(service: str) -> list[Path]:
    """Return the files of a chart's presets."""
    found = sorted(CHARTS[service].glob("values-*.yaml"))
    assert found
    return found


def check_schemas(chart: Rendered) -> None:
    """Fail for objects that Kubernetes or the operators would refuse."""
    identities = [(found["kind"], found["metadata"]["name"]) for found in chart.objects]
    assert len(set(identities)) == len(identities), "an object is there twice"
    for found in chart.objects:
        if not found["apiVersion"].startswith(_CUSTOM):
            for version in KUBERNETES_VERSIONS:
                kubernetes_validate.validate(found, version, strict=True)
    assert custom_resource_errors(chart.objects) == []


def check_confined(chart: Rendered) -> None:
    """Fail for pods that the restricted pod security standard would refuse, and for tokens that nothing needs."""
    assert chart.pods
    for pod in chart.pods:
        security = pod.spec["securityContext"]
        assert security["runAsNonRoot"], pod.name
        assert security["runAsUser"] == security["fsGroup"] > 0, pod.name
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}, pod.name
        assert pod.spec["automountServiceAccountToken"] is False, pod.name
        assert pod.spec["enableServiceLinks"] is False, pod.name
        assert not {"hostNetwork", "hostPID", "hostIPC", "hostUsers"} & pod.spec.keys(), pod.name
        for container in pod.containers:
            confined = container["securityContext"]
            assert confined["readOnlyRootFilesystem"], pod.name
            assert confined["allowPrivilegeEscalation"] is False, pod.name
            assert confined["capabilities"] == {"drop": ["ALL"]}, pod.name
            assert not {"privileged", "runAsUser"} & confined.keys(), pod.name
            assert container["resources"]["limits"]["memory"], pod.name
            assert container["resources"]["requests"].keys() >= {"cpu", "memory"}, pod.name
        for volume in pod.spec["volumes"]:
            [kind] = volume.keys() - {"name"}
            assert kind in ("emptyDir", "persistentVolumeClaim", "secret", "configMap"), "others ignore fsGroup"


def check_references(chart: Rendered, own: str) -> None:
    """Fail for names that lead nowhere: volumes, claims, accounts, ports and selectors; ``own`` begins our names."""
    accounts = {found["metadata"]["name"] for found in chart.of("ServiceAccount")}
    claims = {found["metadata"]["name"] for found in chart.of("PersistentVolumeClaim")}
    for pod in chart.pods:
        assert pod.spec.get("serviceAccountName", "default") in accounts | {"default"}, pod.name
        volumes = {volume["name"]: volume for volume in pod.spec["volumes"]}
        templates = {found["metadata"]["name"] for found in pod.owner["spec"].get("volumeClaimTemplates", [])}
        mounted = {mount["name"] for container in pod.containers for mount in container["volumeMounts"]}
        assert mounted == volumes.keys() | templates, pod.name
        for volume in volumes.values():
            claim = volume.get("persistentVolumeClaim", {}).get("claimName", "")
            assert not claim.startswith(own) or claim in claims, claim
        for container in pod.containers:
            ports = {port["name"] for port in container.get("ports", [])}
            for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
                probe = container.get(kind, {})
                assert probe.get("httpGet", {}).get("port") in {None, *ports}, (pod.name, kind)
                assert not probe or probe["timeoutSeconds"] >= 5, (pod.name, kind)
        selector = pod.owner["spec"].get("selector", {}).get("matchLabels", {})
        assert selector.items() <= pod.labels.items(), pod.name
    for service in chart.of("Service"):
        chosen = selected(chart, service["spec"]["selector"])
        assert chosen, service["metadata"]["name"]
        for port in service["spec"]["ports"]:
            for pod in chosen:
                assert port["targetPort"] in {named["name"] for named in pod.main["ports"]}, (service, pod.name)
    for policy in chart.of("NetworkPolicy"):
        chosen = selected(chart, policy["spec"]["podSelector"]["matchLabels"])
        assert chosen, policy["metadata"]["name"]
        for rule in policy["spec"]["ingress"]:
            for port in rule["ports"]:
                assert any(port["port"] == named["name"] for pod in chosen for named in pod.main.get("ports", []))
    for budget in chart.of("PodDisruptionBudget"):
        [pod] = selected(chart, budget["spec"]["selector"]["matchLabels"])
        assert budget["spec"]["maxUnavailable"] == 1, "none would block the drain of a node"
        assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow", "so would one that is not ready"
    for monitor in chart.of("ServiceMonitor"):
        wanted = monitor["spec"]["selector"]["matchLabels"]
        [service] = [found for found in chart.of("Service") if wanted.items() <= found["metadata"]["labels"].items()]
        [endpoint] = monitor["spec"]["endpoints"]
        assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
        assert (endpoint["path"], endpoint["interval"]) == ("/metrics", "15s")


def selected(chart: Rendered, labels: Mapping[str, str]) -> list[Pod]:
    """Return the pods that a selector chooses."""
    return [pod for pod in chart.pods if labels.items() <= pod.labels.items()]


def check_secrets(chart: Rendered) -> None:
    """Fail for secrets outside mounted files that only the pod's group may read."""
    assert chart.of("Secret") == [], "a chart with secrets in it leaves them in the release's history"
    for pod in chart.pods:
        for volume in pod.spec["volumes"]:
            if "secret" in volume:
                assert volume["secret"]["defaultMode"] == 0o440, pod.name
        for container in pod.containers:
            assert "envFrom" not in container, pod.name
            for variable in container.get("env", []):
                assert variable.keys() == {"name", "value"}, (pod.name, variable)
            mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
            secret = {volume["name"] for volume in pod.spec["volumes"] if "secret" in volume}
            assert all(mount["readOnly"] for mount in mounts.values() if mount["name"] in secret), pod.name
