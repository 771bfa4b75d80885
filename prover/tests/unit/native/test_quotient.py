"""The quotient cut for several threads equals that of whole vectors, plain and folded, whatever the order of tasks."""

from __future__ import annotations

import random
from typing import Any

import cffi
import pytest

R = 21888242871839275222246405745257275088548364400416034343698204186575808495617
BACKENDS = ("portable", "adx", "avx2", "avx512", "ifma")
WHOLE, CUT = 1, 3  # threads

ffi = cffi.FFI()
for backend_name in BACKENDS:
    ffi.cdef(
        f"int32_t t_quotient_{backend_name}(uint8_t *vectors, uint32_t log2, uint32_t constraints, uint32_t folded,"
        f" uint32_t threads); uint64_t t_quotient_longest_{backend_name}(void);"
        f"void t_quotient_cut_{backend_name}(uint64_t *out, uint32_t log2, uint32_t folded, uint32_t threads);"
    )


def quotient(
    hooks: Any, backend: str, vectors: bytes, log2: int, constraints: int, folded: bool, threads: int
) -> bytes:
    buffer = ffi.new("uint8_t[]", vectors)
    count = getattr(hooks, f"t_quotient_{backend}")(buffer, log2, constraints, folded, threads)
    assert count > 0
    return bytes(ffi.buffer(buffer, 32 * count))


def padded(kinds: list[str], log2: int, constraints: int) -> bytes:
    """Return vectors of random values, of the largest value, or of zeros, that end with zeros."""
    generator = random.Random(log2 * constraints)
    rest = bytes(32 * ((1 << log2) - constraints))
    made = {
        "zero": lambda: bytes(32 * constraints),
        "largest": lambda: (R - 1).to_bytes(32, "big") * constraints,
        "random": lambda: b"".join(generator.randrange(R).to_bytes(32, "big") for _ in range(constraints)),
    }
    return b"".join(made[kind]() + rest for kind in kinds)


# The domains have 1, 4, 16 and 64 rows.
@pytest.mark.parametrize("log2", [10, 11, 13, 14, *(pytest.param(n, marks=pytest.mark.unchecked) for n in (15, 16))])
def test_quotient__cut__equals_that_of_whole_vectors(hooks: Any, backend: str, log2: int) -> None:
    for constraints in (1 << log2, (1 << log2) * 5 // 8 + 3):
        vectors = padded(["random"] * 3, log2, constraints)
        whole = quotient(hooks, backend, vectors, log2, constraints, False, WHOLE)
        assert quotient(hooks, backend, vectors, log2, constraints, False, CUT) == whole


@pytest.mark.parametrize("kinds", [["zero"] * 3, ["largest"] * 3, ["largest", "zero", "random"]], ids="-".join)
@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.sampled(12, checked=4)
def test_quotient__cut_and_edge_values__equals_that_of_whole_vectors(
    hooks: Any, backend: str, kinds: list[str], folded: bool
) -> None:
    log2, constraints = 15, 20_001
    vectors = padded(kinds, log2, constraints)
    whole = quotient(hooks, backend, vectors, log2, constraints, folded, WHOLE)
    assert quotient(hooks, backend, vectors, log2, constraints, folded, CUT) == whole


# 17/32 of the places are one large part and the smallest one; 31/32 are rounded up to the whole coset.
@pytest.mark.parametrize("thirty_seconds", [16, 17, 19, 22, 27, 30, 31])
@pytest.mark.parametrize("log2", [11, 13, pytest.param(15, marks=pytest.mark.unchecked)])
@pytest.mark.sampled(28, checked=10)
def test_quotient__folded_and_cut__equals_that_of_whole_vectors(
    hooks: Any, backend: str, log2: int, thirty_seconds: int
) -> None:
    constraints = (thirty_seconds << log2) // 32 - 1
    vectors = padded(["random", "random", "zero"], log2, constraints)
    whole = quotient(hooks, backend, vectors, log2, constraints, True, WHOLE)
    assert quotient(hooks, backend, vectors, log2, constraints, True, CUT) == whole


# Their smallest parts are left to scalar code, whatever the backend.
@pytest.mark.parametrize("log2", range(5, 12))
def test_quotient__folded_on_a_small_domain__equals_that_of_scalar_code(hooks: Any, backend: str, log2: int) -> None:
    for thirty_seconds in range(16, 32):
        constraints = max(2, (thirty_seconds << log2) // 32 - 1)
        vectors = padded(["random", "random", "zero"], log2, constraints)
        scalar = quotient(hooks, "portable", vectors, log2, constraints, True, WHOLE)
        assert quotient(hooks, backend, vectors, log2, constraints, True, WHOLE) == scalar


@pytest.mark.unchecked
def test_quotient__folded_and_cut_into_64_rows__equals_that_of_whole_vectors(hooks: Any, backend: str) -> None:
    log2, constraints = 17, 80_001  # half and an eighth
    vectors = padded(["random", "random", "zero"], log2, constraints)
    whole = quotient(hooks, backend, vectors, log2, constraints, True, WHOLE)
    assert quotient(hooks, backend, vectors, log2, constraints, True, CUT) == whole


# ---- how long a cancelled proof continues: until the tasks that run have ended --------------------------

LONGEST = 2 * 17 * 2**16
"""Butterflies of an inverse and a forward transform of 2^17 elements: at most 50 ms with any backend of x86-64."""


@pytest.mark.unchecked
@pytest.mark.parametrize("folded", [False, True])
def test_quotient__on_one_thread__has_no_task_longer_than_two_transforms_of_2_17(
    hooks: Any, backend: str, folded: bool
) -> None:
    log2, constraints = 18, 170_001
    vectors = padded(["random", "random", "zero"], log2, constraints)
    one = quotient(hooks, backend, vectors, log2, constraints, folded, WHOLE)
    assert 0 < getattr(hooks, f"t_quotient_longest_{backend}")() <= LONGEST
    assert quotient(hooks, backend, vectors, log2, constraints, folded, CUT) == one


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("threads", [1, 2, 3, 64])
def test_quotient__of_the_largest_circuits__has_no_task_longer_than_two_transforms_of_2_18(
    hooks: Any, threads: int, folded: bool
) -> None:
    out = ffi.new("uint64_t[3]")
    for log2 in range(5, 25):
        hooks.t_quotient_cut_portable(out, log2, folded, threads)
        row, columns, rows = out
        assert row <= 2 ** max(17, log2 - 6)
        assert rows == 1 or rows * columns <= max(row, 64 * 64)
