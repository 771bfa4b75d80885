"""The quotient polynomial from the sides of a witness, computed by a backend of the test library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cffi

R = 21888242871839275222246405745257275088548364400416034343698204186575808495617


def quotient_coefficients(library: Path, backend: str, sides: tuple[bytes, bytes, bytes], threads: int = 1) -> bytes:
    """Return the coefficients, lowest first. `sides`: the values of a, b and c in all rows, 32 bytes each."""
    rows = len(sides[0]) // 32
    log2 = (rows - 1).bit_length()
    n = 1 << log2
    ffi = cffi.FFI()
    ffi.cdef(
        f"int32_t t_quotient_{backend}(uint8_t *vectors, uint32_t log2, uint32_t constraints, uint32_t folded,"
        " uint32_t threads);"
    )
    hooks: Any = ffi.dlopen(str(library))
    vectors = ffi.new("uint8_t[]", b"".join(side.ljust(32 * n, b"\0") for side in sides))
    assert getattr(hooks, f"t_quotient_{backend}")(vectors, log2, rows, 0, threads) == n
    found = bytes(ffi.buffer(vectors, 32 * n))
    # The result is bit-reversed and 2n times the coefficients.
    scale = pow(2 * n, -1, R)
    places = [int(f"{i:0{log2}b}"[::-1], 2) for i in range(n)]
    values = (int.from_bytes(found[32 * i : 32 * i + 32], "big") * scale % R for i in places)
    return b"".join(value.to_bytes(32, "big") for value in values)
