"""Secrets reach the services of compose.yaml as files, never as variables that `docker inspect` shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

WORKSPACE = Path(__file__).resolve().parents[3]
SCRIPT = WORKSPACE / "shared" / "scripts" / "compose_secrets.py"
PROFILES = ("standalone", "cuda", "queue", "forester", "monitoring", "localnet")
SECRET = re.compile(r"PAYER|DERIVATION|API_KEY|ROUTING_KEY|PASSWORD|TOKEN|URL")


def compose() -> dict[str, Any]:
    everything: dict[str, Any] = yaml.safe_load((WORKSPACE / "compose.yaml").read_text())
    return everything


def answer(folder: Path, profile: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Write the secrets of a profile as `make up` does; returns the ended process."""
    environment = {"PATH": os.environ["PATH"], **variables}
    command = [sys.executable, str(SCRIPT), profile, str(folder)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True)


def write(folder: Path, profile: str, **variables: str) -> str:
    """Write the secrets of a profile as `make up` does; returns the options that it printed for compose."""
    return answer(folder, profile, **variables).stdout


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


@pytest.mark.parametrize("profile", PROFILES)
def test_compose__secrets_of_a_profile__are_files_that_make_up_writes(profile: str, tmp_path: Path) -> None:
    write(tmp_path, profile)
    declared = compose()["secrets"]
    for name, service in compose()["services"].items():
        if profile in service["profiles"]:
            for secret in service.get("secrets", []):
                assert declared[secret] == {"file": f"./.state/secrets/{secret}"}, name
                assert (tmp_path / secret).is_file(), name


@pytest.mark.parametrize("kind", ["configs", "secrets"])
def test_compose__configs_and_secrets_of_read_only_services__are_files(kind: str) -> None:
    """Compose starts no read-only service that uses one with `content` or `environment`."""
    declared = compose()[kind]
    found = {
        used if isinstance(used, str) else used["source"]
        for service in compose()["services"].values()
        if service.get("read_only")
        for used in service.get(kind, [])
    }
    assert found
    assert {name: declared[name] for name in found if declared[name].keys() != {"file"}} == {}
    if kind == "configs":
        assert [name for name in found if not (WORKSPACE / declared[name]["file"]).is_file()] == []


@pytest.mark.parametrize("name", compose()["services"])
def test_compose__service__has_no_secret_in_its_environment_or_command(name: str) -> None:
    service = compose()["services"][name]
    variables = service.get("environment", {})
    assert [variable for variable in variables if SECRET.search(variable) and not variable.endswith("_FILE")] == []
    assert not re.search(r"://\S*@|--requirepass|--pass\b|REDISCLI_AUTH", str(service))


def test_secrets__variables_of_the_shell__are_private_files_that_containers_can_read(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    assert write(folder, "forester", PAYER="[1,2]", RPC_URL="http://node/?api-key=x", PROVER_API_KEY="k" * 20) == ""
    found = contents(folder)
    assert (found["payer"], found["rpc_url"], found["prover_api_key"]) == ("[1,2]", "http://node/?api-key=x", "k" * 20)
    assert (found["prover_url"], found["fallback_rpc_url"]) == ("http://prover:3001", "")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o444}


def test_secrets__one_that_changed__recreates_the_containers(tmp_path: Path) -> None:
    assert write(tmp_path, "forester", PAYER="[1]") == ""
    assert write(tmp_path, "forester", PAYER="[1]") == ""
    assert write(tmp_path, "forester", PAYER="[2]") == "--force-recreate\n"
    assert write(tmp_path, "standalone") == "", "other profiles leave the forester's keys"
    assert contents(tmp_path)["payer"] == "[2]"


@pytest.mark.parametrize("profile", PROFILES)
def test_secrets__variable_that_is_not_set_now__keeps_the_secret_of_an_earlier_call(
    profile: str, tmp_path: Path
) -> None:
    write(tmp_path, "forester", PROVER_API_KEY="k" * 20, PAYER="[1]", PROVER_URL="https://key@mine:3001")
    later = answer(tmp_path, profile)
    assert later.stdout == "", "nothing changed"
    found = contents(tmp_path)
    assert (found["prover_api_key"], found["payer"]) == ("k" * 20, "[1]")
    assert found["prover_url"] == "https://key@mine:3001"
    with_provers = profile not in ("monitoring", "localnet")
    expected = ["prover_api_key"] * with_provers + ["prover_url", "payer"] * (profile == "forester")
    lines = later.stderr.splitlines()
    assert len(lines) == len(expected)
    for line, name in zip(lines, expected, strict=True):
        assert line.startswith(f"{tmp_path / name} is kept, because {name.upper()} is not set; ")
        assert f"rm -f {tmp_path / name}, make up PROFILE={profile}" in line
        (tmp_path / name).unlink()
    assert answer(tmp_path, profile).stderr == ""
    found = contents(tmp_path)
    assert [name for name in expected if found[name] not in ("", "http://prover:3001")] == [], "as the line says"
    assert answer(tmp_path, profile).stderr == "", "a default is no secret of an earlier call"


@pytest.mark.parametrize("profile", ["monitoring", "localnet"])
def test_secrets__profile_without_provers__writes_none(profile: str, tmp_path: Path) -> None:
    assert write(tmp_path, profile, PROVER_API_KEY="k" * 20, PAYER="[1]") == ""
    assert contents(tmp_path) == {}


def test_secrets__password_of_redis__is_random_and_stays(tmp_path: Path) -> None:
    passwords = set()
    for folder in (tmp_path / "a", tmp_path / "a", tmp_path / "b"):
        assert write(folder, "queue") == ""
        found = contents(folder)
        password = found["redis_conf"].removeprefix("requirepass ").strip()
        assert re.fullmatch(r"[0-9a-f]{48}", password)
        assert found["redis_url"] == f"redis://:{password}@redis:6379/0"
        passwords.add(password)
    assert len(passwords) == 2


def test_compose__redis__is_reached_by_its_clients_alone_and_bounded() -> None:
    networks = compose()["networks"]
    services = compose()["services"]
    assert services["redis"]["networks"] == ["queue"]
    assert networks["queue"] == {"internal": True}
    assert {name for name, service in services.items() if "queue" in service.get("networks", [])} == {
        *("redis", "api", "worker")
    }
    words = services["redis"]["command"]
    assert words[words.index("--maxmemory") + 1] == "2gb"
    assert words[words.index("--maxmemory-policy") + 1] == "noeviction"
    for name in ("api", "worker"):
        # One for each of the nine queues. Redis needs up to a third more than the bodies, and submissions stop at nine
        # tenths of it.
        bodies = 9 * services[name]["environment"]["PROVER_QUEUE__MEMORY_LIMIT_BYTES"]
        assert bodies <= 2 * 2**30 * 0.9 * 3 / 4


def test_compose__localnet__cannot_read_the_secrets_of_the_workspace() -> None:
    assert "/workspace/.state" in compose()["services"]["localnet"]["tmpfs"]
