"""Pairings against py_ecc, in both backends."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_library import BACKENDS, Arithmetic, P, R
from py_ecc import optimized_bn128 as bn
from reference_curve import (
    COFACTOR_G2,
    G1,
    G2,
    fp2_inverse,
    fq12_bytes,
    fq12_from_bytes,
    g1_bytes,
    g1_from_bytes,
    g2_bytes,
    g2_from_bytes,
    multiply,
    negate,
    to_py_ecc,
    twist_at,
)
from sampling import examples

ONE = bn.FQ12.one()
SCALARS = st.integers(1, R - 1)


@pytest.fixture(scope="module", params=BACKENDS)
def arithmetic(request: pytest.FixtureRequest, testing_library: Path) -> Arithmetic:
    return Arithmetic(testing_library, request.param)


def product(arithmetic: Arithmetic, *pairs: tuple[Any, Any]) -> Any:
    """Return the kernel's product of pairings."""
    operands = [part for p, q in pairs for part in (g1_bytes(p), g2_bytes(q))]
    return fq12_from_bytes(arithmetic.compute("pairing_product", *operands, out_bytes=384))


def test_generators__are_those_of_the_curve(arithmetic: Arithmetic) -> None:
    out = arithmetic.compute("pairing_generators", out_bytes=192)
    assert (g1_from_bytes(out), g2_from_bytes(out[64:])) == (G1, G2)


@cache
def expected_pairing(m: int, n: int) -> Any:
    """Return the pairing of two multiples by py_ecc, once for all backends: it takes most of a test's time."""
    return bn.pairing(to_py_ecc(multiply(G2, n)), to_py_ecc(multiply(G1, m)))


@pytest.mark.parametrize(("m", "n"), [(1, 1), (123456789, 1), (1, 987654321), (R - 1, 7)])
def test_pairing__of_multiples_of_the_generators__equals_py_ecc(arithmetic: Arithmetic, m: int, n: int) -> None:
    assert product(arithmetic, (multiply(G1, m), multiply(G2, n))) == expected_pairing(m, n)


@settings(max_examples=examples(20), deadline=None)
@given(m=SCALARS, n=SCALARS)
def test_pairing__of_multiples__is_bilinear(arithmetic: Arithmetic, m: int, n: int) -> None:
    p, q = multiply(G1, m), multiply(G2, n)
    both = product(arithmetic, (p, q))
    assert both == product(arithmetic, (multiply(G1, m * n % R), G2))
    assert both == product(arithmetic, (G1, multiply(G2, m * n % R)))
    assert both != ONE
    assert both**R == ONE


@settings(max_examples=examples(20), deadline=None)
@given(scalars=st.lists(st.tuples(st.integers(0, R - 1), st.integers(0, R - 1)), min_size=0, max_size=4))
def test_product__of_several_pairings__is_the_pairing_of_the_sum(
    arithmetic: Arithmetic, scalars: list[tuple[int, int]]
) -> None:
    pairs = [(multiply(G1, m), multiply(G2, n)) for m, n in scalars]
    total = sum(m * n for m, n in scalars) % R
    assert product(arithmetic, *pairs) == product(arithmetic, (multiply(G1, total), G2))


def test_product__with_infinity_or_opposites__is_one(arithmetic: Arithmetic) -> None:
    p, q = multiply(G1, 31), multiply(G2, 17)
    assert product(arithmetic) == ONE
    assert product(arithmetic, (None, q)) == ONE
    assert product(arithmetic, (p, None)) == ONE
    assert product(arithmetic, (p, q), (negate(p), q)) == ONE
    assert product(arithmetic, (p, q), (p, negate(q))) == ONE


@settings(max_examples=examples(3), deadline=None)
@given(coefficients=st.lists(st.integers(0, P - 1), min_size=12, max_size=12).filter(any))
def test_final_exponentiation__of_any_value__is_the_exact_power(
    arithmetic: Arithmetic, coefficients: list[int]
) -> None:
    value = bn.FQ12(coefficients)
    out = arithmetic.compute("pairing_final_exponentiation", fq12_bytes(value), out_bytes=384)
    assert fq12_from_bytes(out) == value ** ((P**12 - 1) // R)


@settings(max_examples=examples(20), deadline=None)
@given(m=SCALARS)
def test_psi__of_a_point_of_order_r__is_multiplication_by_p(arithmetic: Arithmetic, m: int) -> None:
    point = multiply(G2, m)
    out = arithmetic.compute("pairing_psi", g2_bytes(point), out_bytes=128)
    assert g2_from_bytes(out) == multiply(point, P % R)


def order_divides(point: Any, order: int) -> bool:
    return multiply(point, order) is None


COORDINATES = st.integers(0, P - 1)


@settings(max_examples=examples(15), deadline=None)
@given(places=st.lists(st.tuples(COORDINATES, COORDINATES, st.booleans()), min_size=1, max_size=19))
def test_subgroup_test__of_points_of_the_twist__equals_multiplication_by_r(
    arithmetic: Arithmetic, places: list[tuple[int, int, bool]]
) -> None:
    found = [(twist_at((c0, c1)), cleared) for c0, c1, cleared in places]
    points = [multiply(point, COFACTOR_G2) if cleared else point for point, cleared in found if point is not None]
    answer, _ = arithmetic.answer("encoding_g2_in_subgroup", *map(g2_bytes, points))
    assert [bool(answer >> i & 1) for i in range(len(points))] == [order_divides(point, R) for point in points]


@pytest.mark.unchecked
@pytest.mark.parametrize("order", [10069, 5864401, 10069 * 5864401, 1875725156269, R * 10069])
@pytest.mark.sampled(5)
def test_subgroup_test__of_points_of_small_order__refuses_them(arithmetic: Arithmetic, order: int) -> None:
    small: list[Any] = []
    for i in range(1, 40):
        if len(small) == 5:
            break
        point = twist_at((i, 1))
        projected = None if point is None else multiply(point, COFACTOR_G2 * R // order)
        if projected is not None and not order_divides(projected, R):
            assert order_divides(projected, order)
            small.append(projected)
    assert small
    good = multiply(G2, 5)
    answer, _ = arithmetic.answer("encoding_g2_in_subgroup", *map(g2_bytes, [good, *small, good]))
    assert answer == 1 | 1 << len(small) + 1


def test_twist_coefficient__of_py_ecc__is_the_one_used_here() -> None:
    assert tuple(int(c) for c in bn.b2.coeffs) == tuple(3 * c % P for c in fp2_inverse((9, 1)))
