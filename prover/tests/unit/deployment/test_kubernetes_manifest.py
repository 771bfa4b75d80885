"""The Deployment that docs/how-to/operate.md shows, against the image, the command line and the settings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import pytest
import yaml  # type: ignore[import-untyped]
from container_files import WORKSPACE, stages

from prover.cli.main import cli
from prover.settings import HttpSettings, Settings

PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/operate.md"


@pytest.fixture(scope="module")
def pod() -> dict[str, Any]:
    [block] = re.findall(r"```yaml\n(apiVersion.*?)```", PAGE.read_text(), re.DOTALL)
    spec: dict[str, Any] = yaml.safe_load(block)["spec"]["template"]["spec"]
    return spec


def test_deployment__mounts__are_volumes_and_hold_what_commands_name(pod: dict[str, Any]) -> None:
    volumes = {volume["name"] for volume in pod["volumes"]}
    for container in [*pod["initContainers"], *pod["containers"]]:
        mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
        assert set(mounts.values()) <= volumes
        named = [word.partition("=")[2] for word in container["args"] if word.startswith("--keys-dir=")]
        named += [variable["value"] for variable in container.get("env", []) if variable["name"].endswith("_FILE")]
        for path in named:
            assert any(Path(path).is_relative_to(mount) for mount in mounts), path


def test_deployment__arguments_and_variables__are_those_of_the_program(pod: dict[str, Any]) -> None:
    for container in [*pod["initContainers"], *pod["containers"]]:
        name, *words = container["args"]
        parent = click.Context(cli)
        command = cli.get_command(parent, name)
        assert command is not None, name
        command.make_context(name, list(words), parent)  # raises what the program would
        for variable in container.get("env", []):
            group, _, field = variable["name"].removeprefix("PROVER_").lower().partition("__")
            assert field in Settings.model_fields[group].annotation.model_fields, variable  # type: ignore[union-attr]


def test_deployment__user_and_root__are_confined_as_the_image_is_built(pod: dict[str, Any]) -> None:
    user = int(stages(WORKSPACE / "prover/Dockerfile")[-1].all("USER")[-1])
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch", "else every start touches every key"
    assert {pod["securityContext"][name] for name in ("runAsUser", "runAsGroup", "fsGroup")} == {user}
    for container in [*pod["initContainers"], *pod["containers"]]:
        confined = container["securityContext"]
        assert confined["readOnlyRootFilesystem"]
        assert not confined["allowPrivilegeEscalation"]
        assert confined["capabilities"] == {"drop": ["ALL"]}
    [secret] = [volume["secret"] for volume in pod["volumes"] if "secret" in volume]
    assert secret["defaultMode"] == 0o440  # others may not read it


def test_deployment__probes_and_grace__fit_the_server(pod: dict[str, Any]) -> None:
    [container] = pod["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"api": 3001, "metrics": 9998}
    for kind, path in (("startup", "/startupz"), ("readiness", "/readyz"), ("liveness", "/livez")):
        assert container[f"{kind}Probe"]["httpGet"] == {"path": path, "port": "metrics"}
    given = dict(word.removeprefix("--").split("=") for word in container["args"][1:])
    drain = float(given["drain-delay"]) + float(given["drain-deadline"])
    assert drain >= HttpSettings().drain_deadline_s
    assert pod["terminationGracePeriodSeconds"] >= drain + 10
