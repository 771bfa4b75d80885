"""Checks of consecutive replacements of leaves of one Merkle tree, of which only paths are known.

The work is C (shared/native/merkle/updates.h) and runs without the interpreter lock.
"""

from collections.abc import Sequence

from msgspec import Struct

from shared._native import ffi, lib
from shared.field import FIELD_BYTES

_FASTEST = lib.poseidon_runnable(0)
_NO_MEMORY = 2 ** (8 * ffi.sizeof("size_t")) - 1


class LeafUpdates(Struct, frozen=True):
    """Replacements of the leaves at ``indices`` one after the other; elements have 32 bytes, paths go upwards.

    Bits of an index beyond the height do not count. ``siblings`` are the paths one after the other.
    """

    indices: Sequence[int]
    olds: bytes
    news: bytes
    siblings: bytes
    old_root: bytes
    new_root: bytes

    def first_failure(self, part: int = 0, parts: int = 1) -> int:
        """Return the number of the first update that does not follow from those before it.

        That number is ``len(indices)`` if only the new root is another one, and greater if all holds. With several
        ``parts``, which threads may check at the same time, the minimum of their results counts. Raises ValueError for
        lengths that do not match, a tree higher than 64 levels, and no updates.
        """
        count = len(self.indices)
        height, rest = divmod(len(self.siblings), FIELD_BYTES * max(count, 1))
        if not count or rest or height > lib.MERKLE_MOST_HEIGHT:
            raise ValueError("updates need as many siblings each, at most 64")
        if {len(self.olds), len(self.news)} != {FIELD_BYTES * count}:
            raise ValueError("each update has an old and a new leaf")
        mask = (1 << height) - 1
        indices = ffi.new("uint64_t[]", [index & mask for index in self.indices])
        texts = [
            ffi.from_buffer("uint8_t[]", text)
            for text in (self.olds, self.news, self.siblings, self.old_root, self.new_root)
        ]
        updates = ffi.new("merkle_updates *", (height, count, indices, *texts))
        failed = int(lib.merkle_check_updates(_FASTEST, updates, part, parts))
        if failed == _NO_MEMORY:
            raise MemoryError
        return failed
