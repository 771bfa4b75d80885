"""Transforms against their definition, in Python integers."""

from __future__ import annotations

import random
from typing import Any

import cffi
import pytest

R = 21888242871839275222246405745257275088548364400416034343698204186575808495617
ROOT_28 = 19103219067921713944291392827692070036145651957329286315305642004821462161904
BACKENDS = ("portable", "adx", "avx2", "avx512", "ifma")
INVERSE, FORWARD, TO_COSET = 0, 1, 2

ffi = cffi.FFI()
for backend_name in BACKENDS:
    ffi.cdef(
        f"int32_t t_ntt_{backend_name}(uint8_t *values, uint32_t log2, uint32_t step);"
        f"int32_t t_ntt_table_in_parts_{backend_name}(uint32_t log2, uint32_t part);"
        f"void t_ntt_psi_{backend_name}(uint8_t *out, uint32_t log2);"
    )


def transform(hooks: Any, backend: str, values: list[int], log2: int, *steps: int) -> list[int]:
    buffer = ffi.new("uint8_t[]", b"".join(v.to_bytes(32, "big") for v in values))
    for step in steps:
        assert getattr(hooks, f"t_ntt_{backend}")(buffer, log2, step) == 0
    data = bytes(ffi.buffer(buffer))
    return [int.from_bytes(data[32 * i : 32 * i + 32], "big") for i in range(len(values))]


def bit_reversed(values: list[int], log2: int) -> list[int]:
    return [values[int(f"{i:0{log2}b}"[::-1], 2) if log2 else 0] for i in range(len(values))]


def evaluate(coefficients: list[int], shift: int, omega: int) -> list[int]:
    values, point = [], shift
    for _ in coefficients:
        total = 0
        for c in reversed(coefficients):
            total = (total * point + c) % R
        values.append(total)
        point = point * omega % R
    return values


def sample(log2: int) -> list[int]:
    generator = random.Random(log2)
    values = [generator.randrange(R) for _ in range(1 << log2)]
    for place, value in enumerate([0, 1, R - 1]):
        if place < len(values):
            values[-1 - place] = value
    return values


@pytest.mark.parametrize("log2", range(9))
def test_ntt__small_sizes__equal_the_definition(hooks: Any, backend: str, log2: int) -> None:
    n = 1 << log2
    omega = pow(ROOT_28, 1 << (28 - log2), R)
    psi = pow(ROOT_28, 1 << (28 - log2 - 1), R)
    coefficients = sample(log2)
    values = evaluate(coefficients, 1, omega)
    reversed_coefficients = bit_reversed(coefficients, log2)
    assert transform(hooks, backend, reversed_coefficients, log2, FORWARD) == values
    assert transform(hooks, backend, values, log2, INVERSE) == [n * c % R for c in reversed_coefficients]
    assert transform(hooks, backend, reversed_coefficients, log2, TO_COSET, FORWARD) == evaluate(
        coefficients, psi, omega
    )


def test_ntt__psi__has_order_twice_the_domain(hooks: Any, backend: str) -> None:
    for log2 in range(28):
        out = ffi.new("uint8_t[32]")
        getattr(hooks, f"t_ntt_psi_{backend}")(out, log2)
        psi = int.from_bytes(bytes(ffi.buffer(out)), "big")
        assert pow(psi, 1 << log2, R) == R - 1


@pytest.mark.parametrize("log2", [9, 10, 11, 12, 13, 14])
def test_ntt__sizes_past_the_cache_block__agree_at_spot_checks(hooks: Any, backend: str, log2: int) -> None:
    n = 1 << log2
    omega = pow(ROOT_28, 1 << (28 - log2), R)
    coefficients = sample(log2)
    values = transform(hooks, backend, bit_reversed(coefficients, log2), log2, FORWARD)
    for place in (0, 1, 2, n // 4, n // 2 - 1, n // 2, n - 1):
        point, total = pow(omega, place, R), 0
        for c in reversed(coefficients):
            total = (total * point + c) % R
        assert values[place] == total
    back = transform(hooks, backend, values, log2, INVERSE)
    assert back == [n * c % R for c in bit_reversed(coefficients, log2)]


@pytest.mark.parametrize(("log2", "part"), [(1, 0), (5, 2), (5, 4), (13, 12), (17, 12)])
def test_table__of_roots_in_parts__is_that_of_a_whole(hooks: Any, backend: str, log2: int, part: int) -> None:
    assert getattr(hooks, f"t_ntt_table_in_parts_{backend}")(log2, part) == 1
