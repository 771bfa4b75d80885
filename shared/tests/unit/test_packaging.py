"""The wheel carries the C headers, so that a service can be built where this tree is not."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

SHARED = Path(__file__).resolve().parents[2]


def test_wheel__built_from_the_tree__carries_every_header(tmp_path: Path) -> None:
    # A build folder of its own, since runs may overlap, and without the optimiser, which takes most of a minute.
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--quiet", "--no-deps", "--no-build-isolation"]
    settings = [f"--config-settings=build-dir={tmp_path / 'build'}", "--config-settings=cmake.build-type=Debug"]
    answer = subprocess.run(
        [*command, *settings, "--wheel-dir", str(tmp_path), str(SHARED)], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    folder = "data/share/zkc-shared/native/"
    shipped = {name.split(folder)[1] for name in names if folder in name}
    assert shipped == {str(header.relative_to(SHARED / "native")) for header in (SHARED / "native").rglob("*.h")}
    assert "shared/py.typed" in names
