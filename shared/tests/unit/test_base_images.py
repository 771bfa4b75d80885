"""Base images are pinned by digest, and one command moves them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import yaml  # type: ignore[import-untyped]

WORKSPACE = Path(__file__).resolve().parents[3]
DOCKERFILES = sorted(path.relative_to(WORKSPACE) for path in WORKSPACE.glob("*/Dockerfile*"))
VALUES = sorted(path.relative_to(WORKSPACE) for path in WORKSPACE.glob("*/deploy/chart/values.yaml"))
PINNED = re.compile(r"[a-z0-9./-]+:[A-Za-z0-9._-]+@sha256:[0-9a-f]{64}")


def base_images(workspace: Path) -> list[str]:
    """Return every image that is pulled: bases of stages, and images of services and of charts."""
    found = []
    for dockerfile in DOCKERFILES:
        froms = re.findall(
            r"^FROM (?:--\S+ )*(\S+)", (workspace / dockerfile).read_text(), re.MULTILINE | re.IGNORECASE
        )
        copied = re.findall(r"--from=(\S+[/:@]\S+)", (workspace / dockerfile).read_text())
        found += [*froms, *copied]
    services = yaml.safe_load((workspace / "compose.yaml").read_text())["services"].values()
    found += [service["image"] for service in services if "build" not in service]
    for values in VALUES:
        found += re.findall(r"^ *image: ([^\s{]+)$", (workspace / values).read_text(), re.MULTILINE)
    return found


def run_with_docker(workspace: Path, docker: str) -> subprocess.CompletedProcess[str]:
    """Run the script on copies of the files, with a shell script in place of docker."""
    for name in (*map(str, [*DOCKERFILES, *VALUES]), "compose.yaml", "shared/scripts/move-images"):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(WORKSPACE / name, workspace / name)
    program = workspace / "bin" / "docker"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{docker}\n")
    program.chmod(0o755)
    environment = os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    script = str(workspace / "shared/scripts/move-images")
    return subprocess.run([script], env=environment, capture_output=True, text=True, check=False)


def test_base_images__every_one__has_a_tag_and_one_digest() -> None:
    images = base_images(WORKSPACE)
    assert len(images) >= 10
    assert [image for image in images if not PINNED.fullmatch(image)] == []
    tags = {image.partition("@")[0] for image in images}
    assert len(set(images)) == len(tags), "one tag has two digests"


def test_move_images__registry_names_other_digests__are_written_everywhere(tmp_path: Path) -> None:
    before = base_images(WORKSPACE)
    asked = '[ "$1 $2 $3 $5 $6" = "buildx imagetools inspect --format {{.Manifest.Digest}}" ] || exit 1'
    answer = run_with_docker(
        tmp_path, f'{asked}\nprintf "sha256:%s\\n" "$(printf %s "$4" | sha256sum | cut -d" " -f1)"'
    )
    assert answer.returncode == 0, answer.stderr
    after = base_images(tmp_path)
    assert [image.partition("@")[0] for image in after] == [image.partition("@")[0] for image in before]
    assert all(PINNED.fullmatch(image) for image in after)
    assert not set(after) & set(before)
    assert len(answer.stdout.splitlines()) == len(set(before))


def test_move_images__registry_away_or_confused__changes_nothing(tmp_path: Path) -> None:
    for name, docker in (("away", "echo 'no route to host' >&2; exit 1"), ("confused", "echo '<no value>'")):
        answer = run_with_docker(tmp_path / name, docker)
        assert answer.returncode == 1
        assert answer.stderr
        assert base_images(tmp_path / name) == base_images(WORKSPACE)
