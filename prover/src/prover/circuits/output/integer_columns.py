"""Integer columns and varints of constraint systems, as the reference's compressor writes them.

The encoding is in prover/docs/reference/gnark-keys.md, "Integer columns".
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

U8 = npt.NDArray[np.uint8]
U32 = npt.NDArray[np.uint32]
Unsigned = npt.NDArray[np.unsignedinteger]

GROUPS_PER_UNIT: Final = 4
_CHUNK_WORDS: Final = 1 << 20


def encoded_column(values: Unsigned, width: int) -> bytes:
    """Return a column of numbers of 32 or 64 bits with its word count."""
    dtype = _word_type(width)
    values = values.astype(dtype, copy=False)
    packed_count = len(values) // (GROUPS_PER_UNIT * width) * (GROUPS_PER_UNIT * width)
    blocks: list[Unsigned] = []
    if packed_count:
        blocks.append(_block(packed_count, [values[:1], _packed_body(values[:packed_count], width)], width))
    if packed_count < len(values):
        blocks.append(_block(len(values) - packed_count, [_small_body(values[packed_count:], width)], width))
    if not blocks:
        return bytes(8)
    words = np.concatenate([*blocks, np.array([len(blocks[-1])], dtype)])
    return len(words).to_bytes(8, "little") + words.astype(words.dtype.newbyteorder("<"), copy=False).tobytes()


def _word_type(width: int) -> type[np.uint32 | np.uint64]:
    return np.uint32 if width == 32 else np.uint64


def _block(count: int, parts: list[Unsigned], width: int) -> Unsigned:
    """Return a block with its head: number of values and length in words."""
    length = sum(map(len, parts))
    head = [count, length + 2] if width == 32 else [count | (length + 1) << 32]
    return np.concatenate([np.array(head, _word_type(width)), *parts])


# ---- packed blocks ---------------------------------------------------------------------------


def _packed_body(values: Unsigned, width: int) -> Unsigned:
    """Pack units of a descriptor and four groups, each group with as many bits as its largest difference needs."""
    dtype = values.dtype
    one = dtype.type(1)
    differences = np.diff(values, prepend=values[:1]).reshape(-1, width)
    signs = differences >> dtype.type(width - 1)
    zigzag = (differences << one) ^ (dtype.type(0) - signs)
    negative = np.bitwise_or.reduce(signs, axis=1) > 0
    bits = _bit_lengths(np.bitwise_or.reduce(zigzag, axis=1) >> one) + negative
    groups = np.where(negative[:, np.newaxis], zigzag, differences)
    groups = np.where((bits == width)[:, np.newaxis], values.reshape(-1, width), groups)

    descriptor_bytes = (bits | negative.astype(np.int64) << 7).reshape(-1, GROUPS_PER_UNIT)
    descriptors = functools.reduce(lambda left, right: left << 8 | right, descriptor_bytes.T)
    unit_words = 1 + bits.reshape(-1, GROUPS_PER_UNIT).sum(axis=1)
    unit_starts = np.cumsum(unit_words) - unit_words
    body = np.empty(int(unit_words.sum()), dtype)
    body[unit_starts] = descriptors.astype(dtype)
    # A group begins after all groups before it and the descriptors up to its unit's.
    starts = np.cumsum(bits) - bits + 1 + np.arange(len(bits)) // GROUPS_PER_UNIT
    for size in np.unique(bits[bits > 0]).tolist():
        chosen = np.flatnonzero(bits == size)
        places = starts[chosen, np.newaxis] + np.arange(size)
        body[places] = _packed_groups(groups[chosen], size, width)
    return body


def _packed_groups(groups: Unsigned, size: int, width: int) -> Unsigned:
    """Pack rows of `width` numbers below 2^size into rows of `size` words, lowest bits first."""
    packed = np.zeros((len(groups), size), groups.dtype)
    for position in range(width):
        word, shift = divmod(position * size, width)
        packed[:, word] |= groups[:, position] << groups.dtype.type(shift)
        if shift + size > width:
            packed[:, word + 1] |= groups[:, position] >> groups.dtype.type(width - shift)
    return packed


def _bit_lengths(values: Unsigned) -> npt.NDArray[np.int64]:
    lengths = np.zeros(len(values), np.int64)
    rest = values.copy()
    for step in (32, 16, 8, 4, 2, 1):
        if step >= 8 * values.dtype.itemsize:
            continue
        large = rest >> values.dtype.type(step) > 0
        lengths[large] += step
        rest[large] >>= values.dtype.type(step)
    return lengths + (rest > 0)


# ---- varints ---------------------------------------------------------------------------------


def _small_body(values: Unsigned, width: int) -> Unsigned:
    """Encode differences as varints that fill each word from its most significant byte."""
    mask = (1 << width) - 1
    data, previous = bytearray(), 0
    for value in values.tolist():
        rest = (value - previous) & mask
        previous = value
        while rest > 0x7F:
            data.append(rest & 0x7F | 0x80)
            rest >>= 7
        data.append(rest)
    data += b"\x80" * (-len(data) % (width // 8))
    word_type = _word_type(width)
    return np.frombuffer(data, np.dtype(word_type).newbyteorder(">")).astype(word_type)


def varint_bytes(words: U32) -> int:
    """Return the number of bytes that `varints` makes of words."""
    count = len(words)
    for chunk in _chunks(words):
        count += sum(int(np.count_nonzero(chunk >= np.uint32(1 << 7 * more))) for more in range(1, 5))
    return count


def varints(words: U32) -> Iterator[U8]:
    """Yield words of 32 bits with seven bits per byte, least significant first, in pieces."""
    for chunk in _chunks(words):
        columns = np.empty((len(chunk), 5), np.uint8)
        used = np.ones((len(chunk), 5), bool)
        for place in range(5):
            columns[:, place] = (chunk >> np.uint32(7 * place)) & np.uint32(0x7F)
            if place:
                used[:, place] = chunk >= np.uint32(1 << 7 * place)
                columns[:, place - 1] |= used[:, place].view(np.uint8) << np.uint8(7)
        yield columns[used]


def _chunks(words: U32) -> Iterator[U32]:
    return (words[start : start + _CHUNK_WORDS] for start in range(0, len(words), _CHUNK_WORDS))
