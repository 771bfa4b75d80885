"""Transforms of the device and its quotient polynomial, run by the host, against polynomials over Python's integers."""

from __future__ import annotations

import random
from typing import Any

import pytest
from device_hooks import (
    FORWARD,
    FORWARD_TO_COSET,
    INVERSE,
    bit_reversed,
    evaluate,
    ffi,
    from_memory,
    interpolate,
    memory,
    require_transforms,
    root,
    sample,
    shifted,
    table,
    transform,
)
from kernel_library import R

# Logarithm of the size; levels of the last pass and, at most, of the others (0: the plan's choice); order of threads.
SHAPES = [
    (0, 0, 0, 0),
    (1, 10, 8, 1),
    (2, 1, 1, 0),
    (3, 3, 1, 1),
    (6, 2, 1, 0),
    (6, 1, 2, 1),
    (7, 3, 4, 0),
    (8, 4, 3, 1),
    (9, 1, 8, 0),
    (10, 0, 0, 0),
    (11, 0, 0, 1),
    (12, 0, 0, 0),
]
any_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)


@any_shape
@pytest.mark.sampled(12, checked=6)
def test_ntt__every_division_into_passes__equals_the_definition(hooks: Any, shape: tuple[int, int, int, int]) -> None:
    require_transforms(hooks, shape)


@any_shape
@pytest.mark.sampled(6, checked=4)
def test_ntt__several_at_once__each_is_the_one_alone(hooks: Any, shape: tuple[int, int, int, int]) -> None:
    generator = random.Random(shape[0])
    rows = [sample(shape[0])] + [[generator.randrange(R) for _ in range(1 << shape[0])] for _ in range(2)]
    for step in (INVERSE, FORWARD, FORWARD_TO_COSET):
        together = transform(hooks, [value for row in rows for value in row], shape, step)
        assert together == [value for row in rows for value in transform(hooks, row, shape, step)]


def quotient_by_definition(a: list[int], b: list[int], c: list[int], log2: int) -> list[int]:
    """Return 2n times the coefficients of (A B - C) / (X^n - 1), bit-reversed."""
    n, omega, psi = 1 << log2, root(log2), root(log2 + 1)
    on_coset = [evaluate(shifted(interpolate(v, omega), psi), omega) for v in (a, b, c)]
    # X^n - 1 = -2 on the coset.
    quotients = [(z - x * y) * pow(2, -1, R) % R for x, y, z in zip(*on_coset, strict=True)]
    h = shifted(interpolate(quotients, omega), pow(psi, -1, R))
    return [2 * n * value % R for value in bit_reversed(h, log2)]


@any_shape
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.sampled(12, checked=6)
def test_quotient__of_satisfied_constraints__divides_by_the_vanishing_polynomial(
    hooks: Any, shape: tuple[int, int, int, int], count: int
) -> None:
    log2 = shape[0]
    n = 1 << log2
    generator = random.Random(count)
    a_rows = [sample(log2)] + [[generator.randrange(R) for _ in range(n)] for _ in range(count - 1)]
    b_rows = [row[::-1] for row in a_rows]
    c_rows = [[x * y % R for x, y in zip(a, b, strict=True)] for a, b in zip(a_rows, b_rows, strict=True)]
    values = memory([value for rows in (a_rows, b_rows, c_rows) for row in rows for value in row])
    out = ffi.new("uint8_t[]", 32 * n * count)
    sizes = ffi.new("t_ntt_shape *", (*shape, count))
    assert hooks.t_cuda_quotient(out, values, memory(table(log2)), memory([pow(n, -2, R)]), sizes) == 0
    expected = [quotient_by_definition(*rows, log2) for rows in zip(a_rows, b_rows, c_rows, strict=True)]
    assert from_memory(bytes(ffi.buffer(out))) == [value for row in expected for value in row]
