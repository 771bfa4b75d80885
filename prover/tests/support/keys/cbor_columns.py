"""Many small CBOR items at once, as arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

U8 = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

_HEAD_BYTES = 5
_LONGEST_PREFIX = 5


def heads(prefixes: Sequence[bytes], kinds: Numbers, majors: Sequence[int], arguments: Numbers) -> U8:
    """Encode items one after another: the prefix of a kind (at most five bytes), then a head of the kind's major type.

    Each item has a kind and an argument below 2^32: the value of a number or the length of an array.
    """
    columns = np.zeros((len(kinds), _LONGEST_PREFIX + _HEAD_BYTES), np.uint8)
    used = np.zeros(columns.shape, bool)
    texts = np.zeros((len(prefixes), _LONGEST_PREFIX), np.uint8)
    for kind, prefix in enumerate(prefixes):
        texts[kind, : len(prefix)] = bytearray(prefix)
    lengths = np.array([len(prefix) for prefix in prefixes])
    columns[:, :_LONGEST_PREFIX] = texts[kinds]
    used[:, :_LONGEST_PREFIX] = np.arange(_LONGEST_PREFIX) < lengths[kinds][:, np.newaxis]

    # The head: arguments below 24 in its first byte, others after it in 1, 2 or 4 bytes, most significant first.
    size = (arguments >= 24).astype(np.int64) + (arguments >= 1 << 8) + 2 * (arguments >= 1 << 16)
    code = np.select([size == 0, size == 1, size == 2], [arguments, 24, 25], default=26)
    columns[:, _LONGEST_PREFIX] = (np.array(majors)[kinds] << 5) | code
    used[:, _LONGEST_PREFIX] = True
    for place in range(4):
        columns[:, -1 - place] = arguments >> 8 * place & 0xFF
        used[:, -1 - place] = place < size
    return columns[used]


def numbers(values: Numbers) -> U8:
    """Encode natural numbers below 2^32."""
    return heads([b""], np.zeros(len(values), np.int64), [0], values)
