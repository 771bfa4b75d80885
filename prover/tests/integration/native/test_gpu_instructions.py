"""Bounds for the instructions that the compiler makes of the GPU's kernels, and the compiler that is used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cuda_compiler import provide
from gpu_counts import CompilerUnavailable, Counts, counts
from skipping import skip_or_fail

MODEL = Path(__file__).resolve().parents[3] / "bench/gpu/model.h"


@pytest.fixture(scope="module")
def counted() -> dict[str, Counts]:
    """Counts of the kernels as the compiler of the lock compiles them."""
    try:
        return counts()
    except CompilerUnavailable as error:
        skip_or_fail(str(error))


def slots(name: str) -> float:
    """Return the slots of a kernel by which times are predicted."""
    found = re.search(rf"^#define MODEL_{name} ([0-9.]+)$", MODEL.read_text(), re.MULTILINE)
    assert found
    return float(found[1])


# A bound is the count of compiler 13.0.88, and a fiftieth. A loop is an addition to a bucket, or a phase of a pass.
# More of the multipliers' slots are more time; spills within a loop cost more than they count.
@pytest.mark.parametrize(
    ("kernel", "loop", "slots", "code_bytes", "registers", "local"),
    [
        ("product", 0, slots("PRODUCT"), 3_584, 40, 0),
        ("g1_msm_accumulate", 2_294, slots("G1_ADD"), 71_424, 128, 13),
        ("g2_msm_accumulate", 6_642, slots("G2_ADD"), 198_528, 254, 16),
        ("g2_msm_accumulate_small", 1_919, 530, 75_648, 255, 20),  # without the products, which are calls
        ("g2_msm_accumulate_halves", 4_706, slots("G2_HALVES_ADD") / 2, 157_312, 128, 42),
        ("ntt_pass", 3_533, 1_848, 57_344, 96, 0),
    ],
)
def test_kernel__as_compiled_for_sm_90__has_no_more_instructions_registers_and_spills_than_its_bound(
    counted: dict[str, Counts], kernel: str, loop: int, slots: float, code_bytes: int, registers: int, local: int
) -> None:
    found = counted[kernel]
    found_slots = found.loop_slots if loop else found.slots
    assert loop * 0.5 <= found.loop <= loop * 1.02
    assert slots * 0.5 <= found_slots <= slots * 1.02
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
