"""Field elements of JSON arrays, read without an object per number.

The work is C (shared/native/json/elements.h) and runs without the interpreter lock.
"""

from typing import NamedTuple

import msgspec

from shared._native import ffi, lib

_ELEMENT_BYTES = 32
_new_buffer = ffi.new_allocator(should_clear_after_alloc=False)


class Elements(NamedTuple):
    """Elements of an array or of an array of arrays, 32 bytes each, and the number in each innermost array."""

    data: bytes | memoryview
    lengths: list[int]


def read_elements(text: bytes | msgspec.Raw, *, nested: bool) -> Elements | None:
    """Return the elements of an array of strings, if ``nested`` of an array of such arrays.

    None unless each is ``0x`` and 1 to 64 digits of a value below r: other texts are left to a decoder, which finds
    their faults.
    """
    with ffi.from_buffer("uint8_t[]", text) as source:
        size = len(source)
        out = _new_buffer("uint8_t[]", size // lib.JSON_ELEMENT_LEAST_BYTES * _ELEMENT_BYTES)
        lengths = _new_buffer("uint32_t[]", 1 + size // lib.JSON_ROW_LEAST_BYTES)
        rows = ffi.new("size_t *")
        if not lib.json_elements(out, lengths, rows, source, size, nested):
            return None
    counts = ffi.unpack(lengths, rows[0])
    return Elements(memoryview(ffi.buffer(out, sum(counts) * _ELEMENT_BYTES)), counts)
