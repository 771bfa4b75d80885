"""compose.yaml and the Dockerfiles: what they promise, and their commands and health checks as local processes."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from container_files import (
    WORKSPACE,
    Container,
    Stage,
    compose,
    copied_into,
    environment,
    here,
    running_container,
    services,
    stages,
)
from golden_vectors import request_vectors
from local_processes import free_port

from prover.kernel.device import LIBRARY_NAME
from prover.variables import REFERENCE_VARIABLES

API_KEY = "a key that compose hands over"
DOCKERFILES = ("prover/Dockerfile", "prover/Dockerfile.cuda", "forester/Dockerfile")
COMPILERS = ("gcc", "g++", "clang", "libc6-dev", "build-essential", "cmake", "ninja")


def final_stage(dockerfile: str) -> Stage:
    return stages(WORKSPACE / dockerfile)[-1]


def write_secrets(profile: str, folder: Path, **variables: str) -> dict[str, str]:
    """Write the secrets as `make up` does; return the folder that replaces theirs in containers."""
    secrets = folder / "secrets"
    script = WORKSPACE / "shared/scripts/compose_secrets.py"
    kept = {name: value for name, value in os.environ.items() if name != "PROVER_API_KEY"}
    subprocess.run([sys.executable, script, profile, secrets], env=kept | variables, check=True)
    return {"/run/secrets": str(secrets)}


def prover_places(keys_dir: Path, prepared_dir: Path) -> dict[str, str]:
    """Return a prover's own addresses and keys in place of those of its container."""
    api, metrics = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    return {
        "0.0.0.0:3001": api,
        "127.0.0.1:3001": api,
        "0.0.0.0:9998": metrics,
        "127.0.0.1:9998": metrics,
        "/keys": str(keys_dir),
        "/prepared": str(prepared_dir),
    }


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_dockerfile__final_stage__has_no_compiler_and_no_root(dockerfile: str) -> None:
    *earlier, last = stages(WORKSPACE / dockerfile)
    assert earlier
    assert last.base == earlier[0].base
    assert last.base.partition("@")[0].endswith("-slim-bookworm")
    assert int(last.all("USER")[-1]) > 0
    assert {copied.split()[0] for copied in last.all("COPY")} == {f"--from={stage.name}" for stage in earlier}
    commands = " ".join(last.all("RUN")).split()
    assert not set(commands) & {"apt-get", "apt", "pip", *COMPILERS}


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_dockerfile__first_process__is_tini_from_the_build_stage(dockerfile: str) -> None:
    _, build, *_, last = stages(WORKSPACE / dockerfile)
    assert "tini" in build.all("RUN")[0].split()
    assert "--from=build /usr/bin/tini /usr/bin/tini" in last.all("COPY")
    assert last.words("ENTRYPOINT") == ["tini", "-s", "--", dockerfile.partition("/")[0]]


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_dockerfile__packages__are_a_layer_that_an_edit_of_sources_leaves_as_it_is(dockerfile: str) -> None:
    service = dockerfile.partition("/")[0]
    packages, build, *_, last = stages(WORKSPACE / dockerfile)
    assert copied_into(packages) == [f"shared/locks/{service}.lock"]
    installs = [packages.all("RUN")[-1], build.all("RUN")[1]]
    for lock, install in zip((f"/{service}.lock", "wheels.lock"), installs, strict=True):
        assert f"--no-deps --require-hashes --only-binary :all: -r {lock}" in install
    sources = build.instructions.index(("COPY", "shared/ shared/"))
    assert build.instructions.index(("RUN", installs[1])) < sources
    ours = [copied for copied in last.all("COPY") if copied.endswith(f" /opt/{service}")]
    assert ours == [
        f"--from=packages /opt/{service} /opt/{service}",
        f"--from=build /added/opt/{service} /opt/{service}",
    ]


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_dockerfile__labels__name_the_image_its_version_and_its_commit_after_all_layers(dockerfile: str) -> None:
    last = final_stage(dockerfile)
    name, labels = last.instructions[-1]
    assert name == "LABEL"
    found = {key.rpartition(".")[2]: value for key, value in re.findall(r'(\S+)="([^"]*)"', labels)}
    assert found.keys() == {"title", "description", "licenses", "version", "revision"}
    assert {found["version"], found["revision"]} == {"$VERSION", "$REVISION"}
    script = (WORKSPACE / "shared/scripts/build-image").read_text()
    targets = (WORKSPACE / "Makefile").read_text()
    assert f"shared/scripts/build-image {found['title']} {dockerfile}\n" in targets
    assert all(f'"{argument.partition("=")[0]}=$' in script for argument in last.all("ARG"))


def test_make_up__images_that_it_builds__have_the_labels_of_make_images(tmp_path: Path) -> None:
    docker = tmp_path / "docker"
    docker.write_text('#!/bin/sh\nprintf "%s\\n" "$@" "VERSION=$VERSION" "REVISION=$REVISION"\n')
    docker.chmod(0o755)
    shell = {name: value for name, value in os.environ.items() if name not in ("VERSION", "REVISION")}
    shell["PATH"] = f"{tmp_path}:{shell['PATH']}"

    def labels(*command: str) -> dict[str, str]:
        answer = subprocess.run(command, cwd=WORKSPACE, env=shell, capture_output=True, text=True, check=True)
        return dict(re.findall(r"^(VERSION|REVISION)=(.+)$", answer.stdout, re.MULTILINE))

    if subprocess.run(["git", "rev-parse", "HEAD"], cwd=WORKSPACE, capture_output=True).returncode != 0:
        pytest.skip("not a git checkout")
    of_images = labels("shared/scripts/build-image", "zkc-prover", "prover/Dockerfile")
    assert of_images.keys() == {"VERSION", "REVISION"}
    # The profile has no secrets; reference-fixtures, which needs the network, is assumed to be done.
    python = f"PYTHON_BIN={sys.executable}"
    assert labels("make", "--old-file=reference-fixtures", "up", "PROFILE=localnet", python) == of_images
    for name, service in compose()["services"].items():
        if "build" in service:
            names = [argument.partition("=")[0] for argument in final_stage(service["build"]["dockerfile"]).all("ARG")]
            assert service["build"]["args"] == {argument: f"${{{argument}:-unknown}}" for argument in names}, name


def test_dockerfile__for_gpus__is_the_usual_image_and_the_library() -> None:
    *plain, last_plain = stages(WORKSPACE / "prover/Dockerfile")
    *build, cuda, last = stages(WORKSPACE / "prover/Dockerfile.cuda")
    assert build == plain
    assert last.base == last_plain.base
    *common, label = last_plain.instructions
    more = [instruction for instruction in last.instructions if instruction not in last_plain.instructions]
    assert [instruction for instruction in last.instructions if instruction not in more] == common
    copied, variables, own_label = more
    assert own_label[0] == label[0] == "LABEL"
    library, folder = copied[1].removeprefix("--from=cuda ").split()
    assert cuda.all("RUN")[-1].endswith(f" {library}")
    assert Path(library).name == LIBRARY_NAME
    python = re.fullmatch(r"python:(\d+\.\d+)-slim-bookworm@sha256:[0-9a-f]{64}", last.base)
    assert python is not None
    assert folder == f"/opt/prover/lib/python{python[1]}/site-packages/prover/kernel/"
    given = dict(word.split("=", 1) for word in variables[1].split())
    assert given == {
        "PROVER_DEVICE": "cuda",
        "NVIDIA_VISIBLE_DEVICES": "all",
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
    }


def test_compose__cuda__is_the_standalone_service_with_all_gpus() -> None:
    [(_, plain)] = services("standalone").items()
    [(_, service)] = services("cuda").items()
    own = ("image", "build", "profiles", "environment", "deploy")
    assert {name: value for name, value in service.items() if name not in own} == {
        name: value for name, value in plain.items() if name not in own
    }
    assert service["build"]["dockerfile"] == "prover/Dockerfile.cuda"
    assert service["environment"]["PROVER_DEVICE"] == "${PROVER_DEVICE:-cuda}"
    [device] = service["deploy"]["resources"]["reservations"]["devices"]
    assert (device["driver"], device["count"], device["capabilities"]) == ("nvidia", "all", ["gpu"])


@pytest.mark.parametrize("profile", ["standalone", "cuda", "queue", "forester"])
def test_compose__services__are_confined(profile: str) -> None:
    for name, service in services(profile).items():
        assert service["init"], name
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name
        for volume in service["volumes"]:
            assert volume["type"] == "volume" or volume["read_only"], name


@pytest.mark.parametrize("profile", ["standalone", "cuda", "queue", "forester"])
def test_compose__provers__keep_prepared_keys_in_a_volume_that_is_their_user_s(profile: str) -> None:
    provers = [service for service in services(profile).values() if service["image"].startswith("zkc-prover")]
    assert provers
    for service in provers:
        folder = service["environment"]["PROVER_KEYS__PREPARED_DIRECTORY"]
        [volume] = [volume for volume in service["volumes"] if volume["target"] == folder]
        assert volume["source"] in compose()["volumes"]
        last = final_stage(service["build"]["dockerfile"])
        # A new volume takes its owner from the folder of the image.
        [made] = re.findall(r"install --directory --owner=(\d+) (.*)", " ".join(last.all("RUN")))
        assert made[0] == last.all("USER")[-1]
        assert folder in made[1].split()


@pytest.mark.parametrize("profile", ["standalone", "cuda", "queue", "forester"])
def test_compose__provers__obey_the_key_that_the_forester_sends(profile: str) -> None:
    ours = [service for service in services(profile).values() if service["image"].startswith("zkc-")]
    assert ours
    for service in ours:
        assert "prover_api_key" in service["secrets"]
        folder = service["environment"].get("FORESTER_SECRETS_DIR", "/run/secrets")
        assert (
            service["environment"].get("PROVER_API_KEY_FILE", f"{folder}/prover_api_key")
            == "/run/secrets/prover_api_key"
        )


@pytest.mark.parametrize("profile", ["standalone", "cuda", "queue", "forester"])
def test_compose__provers__are_healthy_when_they_are_ready(profile: str) -> None:
    for service in services(profile).values():
        if service["image"].startswith("zkc-prover"):
            assert "http://127.0.0.1:9998/readyz" in service["healthcheck"]["test"][-1]


FIXED = re.compile(
    r"PROVER_(HTTP__(ADDRESS|METRICS_ADDRESS|API_KEYS?|API_KEYS_FILE)"
    r"|KEYS__(DIRECTORY|PREPARED_DIRECTORY|MANIFEST|AUTO_DOWNLOAD|DOWNLOAD_\w+)"
    r"|QUEUE__(URL|HTTP|WORKERS|MEMORY_LIMIT_BYTES)|CUDA_LIBRARY|DEVICE)"
)
"""Settings that the commands, read-only mounts and secrets of the services decide."""
GROUPS = {"queue": ("PROVER_QUEUE__", "PROVER_MAX_PENDING_"), "cuda": ("PROVER_CUDA",)}
"""Settings of one profile only."""


@pytest.mark.parametrize("profile", ["standalone", "cuda", "queue"])
def test_compose__provers__pass_every_setting(profile: str) -> None:
    page = (WORKSPACE / "prover/docs/reference/settings.md").read_text()  # generated from the models
    known = {name for name in re.findall(r"^\| `(PROVER_\w+)`", page, re.MULTILINE) if not FIXED.fullmatch(name)}
    assert len(known) > 50
    known |= set(REFERENCE_VARIABLES) - {"PROVER_API_KEY"}
    others = tuple(prefix for name, prefixes in GROUPS.items() if name != profile for prefix in prefixes)
    for name, service in services(profile).items():
        if "build" in service:
            passed = {variable for variable in service["environment"] if variable.startswith("PROVER_")}
            assert {variable for variable in known - passed if not variable.startswith(others)} == set(), name
            decided = {
                "PROVER_API_KEY_FILE",
                "PROVER_DEVICE",
                "PROVER_QUEUE__MEMORY_LIMIT_BYTES",
            }
            assert passed - known - decided == {"PROVER_KEYS__PREPARED_DIRECTORY"}


def test_compose__queue__is_redis_on_a_volume_one_api_and_two_workers() -> None:
    found = services("queue")
    assert set(found) == {"redis", "api", "worker"}
    assert found["worker"]["deploy"]["replicas"] == 2
    assert {volume["target"] for volume in found["redis"]["volumes"]} == {"/data"}
    assert "ports" not in found["redis"]
    words = found["redis"]["command"]
    assert words[words.index("--appendonly") + 1] == "yes"
    for name in ("api", "worker"):
        assert found[name]["depends_on"] == {"redis": {"condition": "service_healthy"}}


def test_compose__grace_of_a_prover__is_longer_than_its_drain() -> None:
    from prover.settings import HttpSettings

    drain = HttpSettings().serving_after_stop_s + HttpSettings().drain_deadline_s
    for profile in ("standalone", "cuda", "queue"):
        for name, service in services(profile).items():
            if "build" in service:
                assert float(service["stop_grace_period"].removesuffix("s")) > drain + 10, name


def test_prover_image__its_command_and_health_check__serve(reference_keys_dir: Path, tmp_path: Path) -> None:
    stage = final_stage("prover/Dockerfile")
    places = prover_places(reference_keys_dir, tmp_path)
    variables = {
        "PROVER_HTTP__ADDRESS": places["0.0.0.0:3001"],
        "PROVER_HTTP__METRICS_ADDRESS": places["0.0.0.0:9998"],
    }
    container = Container(
        "prover",
        here([*stage.program, *stage.words("CMD")], places),
        here(stage.health_check, places),
        tmp_path / "log",
        env=environment(variables),
        cwd=tmp_path,
    )
    try:
        container.become_healthy()
    finally:
        status = container.stop()
    assert status == 0, container.log.read_text()
    assert not container.healthy()


def test_compose__standalone__becomes_healthy_and_proves(reference_keys_dir: Path, tmp_path: Path) -> None:
    [(name, service)] = services("standalone").items()
    places = prover_places(reference_keys_dir, tmp_path) | write_secrets("standalone", tmp_path, PROVER_API_KEY=API_KEY)
    with running_container(name, service, places, tmp_path) as container:
        container.become_healthy()
        assert prove(places, wait=False, key="")["code"] == "unauthorized"
        assert "krs" in prove(places, wait=False)
        assert container.stop() == 0, container.log.read_text()
    assert list(tmp_path.glob("*.prepared"))


def test_compose__queue__becomes_healthy_proves_and_stops(
    reference_keys_dir: Path, redis_needed: None, tmp_path: Path
) -> None:
    found = services("queue")
    port = str(free_port())
    redis = dict(found["redis"])
    redis["command"] = [*redis["command"], "--port", port, "--bind", "127.0.0.1"]
    *check, ping = redis["healthcheck"]["test"]
    redis["healthcheck"] = {"test": [*check, ping.replace("redis-cli", f"redis-cli -p {port}")]}
    with ExitStack() as running:
        to_redis = write_secrets("queue", tmp_path)
        url = tmp_path / "secrets" / "redis_url"
        url.chmod(0o600)
        url.write_text(url.read_text().replace("redis:6379", f"127.0.0.1:{port}"))
        server = running.enter_context(running_container("redis", redis, to_redis, tmp_path))
        server.become_healthy()
        assert redis_cli(port, "config", "get", "maxmemory").startswith("NOAUTH")
        api_places = prover_places(reference_keys_dir, tmp_path) | to_redis
        members = [running.enter_context(running_container("api", found["api"], api_places, tmp_path))]
        for number in range(found["worker"]["deploy"]["replicas"]):
            places = prover_places(reference_keys_dir, tmp_path) | to_redis
            members.append(running.enter_context(running_container(f"w{number}", found["worker"], places, tmp_path)))
        for member in members:
            member.become_healthy()
        assert "proof" in prove(api_places, wait=True)["result"]
        password = (tmp_path / "secrets/redis_conf").read_text().split()[1]
        assert redis_cli(port, "--pass", password, "config", "get", "save") == "save\n\n", "no snapshots"
        redis_cli(port, "--pass", password, "config", "set", "maxmemory", "1mb")
        assert prove(api_places, wait=True, kind="batch_update_32_10")["code"] == "queue_unavailable"
        for member in reversed(members):
            assert member.stop() == 0, member.log.read_text()
        assert server.stop() == 0, server.log.read_text()
    assert (tmp_path / "appendonlydir").is_dir()


def test_compose__localnet__becomes_healthy_from_an_environment_that_is_there(
    reference_programs_dir: Path, reference_accounts_dir: Path, tmp_path: Path
) -> None:
    [(name, service)] = services("localnet").items()
    localnet = WORKSPACE / "shared" / "localnet"
    if not (localnet / ".venv").exists():
        pytest.skip("localnet has no environment here; `make setup` makes it")
    environment_of_container(localnet, tmp_path)
    indexer = str(free_port())
    # Ports of the container are its own; here others may use them.
    options = [f"--rpc-port={free_port()}", f"--prover-port={free_port()}", f"--indexer-port={indexer}"]
    service = service | {"command": options}
    script, *words = service["entrypoint"]
    service["entrypoint"] = [str(WORKSPACE / script), *words]
    places = {"--host=0.0.0.0": "--host=127.0.0.1", ":8784": f":{indexer}", "/environment": str(tmp_path)}
    with running_container(name, service, places, tmp_path) as container:
        container.become_healthy()
        assert container.stop() == 0, container.log.read_text()


def redis_cli(port: str, *words: str) -> str:
    """Return the answer of Redis to a command."""
    return subprocess.run(["redis-cli", "-p", port, *words], capture_output=True, text=True, check=True).stdout


def environment_of_container(localnet: Path, folder: Path) -> None:
    """Use the environment of the workspace instead of the one that the container makes at its first start."""
    script = (localnet / "scripts" / "run-in-container").read_text()
    function = re.search(r"^made_from\(\) \{.*?^\}", script, flags=re.MULTILINE | re.DOTALL)
    assert function is not None
    stamp = subprocess.run(
        ["bash", "-euc", f"{function[0]}\nmade_from"], cwd=WORKSPACE, capture_output=True, check=True
    )
    (folder / "made-from").write_bytes(stamp.stdout)
    (folder / "venv").symlink_to(localnet / ".venv")


def prove(
    places: Mapping[str, str], *, wait: bool, key: str = API_KEY, kind: str = "v2_inclusion_32_1"
) -> dict[str, Any]:
    """Return the answer to a request; with ``wait`` the final answer of its job."""
    vector = next(vector for vector in request_vectors() if vector.circuit == kind)
    connection = http.client.HTTPConnection(places["0.0.0.0:3001"], timeout=300)
    with contextlib.closing(connection):

        def ask(method: str, path: str, body: bytes | None = None) -> dict[str, Any]:
            connection.request(method, path, body, {"X-API-Key": key} | ({"X-Async": "true"} if wait else {}))
            answer: dict[str, Any] = json.load(connection.getresponse())
            return answer

        answer = ask("POST", "/prove", vector.body)
        while wait and answer.get("status") in ("queued", "processing"):
            answer = ask("GET", f"/prove/status?job_id={answer['job_id']}&wait=5")
        return answer
