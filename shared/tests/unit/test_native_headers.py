"""The C headers of shared are self-contained: any service can include one of them first."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

NATIVE = Path(__file__).resolve().parents[2] / "native"
PARTS = {"simd/avx2.h", "simd/avx512.h", "field/element_shared.h"}
"""What simd/lanes.h chooses from, and what field/fr.h includes once it has named the field."""
HEADERS = sorted({str(header.relative_to(NATIVE)) for header in NATIVE.rglob("*.h")} - PARTS)
OF_LANES = ("simd/", "field/lanes52.h", "poseidon/lane")
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
    assert "field/fr.h" in HEADERS


def cases() -> list[tuple[str, str]]:
    """Return every header with every backend that it serves: lanes need AVX2 or AVX-512."""
    return [
        (header, backend)
        for header in HEADERS
        for backend, options in OPTIONS.items()
        if not header.startswith(OF_LANES) or "-mavx512f" in options or "-mavx2" in options
    ]


@pytest.mark.parametrize(("header", "backend"), cases())
def test_native_header__included_first_and_twice__compiles_without_warnings(header: str, backend: str) -> None:
    compiler = shutil.which("cc")
    assert compiler is not None
    answer = subprocess.run(
        [compiler, *WARNINGS, *OPTIONS[backend], "-std=gnu11", "-fsyntax-only", "-I", str(NATIVE), "-x", "c", "-"],
        input=f'#include "{header}"\n#include "{header}"\n',
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
