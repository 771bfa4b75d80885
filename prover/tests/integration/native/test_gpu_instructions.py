"""Bounds for the instructions that the compiler makes of the GPU's kernels, and the compiler that is used."""

from __future__ import annotations

from pathlib import Path

import pytest
from cuda_compiler import provide, unavailable
from gpu_counts import CompilerUnavailable, Counts, counts


@pytest.fixture(scope="module")
def counted() -> dict[str, Counts]:
    """Counts of the kernels as the compiler of the lock compiles them."""
    try:
        return counts()
    except CompilerUnavailable as error:
        unavailable(str(error))
        raise


# A bound is the count of compiler 13.0.88, and a fiftieth. A loop is an addition to a bucket, or a phase of a pass.
# More wide multiply-adds are more time; spills within a loop cost more than they count.
@pytest.mark.parametrize(
    ("kernel", "loop", "wide", "code_bytes", "registers", "local"),
    [
        ("product", 0, 121, 3_584, 40, 0),
        ("g1_msm_accumulate", 2_209, 1_202, 68_096, 128, 0),
        ("g2_msm_accumulate", 6_612, 3_362, 198_016, 254, 16),
        ("ntt_pass", 3_533, 1_680, 57_344, 96, 0),
    ],
)
def test_kernel__as_compiled_for_sm_90__has_no_more_instructions_registers_and_spills_than_its_bound(
    counted: dict[str, Counts], kernel: str, loop: int, wide: int, code_bytes: int, registers: int, local: int
) -> None:
    found = counted[kernel]
    found_wide = found.loop_wide if loop else found.wide
    assert loop * 0.5 <= found.loop <= loop * 1.02
    assert wide * 0.5 <= found_wide <= wide * 1.02
    assert found.code_bytes <= code_bytes * 1.02
    assert found.registers <= registers
    assert found.loop_local <= local


def test_compiler__none_on_the_path__is_that_of_the_packages_with_its_libraries(counted: dict[str, Counts]) -> None:
    answer = provide(PATH="/usr/bin:/bin", NVCC="", LIBRARY_PATH="/before")
    assert answer.returncode == 0, answer.stderr
    compiler, libraries = answer.stdout.splitlines()
    assert compiler.endswith("/nvidia/cu13/bin/nvcc")
    assert libraries.split(":") == [str(Path(compiler).parents[1] / "lib"), "/before"]


def test_compiler__named_and_missing__is_an_error_that_names_it() -> None:
    answer = provide(NVCC="/nowhere/nvcc")
    assert answer.returncode == 1
    assert "there is no CUDA compiler /nowhere/nvcc" in answer.stderr
