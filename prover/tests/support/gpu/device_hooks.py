"""Sums and transforms of the CUDA code, run by the host, and what they must be: points and polynomials in Python.

A module that uses them has the fixture ``hooks`` by importing ``ffi``.
"""

from __future__ import annotations

import ast
import random
import re
from pathlib import Path
from typing import Any

import cffi
from kernel_library import P, R
from reference_curve import G1, G2, multiply

FORWARDS, BACKWARDS = 0, 1
INVERSE, FORWARD, FORWARD_TO_COSET = 0, 1, 2
MONTGOMERY = 1 << 256
ROOT_28 = 19103219067921713944291392827692070036145651957329286315305642004821462161904

ffi = cffi.FFI()
ffi.cdef("""
typedef struct { uint32_t count, first_list, window_bits, sets, order, multiplications, room; } t_msm_shape;
int32_t t_cuda_digits(int32_t *digits, const uint8_t *values, uint32_t count, uint32_t window_bits);
int32_t t_cuda_msm_g1(uint8_t *out, const uint8_t *points, const uint8_t *values, const t_msm_shape *shape);
int32_t t_cuda_msm_g2(uint8_t *out, const uint8_t *points, const uint8_t *values, const t_msm_shape *shape);
typedef struct { uint32_t log2, last_levels, levels, order, transforms; } t_ntt_shape;
int32_t t_cuda_ntt(uint8_t *values, const uint8_t *table, const t_ntt_shape *shape, uint32_t step);
int32_t t_cuda_quotient(uint8_t *h, const uint8_t *values, const uint8_t *table, const uint8_t *scale,
                        const t_ntt_shape *shape);
int32_t t_cuda_tune(const char *text, char *message);
typedef struct {
    uint32_t window, sets, low_bits, tile, piece, threads, joins, reduce, level;
    uint32_t ntt_passes, ntt_first, ntt_last, ntt_columns, ntt_threads;
} t_choices;
int32_t t_cuda_choices(t_choices *choices, const t_msm_shape *shape, uint32_t log2);
""")


def montgomery(value: int, modulus: int) -> bytes:
    """Return a value as device memory holds it."""
    return (value * MONTGOMERY % modulus).to_bytes(32, "little")


def odd_tunings() -> tuple[str, ...]:
    """Return the texts of gpu_tunings.h."""
    header = Path(__file__).resolve().parents[3] / "native/tests/gpu/gpu_tunings.h"
    found = re.search(r"ODD_TUNING\[\] = \{(.*?)\};", header.read_text(), re.DOTALL)
    assert found is not None
    texts: tuple[str, ...] = ast.literal_eval("(" + re.sub(r"/\*.*?\*/", "", found[1]) + ")")
    return texts


# ---- sums ------------------------------------------------------------------------------------------


class Group:
    """A group of the curve; ``width`` bytes a point."""

    def __init__(self, name: str, generator: Any, width: int) -> None:
        self.name, self.generator, self.width = name, generator, width
        self.cache: dict[int, bytes] = {}

    def point(self, exponent: int) -> bytes:
        """Return a multiple of the generator as device memory holds it."""
        if exponent not in self.cache:
            point = multiply(self.generator, exponent % R)
            coordinates: list[Any] = [0] * (self.width // 32) if point is None else list(point)
            flat = [c for value in coordinates for c in (value if isinstance(value, tuple) else (value,))]
            self.cache[exponent] = b"".join(montgomery(c, P) for c in flat)
        return self.cache[exponent]


GROUPS = [Group("g1", G1, 64), Group("g2", G2, 128)]


def scalar_bytes(scalars: list[int]) -> bytes:
    """Return scalars as device memory holds them."""
    return b"".join(montgomery(s, R) for s in scalars)


def sums_on_device(
    hooks: Any,
    group: Group,
    exponents: list[int],
    rows: list[list[int]],
    shape: tuple[int, int, int],
    first_list: int,
    room: int,
) -> list[bytes]:
    """Return multiplications with the same bases, one for each row of scalars, in memory for `room` of them."""
    out = ffi.new("uint8_t[]", group.width * len(rows))
    points = b"".join(group.point(e) for e in exponents)
    values = b"".join(scalar_bytes(scalars) for scalars in rows)
    sizes = ffi.new("t_msm_shape *", (len(exponents), first_list, *shape, len(rows), room))
    assert getattr(hooks, f"t_cuda_msm_{group.name}")(out, points, values, sizes) == 0
    data = bytes(ffi.buffer(out))
    return [data[i : i + group.width] for i in range(0, len(data), group.width)]


def expected_sum(group: Group, exponents: list[int], scalars: list[int], first_list: int) -> bytes:
    """Return the hook turns the order of the second list's scalars around."""
    count = len(scalars)
    taken = scalars[:first_list] + [scalars[count - 1 - i] for i in range(count - first_list)]
    return group.point(sum(e * s for e, s in zip(exponents, taken, strict=True)) % R)


# ---- transforms ------------------------------------------------------------------------------------


def memory(values: list[int]) -> bytes:
    """Return values as device memory holds them."""
    return b"".join(montgomery(value, R) for value in values)


def from_memory(data: bytes) -> list[int]:
    """Return the reverse."""
    back = pow(MONTGOMERY, -1, R)
    return [int.from_bytes(data[i : i + 32], "little") * back % R for i in range(0, len(data), 32)]


def root(log2: int) -> int:
    """Return a root of unity of order 2^log2."""
    return pow(ROOT_28, 1 << (28 - log2), R)


def bit_reversed(values: list[int], log2: int) -> list[int]:
    """Return values in the order of their reversed numbers."""
    return [values[int(f"{i:0{log2}b}"[::-1], 2) if log2 else 0] for i in range(len(values))]


def table(log2: int) -> list[int]:
    """Return the roots that a prepared key has."""
    psi = root(log2 + 1)
    powers = [1]
    for _ in range((1 << log2) - 1):
        powers.append(powers[-1] * psi % R)
    return bit_reversed(powers, log2)


def evaluate(coefficients: list[int], omega: int) -> list[int]:
    """Return values on the powers of omega, in natural order: the textbook's recursion."""
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
    """Return the coefficients that have these values."""
    inverse = pow(len(values), -1, R)
    return [value * inverse % R for value in evaluate(values, pow(omega, -1, R))]


def shifted(coefficients: list[int], factor: int) -> list[int]:
    """Return coefficients of p(factor * X)."""
    power, answer = 1, []
    for c in coefficients:
        answer.append(c * power % R)
        power = power * factor % R
    return answer


def sample(log2: int) -> list[int]:
    """Return random values, the last ones 0, 1 and -1."""
    generator = random.Random(log2)
    values = [generator.randrange(R) for _ in range(1 << log2)]
    for place, value in enumerate([0, 1, R - 1]):
        if place < len(values):
            values[-1 - place] = value
    return values


def transform(hooks: Any, values: list[int], shape: tuple[int, int, int, int], step: int) -> list[int]:
    """Return as many transforms as the values are."""
    buffer = ffi.new("uint8_t[]", memory(values))
    sizes = ffi.new("t_ntt_shape *", (*shape, len(values) >> shape[0]))
    assert hooks.t_cuda_ntt(buffer, memory(table(shape[0])), sizes, step) == 0
    return from_memory(bytes(ffi.buffer(buffer))[: 32 * len(values)])


def require_transforms(hooks: Any, shape: tuple[int, int, int, int]) -> None:
    """Compare every step of a transform with its definition."""
    log2 = shape[0]
    omega, psi = root(log2), root(log2 + 1)
    coefficients = sample(log2)
    values = evaluate(coefficients, omega)
    stored = bit_reversed(coefficients, log2)
    assert transform(hooks, stored, shape, FORWARD) == values
    assert transform(hooks, values, shape, INVERSE) == [(c << log2) % R for c in stored]
    assert transform(hooks, stored, shape, FORWARD_TO_COSET) == evaluate(shifted(coefficients, psi), omega)
