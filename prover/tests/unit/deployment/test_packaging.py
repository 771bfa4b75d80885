"""The wheel carries the files that are not Python."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

PROVER = Path(__file__).resolve().parents[3]


def test_wheel__built_from_the_tree__carries_scripts_and_digests(tmp_path: Path) -> None:
    # Without the kernel, which takes minutes and matters to none of these files.
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--quiet", "--no-deps", "--no-build-isolation"]
    without_kernel = ["--config-settings=wheel.cmake=false", "--config-settings=wheel.py-api=py3"]
    answer = subprocess.run(
        [*command, *without_kernel, "--wheel-dir", str(tmp_path), str(PROVER)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    source = PROVER / "src"
    scripts = {str(path.relative_to(source)) for path in source.glob("prover/queue/lua/*.lua")}
    assert scripts
    assert scripts <= names
    assert "prover/keys/catalogue/published_keys.json" in names
    assert "prover/py.typed" in names
