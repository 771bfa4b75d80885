"""Multi-scalar multiplications of the device, run by the host, against py_ecc: points are known multiples."""

from __future__ import annotations

import random
from typing import Any

import pytest
from device_hooks import BACKWARDS, FORWARDS, GROUPS, Group, expected_sum, ffi, scalar_bytes, sums_on_device
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_library import R
from sampling import FULL

# Equal, opposite and repeated bases make buckets double and cancel; 0 is infinity.
EXPONENTS = [1, 1, R - 1, 2, R - 2, 3, 1, R - 1, 5, 5, 7, 0]
EDGE_SCALARS = [0, 1, 2, R - 1, R - 2, (R - 1) // 2, 2**127, 2**128 - 1, 2**253, 2**253 + 1, 0x8000, 3]
# Window bits, bucket sets (0: no table), threads' order.
SHAPES = [(2, 0, 0), (3, 1, 1), (5, 7, 0), (9, 3, 1), (11, 0, 0), (0, 0, 1)]

any_group = pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)


def sum_on_device(
    hooks: Any, group: Group, exponents: list[int], scalars: list[int], shape: tuple[int, int, int], first_list: int
) -> bytes:
    [answer] = sums_on_device(hooks, group, exponents, [scalars], shape, first_list, 1)
    return answer


@settings(max_examples=60, deadline=None)
@given(
    scalars=st.lists(st.one_of(st.sampled_from(EDGE_SCALARS), st.integers(0, R - 1)), min_size=1, max_size=5),
    bits=st.integers(2, 23),
)
def test_digits__any_window__recombine_and_stay_in_range(hooks: Any, scalars: list[int], bits: int) -> None:
    count = len(scalars)
    digits = ffi.new("int32_t[]", 128 * count)
    windows = hooks.t_cuda_digits(digits, scalar_bytes(scalars), count, bits)
    assert windows == -(-255 // bits)
    for i, scalar in enumerate(scalars):
        own = [int(digits[w * count + i]) for w in range(windows)]
        assert all(-(2 ** (bits - 1)) <= digit < 2 ** (bits - 1) for digit in own)
        assert sum(digit << (bits * w) for w, digit in enumerate(own)) == scalar


@pytest.mark.parametrize(
    ("group", "shape"),
    # Both groups have one text, in G2 three times as slow.
    [(GROUPS[0], shape) for shape in SHAPES] + [(GROUPS[1], shape) for shape in (SHAPES if FULL else SHAPES[1::2])],
    ids=lambda value: value.name if isinstance(value, Group) else str(value),
)
@pytest.mark.sampled(5, checked=2)
def test_msm__every_shape_and_edge_scalars__equals_py_ecc(
    hooks: Any, group: Group, shape: tuple[int, int, int]
) -> None:
    count = len(EXPONENTS)
    cases = [(EDGE_SCALARS, 0), (EDGE_SCALARS, 5), ([1] * count, 5), ([R - 1] * count, 0), ([0] * count, 5)]
    for scalars, first_list in cases:
        answer = sum_on_device(hooks, group, EXPONENTS, scalars, shape, first_list)
        assert answer == expected_sum(group, EXPONENTS, scalars, first_list)


@any_group
@pytest.mark.parametrize("count", [0, 1, 2, 129])
@pytest.mark.sampled(4, checked=3)
def test_msm__odd_counts__equals_py_ecc(hooks: Any, group: Group, count: int) -> None:
    generator = random.Random(count)
    exponents = [1 + i % 40 for i in range(count)]
    scalars = [generator.randrange(R) for _ in range(count)]
    for shape in ((0, 0, FORWARDS), (6, 1, BACKWARDS), (16, 1, FORWARDS)):
        answer = sum_on_device(hooks, group, exponents, scalars, shape, count // 3)
        assert answer == expected_sum(group, exponents, scalars, count // 3)


@pytest.mark.parametrize("order", [FORWARDS, BACKWARDS])
@pytest.mark.parametrize(("count", "sets"), [(8192 + 90, 0), (300, 13)])
@pytest.mark.sampled(2, checked=1)
def test_msm__more_bases_than_a_tile_or_few_buckets__joins_the_pieces_of_long_ones(
    hooks: Any, order: int, count: int, sets: int
) -> None:
    group, first_list = GROUPS[0], count - 50
    exponents = [1 + i % 7 for i in range(count)]
    scalars = [(1, 1, 1, R - 5, 2**200)[i % 5] for i in range(count)]
    answer = sum_on_device(hooks, group, exponents, scalars, (10, sets, order), first_list)
    assert answer == expected_sum(group, exponents, scalars, first_list)


@pytest.mark.parametrize(
    ("group", "shape", "room"),
    [(GROUPS[0], shape, 5 + i) for i, shape in enumerate(SHAPES)] + [(GROUPS[1], SHAPES[i], 4 + i) for i in (1, 4)],
    ids=lambda value: value.name if isinstance(value, Group) else str(value),
)
@pytest.mark.sampled(4, checked=2)
def test_msm__several_at_once_with_edge_scalars__each_equals_py_ecc(
    hooks: Any, group: Group, shape: tuple[int, int, int], room: int
) -> None:
    """Also in memory for more of them, and with others that are all zero or fall into one bucket."""
    count = len(EXPONENTS)
    rows = [EDGE_SCALARS, [0] * count, [R - 1] * count, EDGE_SCALARS[::-1], [1] * count]
    for some in (rows, rows[:2], rows[4:]):
        answers = sums_on_device(hooks, group, EXPONENTS, some, shape, 5, room)
        assert answers == [expected_sum(group, EXPONENTS, scalars, 5) for scalars in some]


@pytest.mark.parametrize("order", [FORWARDS, BACKWARDS])
@pytest.mark.sampled(1)
def test_msm__several_at_once_over_tiles_and_long_buckets__each_equals_py_ecc(hooks: Any, order: int) -> None:
    group, count = GROUPS[0], 8192 + 30
    exponents = [1 + i % 7 for i in range(count)]
    rows = [[(1, 2**200)[i % 2] for i in range(count)], [3] * count]
    answers = sums_on_device(hooks, group, exponents, rows, (10, 0, order), count - 50, 4)
    assert answers == [expected_sum(group, exponents, scalars, count - 50) for scalars in rows]
