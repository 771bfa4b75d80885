"""The forester's Dockerfile and its service in compose.yaml: what they promise, and as processes of this machine."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from container_files import (
    WORKSPACE,
    Container,
    command_of,
    environment,
    health_check_of,
    here,
    services,
    stages,
)
from local_processes import free_port
from localnet_process import Localnet, running_localnet

from forester.daemon.daemon import STOP_S
from forester.log_level import LOG_LEVEL
from forester.settings import Settings
from forester.settings.model import is_in_files
from forester.settings.sources import SECRETS_FOLDER, variable

LAST_STAGE = stages(WORKSPACE / "forester" / "Dockerfile")[-1]


def test_compose__forester__has_a_prover_its_state_and_time_to_drain() -> None:
    found = services("forester")
    assert set(found) == {"forester", "prover"}
    service = found["forester"]
    assert service["depends_on"] == {"prover": {"condition": "service_healthy"}}
    assert [volume["target"] for volume in service["volumes"]] == LAST_STAGE.all("VOLUME")
    assert float(service["stop_grace_period"].removesuffix("s")) > STOP_S + 10
    assert service["ports"] == ["127.0.0.1:8080:8080"]


FIXED = {"api_server_port", "api_server_public_bind", "journal_path"}
"""Settings that the command and the image of the service set."""
OF_THE_DASHBOARD = {"forester_api_urls"}


def test_compose__forester__passes_every_setting_and_nothing_else() -> None:
    service = services("forester")["forester"]
    plain = {variable(name) for name in set(Settings.model_fields) - FIXED if not is_in_files(name)}
    passed = service["environment"]
    assert set(passed) - {SECRETS_FOLDER, LOG_LEVEL} == plain
    assert {name: value for name, value in passed.items() if value is not None} == {SECRETS_FOLDER: "/run/secrets"}
    in_files = {variable(name).lower() for name in set(Settings.model_fields) - OF_THE_DASHBOARD if is_in_files(name)}
    assert set(service["secrets"]) == in_files


def variables_of(net: Localnet, folder: Path, port: int) -> dict[str, str]:
    """Return the variables of the image, and those of compose, with secrets of a shell in files."""
    [image] = LAST_STAGE.all("ENV")
    fixed = dict(re.findall(r'(\w+)=("[^"]*"|\S+)', image))
    secrets = folder / "secrets"
    script = WORKSPACE / "shared/scripts/compose_secrets.py"
    shell = {"PATH": os.environ["PATH"]} | net.environment
    subprocess.run([sys.executable, script, "forester", secrets], env=shell, check=True)
    journal = fixed["JOURNAL_PATH"].replace("/state", str(folder))
    return environment({"PYTHONUNBUFFERED": fixed["PYTHONUNBUFFERED"], "JOURNAL_PATH": journal}) | {
        SECRETS_FOLDER: str(secrets),
        "API_SERVER_PORT": fixed["API_SERVER_PORT"].replace("8080", str(port)),
        "PATH": os.environ["PATH"],
    }


def test_image__without_arguments__starts_a_forester_whose_health_the_engine_asks_for() -> None:
    assert [*LAST_STAGE.program, *LAST_STAGE.words("CMD")] == command_of(services("forester")["forester"])[:2]
    [port] = LAST_STAGE.all("EXPOSE")
    assert f"127.0.0.1:{port}/health" in LAST_STAGE.health_check[-1]
    assert f"API_SERVER_PORT={port}" in LAST_STAGE.all("ENV")[0].split()


def test_forester__as_compose_starts_it__serves_and_drains(tmp_path: Path) -> None:
    port = free_port()
    # Ports of the container are its own, and so is its network: here the API stays on this machine.
    places = {":8080": f":{port}", "=8080": f"={port}", "--api-server-public-bind": "--api-server-public-bind=false"}
    service = services("forester")["forester"]
    with running_localnet("--slot-ms", "100") as net:
        container = Container(
            "forester",
            here(command_of(service), places),
            here(health_check_of(service), places),
            tmp_path / "log",
            env=variables_of(net, tmp_path, port),
            cwd=tmp_path,
        )
        try:
            container.become_healthy()
            assert status(port)["total_trees"] == 10
        finally:
            ended = container.stop()
    assert ended == 0, container.log.read_text()
    assert not container.healthy()
    assert (tmp_path / "journal.sqlite").is_file()


def status(port: int) -> Any:
    """Return the first answer of /status; the test has a time limit."""
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", "/status")
            response = connection.getresponse()
            answer = json.load(response)
        if response.status == 200:
            return answer
        assert response.status == 503, answer
        time.sleep(0.1)
