"""Montgomery products of eight elements at once against Python's integers, on raw limbs up to the stated bounds."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_library import Arithmetic, P, runs

LANES = 8
LIMBS = 5
LIMB_BITS = 52
MONTGOMERY = 1 << LIMB_BITS * LIMBS
# Limbs that stress exponents, halves and carries of the floating-point products.
EDGES = [0, 1, 2, 2**26, 2**51 - 1, 2**51, 2**51 + 1, 2**52 - 2, 2**52 - 1]
TOP_LIMB = (16 * P) >> LIMB_BITS * (LIMBS - 1)
P_LIMBS = [P >> LIMB_BITS * i & (1 << LIMB_BITS) - 1 for i in range(LIMBS)]

limb = st.one_of(st.sampled_from(EDGES), st.integers(0, 2**LIMB_BITS - 1))
element = st.one_of(
    st.tuples(limb, limb, limb, limb, st.one_of(st.sampled_from([0, 1, TOP_LIMB]), st.integers(0, TOP_LIMB))),
    st.sampled_from([(0,) * LIMBS, tuple(P_LIMBS), (P_LIMBS[0] - 1, *P_LIMBS[1:]), (1, 0, 0, 0, 0)]),
)
vector = st.lists(element, min_size=LANES, max_size=LANES)
# Coefficients of Fp2 by the names of field/fp82_impl.h: wide ones are below 7.4p, differences below 6.1p.
WIDE, DIFFERENCE = 74 * P // 10, 61 * P // 10


def coefficients(bound: int) -> st.SearchStrategy[list[int]]:
    edges = [0, 1, P - 1, P, P + 1, 2 * P, 4 * P, bound - 1]
    return st.lists(st.one_of(st.sampled_from(edges), st.integers(0, bound - 1)), min_size=LANES, max_size=LANES)


@pytest.fixture(scope="module", params=["avx2", "avx512", "ifma"])
def arithmetic(request: pytest.FixtureRequest, testing_library: Path) -> Arithmetic:
    if not runs(testing_library, request.param):
        pytest.skip(f"the {request.param} backend does not run on this CPU")
    return Arithmetic(testing_library, request.param)


def value(limbs: tuple[int, ...]) -> int:
    return sum(part << LIMB_BITS * i for i, part in enumerate(limbs))


@settings(max_examples=200, deadline=None)
@given(operands=st.lists(vector, min_size=4, max_size=4))
def test_products__any_limbs__are_exact_normalised_and_within_their_bound(
    arithmetic: Arithmetic, operands: list[list[tuple[int, ...]]]
) -> None:
    packed = b"".join(struct.pack("<5Q", *limbs) for operand in operands for limbs in operand)
    size = 8 * LIMBS * LANES
    out = arithmetic.compute("lanes_products", packed, out_bytes=7 * size)
    for lane in range(LANES):
        a, b, c, d = (value(operand[lane]) for operand in operands)
        for number, exact in enumerate((a * b, a * a, a * b + c * d, a * b, c * d, a * a, c * c)):
            limbs = struct.unpack_from("<5Q", out, number * size + 8 * LIMBS * lane)
            assert all(part < 2**LIMB_BITS for part in limbs)
            assert value(limbs) * MONTGOMERY % P == exact % P
            assert value(limbs) <= P + exact // MONTGOMERY


def split(number: int) -> tuple[int, ...]:
    return tuple(number >> LIMB_BITS * i & 2**LIMB_BITS - 1 for i in range(LIMBS))


@settings(max_examples=200, deadline=None)
@given(
    a=st.tuples(coefficients(WIDE), coefficients(WIDE)), b=st.tuples(coefficients(DIFFERENCE), coefficients(DIFFERENCE))
)
def test_fp2_products__any_coefficients__are_exact_normalised_and_within_their_bound(
    arithmetic: Arithmetic, a: tuple[list[int], list[int]], b: tuple[list[int], list[int]]
) -> None:
    packed = b"".join(struct.pack("<5Q", *split(number)) for operand in (*a, *b) for number in operand)
    size = 8 * LIMBS * LANES
    out = arithmetic.compute("lanes_fp2_products", packed, out_bytes=2 * size)
    for lane in range(LANES):
        (a0, a1), (b0, b1) = (a[0][lane], a[1][lane]), (b[0][lane], b[1][lane])
        exact = (a0 * b0 - a1 * b1, a0 * b1 + a1 * b0)
        for number, expected in enumerate(exact):
            limbs = struct.unpack_from("<5Q", out, number * size + 8 * LIMBS * lane)
            assert all(part < 2**LIMB_BITS for part in limbs)
            assert value(limbs) * MONTGOMERY % P == expected % P
            assert value(limbs) < WIDE


@pytest.mark.unchecked
@pytest.mark.skipif(not shutil.which("objdump"), reason="objdump is missing")
def test_products__compiled__are_in_no_function_that_changes_the_rounding_mode(testing_library: Path) -> None:
    """A compiler may move a product over a change of the mode, but not out of a function (simd/lanes.h)."""
    command = ["objdump", "--disassemble", "--no-show-raw-insn", str(testing_library)]
    code = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    functions = [function for function in re.split(r"\n(?=[0-9a-f]+ <)", code) if "ldmxcsr" in function]
    if not functions:
        pytest.skip("no backend with AVX2 is compiled")
    assert [function.splitlines()[0] for function in functions if re.search(r"\tvfn?m(add|sub)", function)] == []
