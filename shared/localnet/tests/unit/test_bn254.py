"""Multiples of points against the group law, and pairs of scalars that add up to it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localnet.chain.bn254 import (
    G1_GENERATOR,
    PointInvalid,
    g1_add,
    g1_mul,
)
from shared.trees.field import BASE_MODULUS as P
from shared.trees.field import SCALAR_MODULUS as R

scalars = st.integers(1, R - 1) | st.sampled_from([1, 2, 3, R - 1, R - 2])


@given(scalars, scalars)
@settings(max_examples=25, deadline=None)
def test_multiples__of_two_scalars__add_up_to_that_of_their_sum(left: int, right: int) -> None:
    if (left + right) % R:
        assert g1_add(g1_mul(G1_GENERATOR, left), g1_mul(G1_GENERATOR, right)) == g1_mul(G1_GENERATOR, left + right)
    point = g1_mul(G1_GENERATOR, left)
    assert g1_mul(point, right) == g1_mul(G1_GENERATOR, left * right)
    assert (point[1] ** 2 - point[0] ** 3 - 3) % P == 0


def test_multiples__small_and_negative__are_repeated_sums() -> None:
    total = G1_GENERATOR
    for scalar in range(2, 8):
        total = g1_add(total, G1_GENERATOR) or total
        assert g1_mul(G1_GENERATOR, scalar) == total
    assert g1_mul(G1_GENERATOR, R - 1) == (1, P - 2)


@pytest.mark.parametrize("scalar", [0, R, -R])
def test_multiples__point_at_infinity__is_refused(scalar: int) -> None:
    with pytest.raises(PointInvalid, match="infinity"):
        g1_mul(G1_GENERATOR, scalar)
