"""Files that image builds receive, by .dockerignore, and that the Dockerfiles copy of them."""

from __future__ import annotations

import re
import subprocess

import pytest
from container_files import WORKSPACE, copied_into, in_context, stages

DOCKERFILES = ("prover/Dockerfile", "prover/Dockerfile.cuda", "forester/Dockerfile")


def tracked_files() -> list[str]:
    listing = subprocess.run(["git", "ls-files"], cwd=WORKSPACE, capture_output=True, text=True)
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    return [name for name in listing.stdout.splitlines() if (WORKSPACE / name).exists()]


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_build_context__what_is_copied__is_there_but_for_what_no_image_is_made_of(dockerfile: str) -> None:
    files = tracked_files()
    no_part = re.compile(r"shared/(localnet|deployment-tools)/|.*/(tests|docs|deploy)/|\w+/Dockerfile(\.\w+)?$")
    for stage in stages(WORKSPACE / dockerfile):
        for source in copied_into(stage):
            below = [name for name in files if name == source or name.startswith(f"{source}/")]
            assert any(map(in_context, below)), source
            left_out = [name for name in below if not in_context(name)]
            assert all(map(no_part.match, left_out)), left_out


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_build_context__scripts_of_the_workspace_that_a_stage_runs__are_copied_before(dockerfile: str) -> None:
    for stage in stages(WORKSPACE / dockerfile):
        copied: list[str] = []
        for name, arguments in stage.instructions:
            if name == "COPY":
                copied += [source.rstrip("/") for source in arguments.split()[:-1]]
            elif name == "RUN":
                for script in re.findall(r"(?:shared|prover|forester)/scripts/\S+", arguments):
                    assert (WORKSPACE / script).is_file()
                    assert in_context(script)
                    assert any(script.startswith(f"{source}/") for source in copied), script


def test_build_context__what_is_made_here__is_omitted() -> None:
    made = (
        *(".git/HEAD", ".venv/bin/python", ".state/members", ".env", "payer.json"),
        *("keys-cache/reference/0.27.0/proving-keys/inclusion_32_1.key", "shared/localnet/.venv/bin/python"),
        *("prover/build/dev/libgroth16.a", "prover/src/prover/kernel/_native.abi3.so", "prover/tests/conftest.py"),
        "shared/src/shared/__pycache__/field.cpython-312.pyc",
    )
    assert [name for name in made if in_context(name)] == []
