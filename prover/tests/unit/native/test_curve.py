"""G1 and G2 in XYZZ coordinates against py_ecc, in all backends and in the device code of CUDA."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_library import BACKENDS, Arithmetic, P, R
from reference_curve import (
    G1,
    G2,
    add,
    g1_bytes,
    g1_from_bytes,
    g2_bytes,
    g2_from_bytes,
    multiply,
    negate,
    twist_at,
    word,
)
from sampling import examples


@dataclass(frozen=True)
class Group:
    """A group with the layout of its points in the hooks."""

    name: str
    generator: Any
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
    coordinate_bytes: int


GROUPS = [
    Group("g1", G1, g1_bytes, g1_from_bytes, 32),
    Group("g2", G2, g2_bytes, g2_from_bytes, 64),
]
any_group = pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)

SCALARS = st.one_of(st.sampled_from([0, 1, 2, 3, R - 1, R - 2, (R + 1) // 2]), st.integers(0, R - 1))


@pytest.fixture(scope="module", params=BACKENDS)
def arithmetic(request: pytest.FixtureRequest, testing_library: Path) -> Arithmetic:
    return Arithmetic(testing_library, request.param)


@pytest.fixture(scope="module", params=[*BACKENDS, "cuda"])
def shared_arithmetic(request: pytest.FixtureRequest, testing_library: Path) -> Arithmetic:
    """Of what the device has, too: its code compiled for the host."""
    return Arithmetic(testing_library, request.param)


def draw_scale(data: st.DataObject, group: Group) -> bytes:
    """Return a non-zero field element."""
    first = data.draw(st.integers(1, P - 1))
    return word(first) + (word(data.draw(st.integers(0, P - 1))) if group.coordinate_bytes == 64 else b"")


@any_group
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data(), m=SCALARS, n=SCALARS, relation=st.sampled_from(["any", "equal", "opposite"]))
def test_addition__of_any_two_points__equals_py_ecc(
    shared_arithmetic: Arithmetic, group: Group, data: st.DataObject, m: int, n: int, relation: str
) -> None:
    p = multiply(group.generator, m)
    q = {"any": lambda: multiply(group.generator, n), "equal": lambda: p, "opposite": lambda: negate(p)}[relation]()
    operands = [group.encode(p), group.encode(q), draw_scale(data, group), draw_scale(data, group)]
    size = len(operands[0])
    for hook in ("add", "add_affine"):
        out = shared_arithmetic.compute(f"field_{group.name}_{hook}", *operands, out_bytes=size)
        assert group.decode(out) == add(p, q), hook


@any_group
@settings(max_examples=examples(30), deadline=None)
@given(data=st.data(), m=SCALARS)
def test_doubling_and_negation__of_any_point__equal_py_ecc(
    shared_arithmetic: Arithmetic, group: Group, data: st.DataObject, m: int
) -> None:
    p = multiply(group.generator, m)
    operands = [group.encode(p), group.encode(p), draw_scale(data, group), draw_scale(data, group)]
    size = len(operands[0])
    assert group.decode(shared_arithmetic.compute(f"field_{group.name}_double", *operands, out_bytes=size)) == add(p, p)
    assert group.decode(shared_arithmetic.compute(f"field_{group.name}_neg", *operands, out_bytes=size)) == negate(p)


@any_group
@settings(max_examples=examples(30), deadline=None)
@given(m=SCALARS, n=st.one_of(SCALARS, st.sampled_from([R, R + 1, 2**255, 2**256 - 1])))
def test_multiplication__by_scalars_up_to_256_bits__equals_py_ecc(
    shared_arithmetic: Arithmetic, group: Group, m: int, n: int
) -> None:
    p = group.encode(multiply(group.generator, m))
    out = shared_arithmetic.compute(f"field_{group.name}_mul", p, word(n), out_bytes=len(p))
    assert group.decode(out) == multiply(group.generator, m * n % R)


@any_group
def test_on_curve__points_of_the_curve_and_others__are_distinguished(arithmetic: Arithmetic, group: Group) -> None:
    name = f"field_{group.name}_on_curve"
    point = group.encode(multiply(group.generator, 12345))
    assert arithmetic.predicate(name, point)
    for place in range(31, len(point), 32):
        changed = bytearray(point)
        changed[place] ^= 1
        assert not arithmetic.predicate(name, bytes(changed))
    assert not arithmetic.predicate(name, bytes(len(point))), "infinity has no affine coordinates"


@settings(max_examples=examples(20), deadline=None)
@given(x=st.tuples(st.integers(0, P - 1), st.integers(0, P - 1)))
def test_on_curve__points_of_the_twist_outside_the_group__are_on_it(arithmetic: Arithmetic, x: tuple[int, int]) -> None:
    point = twist_at(x)
    if point is not None:
        assert arithmetic.predicate("field_g2_on_curve", g2_bytes(point))
