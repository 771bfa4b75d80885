"""The workspace keeps its promises: top level, targets, lock."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

WORKSPACE = Path(__file__).resolve().parents[3]
TOP_LEVEL = {
    *("prover", "forester", "shared", "keys-cache", "Makefile", "compose.yaml"),
    *("README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "pyproject.toml", "requirements.lock"),
    *(".gitignore", ".dockerignore", ".ci", ".importlinter"),
}
OTHER_NAMES = {"Crypto": "pycryptodome", "dotenv": "python-dotenv", "shared": "zkc-shared"}
"""Distributions that have another name than the module that is imported from them."""
TARGETS = {
    "Start": "help setup up down demo localnet reference-fixtures",
    "Build": "native native-cuda native-checked images regenerate",
    "Check": "test lint test-unit test-integration test-acceptance test-gpu sanitize",
    "Measure": "bench bench-compare bench-service soak",
    "Keys": "keys-list keys-download keys-verify keys-dev",
    "Ship": "docs changelog release release-check sbom manifests",
}


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=WORKSPACE, capture_output=True, text=True, check=False)


def targets_by_section() -> dict[str, set[str]]:
    sections: dict[str, set[str]] = {}
    section = ""
    for line in run("make").stdout.splitlines():
        if line and not line.startswith(" "):
            section = line
        elif line:
            sections.setdefault(section, set()).add(line.split()[0])
    return sections


def test_top_level__tracked_files__are_the_agreed_entries() -> None:
    listing = run("git", "ls-files")
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    found = {line.split("/")[0] for line in listing.stdout.splitlines()}
    assert found <= TOP_LEVEL
    assert {"prover", "forester", "shared", "keys-cache", "Makefile"} <= found


def test_vectors__no_two__have_equal_content() -> None:
    files_of: dict[str, list[str]] = {}
    for path in WORKSPACE.glob("*/**/tests/vectors/**/*.json"):
        # Environments, and the export of a commit that `make release` leaves in .state.
        if not any(part.startswith(".") for part in path.relative_to(WORKSPACE).parts):
            value = json.dumps(json.loads(path.read_bytes()), sort_keys=True)
            files_of.setdefault(hashlib.sha256(value.encode()).hexdigest(), []).append(str(path.relative_to(WORKSPACE)))
    assert len(files_of) > 100
    assert [files for files in files_of.values() if len(files) > 1] == [], "keep one, in shared/tests/vectors"


@pytest.mark.parametrize("service", ["prover", "forester"])
def test_tests__of_a_service__are_in_folders_named_like_its_sources(service: str) -> None:
    tests = WORKSPACE / service / "tests"
    sources = {path.name for path in (WORKSPACE / service / "src" / service).iterdir()}
    others = {"native", "bench", "scripts", "deployment", "support"}
    folders = {path.parent.name for level in ("unit", "integration") for path in tests.glob(f"{level}/*/test_*.py")}
    assert folders <= sources | others
    assert [path.name for path in tests.glob("*.py")] == ["conftest.py"], "modules for several tests are in support"


@pytest.mark.parametrize("section", TARGETS)
def test_make__without_target__lists_the_agreed_targets(section: str) -> None:
    assert set(TARGETS[section].split()) <= targets_by_section()[section]


@pytest.mark.parametrize("target", ["test", "coverage", "test-integration", "test-acceptance"])
def test_make__target_of_integration_tests__first_brings_what_they_would_be_skipped_for(target: str) -> None:
    commands = run("make", "--dry-run", "--always-make", target).stdout
    before, _, _ = commands.partition("shared/scripts/run-tests")
    for script in (
        "native tests",
        "reference_fixtures.py",
        "provide-redis",
        "provide-browser",
        "localnet/scripts/make-",
    ):
        assert script in before, script


def locked(name: str) -> dict[str, set[str]]:
    """Return the packages of a lock, as name==version, with their hashes."""
    lock = (WORKSPACE / name).read_text()
    assert "://" not in lock
    blocks = re.split(r"\n(?=\S)", lock.strip())
    packages = {}
    for block in blocks:
        if not block.startswith("#"):
            assert re.match(r"[A-Za-z0-9._-]+==\S+", block), block.splitlines()[0]
            packages[block.split()[0]] = set(re.findall(r"--hash=(sha256:[0-9a-f]{64})", block))
            assert packages[block.split()[0]], block.splitlines()[0]
    return packages


def test_lock__every_package__is_pinned_with_hashes_and_no_host() -> None:
    assert len(locked("requirements.lock")) > 30


@pytest.mark.parametrize("service", ["prover", "forester"])
def test_lock__of_a_service__is_the_part_of_the_whole_lock_that_it_needs_at_run_time(service: str) -> None:
    packages, whole = locked(f"shared/locks/{service}.lock"), locked("requirements.lock")
    assert packages.items() <= whole.items()
    names = {package.partition("==")[0] for package in packages}
    for member in ("shared", service):
        project = tomllib.loads((WORKSPACE / member / "pyproject.toml").read_text())["project"]
        declared = {re.split(r"[<>=\[; ]", text)[0] for text in project["dependencies"]}
        assert declared - {"zkc-shared"} <= names
    assert not names & {"pytest", "ruff", "mypy", "cmake", "uv"}


@pytest.mark.parametrize("group", ["wheels", "release", "cuda"])
def test_lock__of_a_group_of_its_own__agrees_with_the_whole_lock(group: str) -> None:
    packages, whole = locked(f"shared/locks/{group}.lock"), locked("requirements.lock")
    versions = dict(package.split("==") for package in whole)
    others = {
        package for package in packages if versions.get(package.split("==")[0]) not in (None, package.split("==")[1])
    }
    assert not others
    declared = tomllib.loads((WORKSPACE / "pyproject.toml").read_text())["dependency-groups"][group]
    wanted = {re.split(r"[<>=\[; ]", text)[0] for text in declared if isinstance(text, str)}
    assert wanted <= {package.split("==")[0] for package in packages}


@pytest.mark.parametrize("member", ["shared", "prover", "forester", "shared/localnet"])
def test_dependencies__of_a_member__are_what_its_modules_import(member: str) -> None:
    imported: set[str] = set()
    for path in (WORKSPACE / member / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                imported.add(node.module.split(".")[0])
    own = {path.name for path in (WORKSPACE / member / "src").iterdir()}
    distributions = {OTHER_NAMES.get(name, name.replace("_", "-")) for name in imported - own - sys.stdlib_module_names}
    project = tomllib.loads((WORKSPACE / member / "pyproject.toml").read_text())["project"]
    declared = {re.split(r"[<>=\[; ]", text)[0] for text in project["dependencies"]}
    # Compiled modules import cffi.
    assert declared - {"cffi"} == distributions


def test_compose__localnet__runs_from_the_workspace_read_only_and_from_no_image_of_ours() -> None:
    services = yaml.safe_load((WORKSPACE / "compose.yaml").read_text())["services"]
    localnet = services["localnet"]
    assert localnet["profiles"] == ["localnet"]
    assert "build" not in localnet
    assert localnet["image"].startswith("python:")
    [workspace] = [volume for volume in localnet["volumes"] if volume["type"] == "bind"]
    assert workspace["read_only"]
    script = WORKSPACE / localnet["entrypoint"][0]
    assert os.access(script, os.X_OK)
    assert all(port.startswith("127.0.0.1:") for service in services.values() for port in service.get("ports", []))
