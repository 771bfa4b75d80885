"""The C headers of the floor stand on their own: any service can include one of them first."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

NATIVE = Path(__file__).resolve().parents[2] / "native"
HEADERS = sorted(NATIVE.glob("*.h"))
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]


def test_native_folder__always__has_the_field_header() -> None:
    assert "fr.h" in {header.name for header in HEADERS}


@pytest.mark.parametrize("backend", ["portable", "adx"])
@pytest.mark.parametrize("header", HEADERS, ids=lambda header: header.name)
def test_native_header__included_first_and_twice__compiles_without_warnings(header: Path, backend: str) -> None:
    compiler = shutil.which("cc")
    assert compiler is not None
    options = ["-DMONT256_ADX=1"] if backend == "adx" else []
    answer = subprocess.run(
        [compiler, *WARNINGS, *options, "-std=gnu11", "-fsyntax-only", "-I", str(NATIVE), "-x", "c", "-"],
        input=f'#include "{header.name}"\n#include "{header.name}"\n',
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
