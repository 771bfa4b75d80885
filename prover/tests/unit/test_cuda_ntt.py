"""Transforms of the device and its quotient polynomial, run by the host, against polynomials over Python's integers."""

from __future__ import annotations

import random
from typing import Any

import cffi
import pytest
from kernel_library import R

ROOT_28 = 19103219067921713944291392827692070036145651957329286315305642004821462161904
MONTGOMERY = 1 << 256
INVERSE, FORWARD, FORWARD_TO_COSET = 0, 1, 2
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

ffi = cffi.FFI()
ffi.cdef("""
typedef struct { uint32_t log2, last_levels, levels, order, transforms; } t_ntt_shape;
int32_t t_cuda_ntt(uint8_t *values, const uint8_t *table, const t_ntt_shape *shape, uint32_t step);
int32_t t_cuda_quotient(uint8_t *h, const uint8_t *values, const uint8_t *table, const uint8_t *scale,
                        const t_ntt_shape *shape);
""")


def memory(values: list[int]) -> bytes:
    """Values as device memory holds them."""
    return b"".join((value * MONTGOMERY % R).to_bytes(32, "little") for value in values)


def from_memory(data: bytes) -> list[int]:
    back = pow(MONTGOMERY, -1, R)
    return [int.from_bytes(data[i : i + 32], "little") * back % R for i in range(0, len(data), 32)]


def root(log2: int) -> int:
    return pow(ROOT_28, 1 << (28 - log2), R)


def bit_reversed(values: list[int], log2: int) -> list[int]:
    return [values[int(f"{i:0{log2}b}"[::-1], 2) if log2 else 0] for i in range(len(values))]


def table(log2: int) -> list[int]:
    psi = root(log2 + 1)
    powers = [1]
    for _ in range((1 << log2) - 1):
        powers.append(powers[-1] * psi % R)
    return bit_reversed(powers, log2)


def evaluate(coefficients: list[int], omega: int) -> list[int]:
    """Values on the powers of omega, in natural order: the textbook's recursion."""
    if len(coefficients) == 1:
        return coefficients
    square = omega * omega % R
    even, odd = evaluate(coefficients[::2], square), evaluate(coefficients[1::2], square)
    power, terms = 1, []
    for value in odd:
        terms.append(power * value % R)
        power = power * omega % R
    low = [(u + v) % R for u, v in zip(even, terms, strict=True)]
    return low + [(u - v) % R for u, v in zip(even, terms, strict=True)]


def interpolate(values: list[int], omega: int) -> list[int]:
    inverse = pow(len(values), -1, R)
    return [value * inverse % R for value in evaluate(values, pow(omega, -1, R))]


def shifted(coefficients: list[int], factor: int) -> list[int]:
    """Coefficients of p(factor * X)."""
    power, answer = 1, []
    for c in coefficients:
        answer.append(c * power % R)
        power = power * factor % R
    return answer


def sample(log2: int) -> list[int]:
    generator = random.Random(log2)
    values = [generator.randrange(R) for _ in range(1 << log2)]
    for place, value in enumerate([0, 1, R - 1]):
        if place < len(values):
            values[-1 - place] = value
    return values


def transform(hooks: Any, values: list[int], shape: tuple[int, int, int, int], step: int) -> list[int]:
    buffer = ffi.new("uint8_t[]", memory(values))
    sizes = ffi.new("t_ntt_shape *", (*shape, len(values) >> shape[0]))
    assert hooks.t_cuda_ntt(buffer, memory(table(shape[0])), sizes, step) == 0
    return from_memory(bytes(ffi.buffer(buffer))[: 32 * len(values)])


@any_shape
@pytest.mark.sampled(12, checked=6)
def test_ntt__every_division_into_passes__equals_the_definition(hooks: Any, shape: tuple[int, int, int, int]) -> None:
    log2 = shape[0]
    omega, psi = root(log2), root(log2 + 1)
    coefficients = sample(log2)
    values = evaluate(coefficients, omega)
    stored = bit_reversed(coefficients, log2)
    assert transform(hooks, stored, shape, FORWARD) == values
    assert transform(hooks, values, shape, INVERSE) == [(c << log2) % R for c in stored]
    assert transform(hooks, stored, shape, FORWARD_TO_COSET) == evaluate(shifted(coefficients, psi), omega)


@any_shape
@pytest.mark.sampled(6, checked=4)
def test_ntt__several_at_once__each_is_the_one_alone(hooks: Any, shape: tuple[int, int, int, int]) -> None:
    generator = random.Random(shape[0])
    rows = [sample(shape[0])] + [[generator.randrange(R) for _ in range(1 << shape[0])] for _ in range(2)]
    for step in (INVERSE, FORWARD, FORWARD_TO_COSET):
        together = transform(hooks, [value for row in rows for value in row], shape, step)
        assert together == [value for row in rows for value in transform(hooks, row, shape, step)]


def quotient_by_definition(a: list[int], b: list[int], c: list[int], log2: int) -> list[int]:
    """2n times the coefficients of (A B - C) / (X^n - 1), bit-reversed."""
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
