"""Poseidon over the BN254 scalar field with the circomlib parameters, on 32-byte big-endian elements.

Source: shared/docs/hashing.md, "Poseidon". The computation is C (shared/native/poseidon/poseidon.h) and runs without
the interpreter lock.
"""

from shared._native import ffi, lib

ELEMENT_BYTES = 32
MAX_INPUTS = 7

_FASTEST = lib.poseidon_runnable(0)


def hash_many(inputs: bytes, width: int) -> bytes:
    """Hash consecutive groups of ``width`` elements (1 to 7), 32 bytes out per group.

    Raises ValueError for a wrong length and for an element that is not below the field order.
    """
    if not 1 <= width <= MAX_INPUTS:
        raise ValueError(f"Poseidon takes 1 to {MAX_INPUTS} inputs, not {width}")
    count, rest = divmod(len(inputs), width * ELEMENT_BYTES)
    if rest:
        raise ValueError(f"{len(inputs)} bytes are not groups of {width} elements of {ELEMENT_BYTES} bytes")
    out = ffi.new("uint8_t[]", count * ELEMENT_BYTES)
    _refuse(lib.poseidon_hash_many(_FASTEST, out, inputs, width, count))
    return bytes(ffi.buffer(out))


def hash_columns(*columns: bytes | memoryview) -> bytes:
    """Hash each row of a table of 1 to 7 columns of equally many elements, 32 bytes out per row.

    Raises ValueError for a wrong number or length, and for an element that is not below the field order.
    """
    count, rest = divmod(len(columns[0]), ELEMENT_BYTES)
    if rest or len(columns) > MAX_INPUTS or len({*map(len, columns)}) > 1:
        raise ValueError(f"tables have 1 to {MAX_INPUTS} columns of equally many elements")
    out = ffi.new("uint8_t[]", count * ELEMENT_BYTES)
    sources = [ffi.from_buffer("uint8_t[]", column) for column in columns]
    _refuse(lib.poseidon_hash_columns(_FASTEST, out, sources, len(columns), count))
    return bytes(ffi.buffer(out))


def hash2(left: bytes, right: bytes) -> bytes:
    """Hash two elements: a node of a Merkle tree."""
    return hash_many(left + right, 2)


def hash3(first: bytes, second: bytes, third: bytes) -> bytes:
    """Hash three elements."""
    return hash_many(first + second + third, 3)


def hash_chain(elements: bytes | memoryview) -> bytes:
    """Fold consecutive elements from the left with ``hash2``; zero for none (shared/docs/hashing.md, "Hash chains")."""
    count, rest = divmod(len(elements), ELEMENT_BYTES)
    if rest:
        raise ValueError(f"{len(elements)} bytes are not elements of {ELEMENT_BYTES} bytes")
    out = ffi.new("uint8_t[]", ELEMENT_BYTES)
    with ffi.from_buffer("uint8_t[]", elements) as source:
        _refuse(lib.poseidon_hash_chain(_FASTEST, out, source, count))
    return bytes(ffi.buffer(out))


def _refuse(place: int) -> None:
    """Raise an error for the result of C: 0, or 1 plus the index of an invalid element."""
    if place:
        raise ValueError(f"element {place - 1} is not below the scalar field order")
