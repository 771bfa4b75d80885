"""The C headers of the floor stand on their own: any service can include one of them first."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

NATIVE = Path(__file__).resolve().parents[2] / "native"
PARTS = {"lanes_avx2.h", "lanes_avx512.h"}
"""What lanes.h chooses from."""
HEADERS = sorted(header for header in NATIVE.glob("*.h") if header.name not in PARTS)
LANES = ["-DMONT256_ADX=1", "-mavx512f", "-mavx512dq", "-mavx512vl", "-mbmi2"]
OPTIONS = {
    "portable": [],
    "adx": ["-DMONT256_ADX=1"],
    "avx2": ["-DMONT256_ADX=1", "-DLANES_AVX2=1", "-mavx2", "-mfma", "-mbmi2", "-frounding-math"],
    "avx512": LANES,
    "ifma": [*LANES, "-mavx512ifma", "-DLANES_IFMA=1"],
}
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]


def test_native_folder__always__has_the_field_header() -> None:
    assert "fr.h" in {header.name for header in HEADERS}


def cases() -> list[tuple[Path, str]]:
    """Every header with every backend that it serves: lanes need AVX2 or AVX-512."""
    return [
        (header, backend)
        for header in HEADERS
        for backend, options in OPTIONS.items()
        if "lanes" not in header.name or "-mavx512f" in options or "-mavx2" in options
    ]


@pytest.mark.parametrize(("header", "backend"), cases(), ids=lambda part: part if isinstance(part, str) else part.name)
def test_native_header__included_first_and_twice__compiles_without_warnings(header: Path, backend: str) -> None:
    compiler = shutil.which("cc")
    assert compiler is not None
    answer = subprocess.run(
        [compiler, *WARNINGS, *OPTIONS[backend], "-std=gnu11", "-fsyntax-only", "-I", str(NATIVE), "-x", "c", "-"],
        input=f'#include "{header.name}"\n#include "{header.name}"\n',
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
