"""The tutorial for Kubernetes, whose commands need a cluster: they are read, and what its charts render is checked."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest
from rendered_chart import Rendered, rendered, require_tools
from solders.keypair import Keypair
from tutorial import WORKSPACE, steps

from forester.cli.checks.start import require_for_start
from forester.settings import load_settings
from prover.keys.catalogue.circuits import PUBLISHED_CIRCUITS
from prover.keys.catalogue.run_modes import RunMode, circuits_of
from prover.proving.request import read_envelope, read_task

PAGE = WORKSPACE / "shared/docs/tutorials/kubernetes.md"
_OTHER_IMAGES = ("redis:",)


@pytest.fixture(scope="module", autouse=True)
def tools() -> None:
    """Helm and the schemas."""
    require_tools()


@pytest.fixture
def commands(tmp_path: Path) -> list[list[str]]:
    """The words of each command of the page."""
    page = tmp_path / PAGE.name
    page.write_text(re.sub(r"^<!-- not run: .* -->\n", "", PAGE.read_text(), flags=re.MULTILINE))
    return [shlex.split(step.command.replace("\\\n", " ")) for step in steps(page)]


def installed(words: list[str]) -> Rendered:
    """Return the objects of a command ``helm install`` or ``helm upgrade``."""
    chart = WORKSPACE / words[3]
    values: list[Path | Mapping[str, object]] = []
    for option, value in zip(words[4::2], words[5::2], strict=True):
        assert option in ("--values", "--set")
        values.append(WORKSPACE / value if option == "--values" else _given(*value.split("=", 1)))
    return rendered(chart.parents[1].name, *values, release=words[2])


def _given(name: str, value: str) -> Mapping[str, object]:
    """Return a value as ``--set`` reads it: a boolean, a list in braces, or text."""
    if value.startswith("{"):
        return {name: value.strip("{}").split(",")}
    return {name: {"true": True, "false": False}.get(value, value)}


def test_commands__of_helm__take_images_of_the_registry(commands: list[list[str]]) -> None:
    charts = [installed(words) for words in commands if words[0] == "helm" and words[1] != "uninstall"]
    assert charts
    pushed = {words[3] for words in commands if words[:2] == ["docker", "tag"]}
    for chart in charts:
        for pod in chart.pods:
            for container in pod.containers:
                assert container["image"] in pushed or container["image"].startswith(_OTHER_IMAGES), pod.name


def test_job__that_the_page_submits__is_of_the_workers_and_their_keys(commands: list[list[str]]) -> None:
    [body] = [word[1:] for words in commands if words[0] == "curl" for word in words if word.startswith("@")]
    circuit = read_task(read_envelope((WORKSPACE / body).read_bytes()), PUBLISHED_CIRCUITS).circuit
    first = next(words for words in commands if words[:2] == ["helm", "install"])
    chart = installed(first)
    [keys] = [pod for pod in chart.pods if pod.owner["kind"] == "Job"]
    for pod in (chart.pod("Deployment prover-batch"), keys):
        assert circuit in circuits_of(RunMode(pod.options()["--run-mode"])), pod.name


def test_secret__of_the_forester__has_all_that_a_start_needs(commands: list[list[str]], tmp_path: Path) -> None:
    [words] = [words for words in commands if words[:5] == ["kubectl", "create", "secret", "generic", "forester"]]
    given = dict(word.split("=", 2)[1:] for word in words[5:])
    payer = Keypair.from_seed(bytes(32))
    known = {"payer": json.dumps(list(bytes(payer))), "derivation_pubkey": str(payer.pubkey())}
    folder = tmp_path / "secrets"
    folder.mkdir(mode=0o700)
    for name, value in given.items():
        (folder / name).write_text(known.get(name) or value.replace("…", "node.example"))
        (folder / name).chmod(0o400)
    settings = load_settings({}, environment={"FORESTER_SECRETS_DIR": str(folder)}, dotenv=tmp_path / "none").settings
    require_for_start(settings)


def test_claims__that_helm_leaves__are_deleted_at_the_end(commands: list[list[str]]) -> None:
    [deleted] = [words[3:] for words in commands if words[:3] == ["kubectl", "delete", "pvc"]]
    left = set()
    for chart in (installed(words) for words in commands if words[:2] == ["helm", "install"]):
        for claim in chart.of("PersistentVolumeClaim"):
            if claim["metadata"].get("annotations", {}).get("helm.sh/resource-policy") == "keep":
                left.add(claim["metadata"]["name"])
        for owner in chart.of("StatefulSet"):
            for claim in owner["spec"]["volumeClaimTemplates"]:
                left.add(f"{claim['metadata']['name']}-{owner['metadata']['name']}-0")
    assert set(deleted) == left


def test_options__of_a_cluster_that_lacks_something__leave_no_object_that_needs_it(commands: list[list[str]]) -> None:
    options = re.findall(r"--set '?([\w.]+=[\w{}]+)'?", PAGE.read_text().split("## Images")[0])
    for words in (words for words in commands if words[:2] == ["helm", "install"]):
        mine = [word for word in options if words[2] == "prover" or word.startswith("monitoring.")]
        chart = installed([*words, *(part for word in mine for part in ("--set", word))])
        assert not [found["kind"] for found in chart.objects if ".coreos.com/" in found["apiVersion"]]
        assert not [found["kind"] for found in chart.objects if "keda.sh/" in found["apiVersion"]]
        modes = [claim["spec"]["accessModes"] for claim in chart.of("PersistentVolumeClaim")]
        assert all(found == ["ReadWriteOnce"] for found in modes)
