"""The compiled program of the forester's tests is that of its source."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "support" / "build_test_program.py"


@pytest.mark.skipif(shutil.which("bpf-gcc") is None, reason="gcc for BPF is not here: apt-get install gcc-bpf")
def test_program__compiled_again__is_the_stored_one() -> None:
    script = runpy.run_path(str(SCRIPT))
    assert script["built"]() == script["OUTPUT"].read_text()
