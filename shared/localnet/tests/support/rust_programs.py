"""Small programs of published Rust crates, built once per machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from clients import skip_or_fail

from localnet.chain.artefacts import artefacts_folder

SOURCE = Path(__file__).parents[1] / "acceptance" / "rust"
FETCHING, BUILDING = 300, 3000
"""Seconds that a download and a build may take: 600 crates on a busy machine with two cores."""


@cache
def built(name: str) -> Path:
    """Return a program, built if its source has changed; skip where cargo or the crates cannot be had."""
    cargo = shutil.which("cargo")
    if cargo is None:
        skip_or_fail("cargo is not here: the Rust clients are not tested")
    folder = artefacts_folder() / "rust"
    folder.mkdir(parents=True, exist_ok=True)
    for file in [path for path in SOURCE.rglob("*") if path.is_file()]:
        copy = folder / file.relative_to(SOURCE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if not copy.exists() or copy.read_bytes() != file.read_bytes():
            copy.write_bytes(file.read_bytes())
    environment = {"CARGO_BUILD_JOBS": "1", **os.environ}
    command = ["nice", "-n", "15", str(cargo)]
    fetched = subprocess.run(
        [*command, "fetch"], cwd=folder, env=environment, capture_output=True, text=True, timeout=FETCHING
    )
    if fetched.returncode:
        skip_or_fail(f"the crates cannot be downloaded, the Rust clients are not tested: {fetched.stderr[-300:]}")
    done = subprocess.run(
        [*command, "build", "--offline", "--bin", name],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=BUILDING,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    target = Path(environment.get("CARGO_TARGET_DIR", folder / "target"))
    return target / "debug" / name
