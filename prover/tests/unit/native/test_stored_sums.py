"""Additions of buckets in lanes against Python's integers: coordinates of any size that memory may hold between rounds.

The formula of a chord takes only coordinates, so they need not be those of points. Stored numbers are x * 2^260
modulo p, not reduced: below 2p + 2^212 (field/fp8_impl.h).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cffi
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_library import P, runs

LIMIT = 2 * P + 2**212
RADIX = pow(2, 260, P)
LOW_LIMBS = 2**208
MOST_PAIRS = 32
# Limbs of ones and zeros, and both sides of the multiples of p that are subtracted.
ONES = LIMIT // LOW_LIMBS * LOW_LIMBS - 1
EDGES = [0, 1, LOW_LIMBS - 1, P - 1, P, P + 1, 2 * P - 1, 2 * P, 2 * P + 1, ONES, LIMIT - 1]

coordinate = st.one_of(st.sampled_from(EDGES), st.integers(0, LIMIT - 1))
Element = tuple[int, ...]


def mul(a: Element, b: Element) -> Element:
    """Return the product in Fp, or in Fp2 where u^2 = -1."""
    if len(a) == 1:
        return (a[0] * b[0] % P,)
    return ((a[0] * b[0] - a[1] * b[1]) % P, (a[0] * b[1] + a[1] * b[0]) % P)


def sub(a: Element, b: Element) -> Element:
    return tuple((x - y) % P for x, y in zip(a, b, strict=True))


def inverse(a: Element) -> Element:
    over_norm = pow(sum(x * x for x in a), -1, P)
    return tuple(x * over_norm * (-1) ** i % P for i, x in enumerate(a))


def chord(x1: Element, y1: Element, x2: Element, y2: Element) -> tuple[Element, Element]:
    slope = mul(sub(y2, y1), inverse(sub(x2, x1)))
    x = sub(sub(mul(slope, slope), x1), x2)
    return x, sub(mul(slope, sub(x1, x)), y1)


@pytest.fixture(scope="module", params=["avx2", "avx512", "ifma"])
def hooks(request: pytest.FixtureRequest, testing_library: Path) -> tuple[Any, Any, str]:
    if not runs(testing_library, request.param):
        pytest.skip(f"the {request.param} backend does not run on this CPU")
    ffi = cffi.FFI()
    for group in ("g1", "g2"):
        ffi.cdef(
            f"int32_t t_stored_sums_{group}_{request.param}"
            "(void *sums, const void *p, const void *q, const uint8_t *signs, uint32_t count);"
        )
    return ffi, ffi.dlopen(str(testing_library)), request.param


@pytest.mark.parametrize("degree", [1, 2])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_stored_sums__any_coordinates_and_signs__are_chords_within_the_bound(
    hooks: tuple[Any, Any, str], degree: int, data: st.DataObject
) -> None:
    ffi, library, backend = hooks
    count = data.draw(st.sampled_from([1, 7, 8, 9, 16, 24, MOST_PAIRS]))
    element = st.tuples(*[coordinate] * degree)
    pair = st.tuples(element, element, element, element, st.integers(0, 3))
    pairs = data.draw(
        st.lists(pair.filter(lambda one: any(sub(one[2], one[0]))), min_size=count, max_size=count), label="pairs"
    )
    first, second = (
        b"".join(number.to_bytes(32, "little") for one in pairs for element in one[at : at + 2] for number in element)
        for at in (0, 2)
    )
    size = 64 * degree
    sums = ffi.new("uint8_t[]", count * size)
    call = getattr(library, f"t_stored_sums_g{degree}_{backend}")
    assert call(sums, first, second, bytes(one[4] for one in pairs), count) == 0
    back = pow(RADIX, -1, P)
    for i, (*numbers, signs) in enumerate(pairs):
        x1, y1, x2, y2 = (tuple(number * back % P for number in element) for element in numbers)
        y1 = tuple(-number % P for number in y1) if signs & 1 else y1
        y2 = tuple(-number % P for number in y2) if signs & 2 else y2
        words = bytes(ffi.buffer(sums, count * size))[i * size : (i + 1) * size]
        found = [int.from_bytes(words[at : at + 32], "little") for at in range(0, size, 32)]
        assert all(number < LIMIT for number in found)
        x, y = chord(x1, y1, x2, y2)
        assert [number * back % P for number in found] == [*x, *y]
