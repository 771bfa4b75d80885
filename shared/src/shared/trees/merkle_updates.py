"""Checks of consecutive replacements of leaves of one Merkle tree, of which only paths are known.

The work is C (shared/native/merkle/updates.h) and runs without the interpreter lock.
"""

from collections.abc import Sequence

from msgspec import Struct

from shared._native import ffi, lib
from shared.trees.field import FIELD_BYTES

_FASTEST = lib.poseidon_runnable(0)


class LeafUpdates(Struct, frozen=True):
    """Replacements of the leaves at ``indices`` one after the other; elements have 32 bytes, paths go upwards.

    Bits of an index beyond the height do not count. ``siblings`` are one or two lists of paths, which the updates use
    alternately.
    """

    indices: Sequence[int]
    olds: bytes | memoryview
    news: bytes | memoryview
    siblings: Sequence[bytes | memoryview]
    old_root: bytes
    new_root: bytes

    def first_failure(self) -> int:
        """Return the number of the first update that does not follow from those before it.

        That number is ``len(indices)`` if only the new root is another one, and greater if all holds. Raises what
        LeafUpdateCheck does.
        """
        check = LeafUpdateCheck(self)
        check.run()
        return check.first_failure


class LeafUpdateCheck:
    """A check of leaf updates, whose hashes several threads may compute."""

    def __init__(self, updates: LeafUpdates) -> None:
        """Compare what needs no hash.

        Raises ValueError for lengths that do not match, a tree higher than 64 levels, and no updates.
        """
        count, lists = len(updates.indices), len(updates.siblings)
        if not count or lists not in (1, 2) or count % lists:
            raise ValueError("updates need one list of paths, or two equally long ones")
        height, rest = divmod(len(updates.siblings[0]), FIELD_BYTES * (count // lists))
        if rest or height > lib.MERKLE_MOST_HEIGHT or len({*map(len, updates.siblings)}) > 1:
            raise ValueError("updates need as many siblings each, at most 64")
        if {len(updates.olds), len(updates.news)} != {FIELD_BYTES * count}:
            raise ValueError("each update has an old and a new leaf")
        mask = (1 << height) - 1
        texts = (updates.olds, updates.news, *updates.siblings, updates.old_root, updates.new_root)
        olds, news, *siblings, old_root, new_root = (ffi.from_buffer("uint8_t[]", text) for text in texts)
        indices = ffi.new("uint64_t[]", [index & mask for index in updates.indices])
        self._used = indices, olds, news, siblings, old_root, new_root
        given = ffi.new("merkle_updates *", (height, count, lists, indices, olds, news, siblings, old_root, new_root))
        created = lib.merkle_check_create(given)
        if not created:
            raise MemoryError
        self._check = ffi.gc(created, lib.merkle_check_destroy)

    def run(self) -> None:
        """Compute hashes until no other thread leaves any."""
        lib.merkle_check_run(self._check, _FASTEST)

    @property
    def first_failure(self) -> int:
        """The result of LeafUpdates.first_failure, when all calls of ``run`` have returned."""
        return int(lib.merkle_check_verdict(self._check))
