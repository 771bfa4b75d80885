"""Slots with their blocks, heights and hashes, and the blockhashes that transactions may still name.

Blocks of consecutive slots form a run; a jump of the clock begins a new one. Hashes are derived from the run, so empty
blocks take no memory.
"""

import hashlib
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from itertools import pairwise

import msgspec
from solders.hash import Hash

BLOCKHASH_WINDOW = 150
"""Number of blocks for which a transaction may name a blockhash (MAX_PROCESSING_AGE of a cluster)."""
SLOT_HASHES = 512
"""Entries of the SlotHashes system variable."""
SECONDS_PER_SLOT = 0.4


class Run(msgspec.Struct, frozen=True):
    """Consecutive slots with blocks: the first of them, its height, and what its hashes are derived from."""

    first: int
    height: int
    seed: bytes

    def hash_of(self, slot: int) -> Hash:
        """Return the blockhash of a slot of this run."""
        return Hash(hashlib.sha256(self.seed + slot.to_bytes(8, "little")).digest())


class Slots:
    """The open slot, the runs of slots before it and the recent blockhashes."""

    def __init__(self, first: int, genesis: bytes) -> None:
        self._begin([Run(first, first, genesis)], first)

    def _begin(self, runs: list[Run], current: int) -> None:
        self.runs = runs
        self.current = current
        self._ends = [later.first for later in runs[1:]]
        self._lengths = [b.height - a.height for a, b in pairwise(runs)]
        recent = self._latest_slots(SLOT_HASHES)
        self._recent: deque[tuple[int, Hash]] = deque(((s, self.hash_of(s)) for s in recent), maxlen=SLOT_HASHES)
        self._heights = {blockhash: self.height_of(slot) for slot, blockhash in self._recent}

    def _latest_slots(self, count: int) -> list[int]:
        found: list[int] = []
        slot: int | None = self.current
        while slot is not None and len(found) < count:
            found.append(slot)
            slot = self.parent_of(slot)
        return found[::-1]

    @property
    def first(self) -> int:
        """Slot of the first block."""
        return self.runs[0].first

    def _run_of(self, slot: int) -> int | None:
        """Return the index of the run that contains a slot; None for a skipped slot, and for one outside the chain."""
        if not self.first <= slot <= self.current:
            return None
        index = bisect_right(self._ends, slot)
        if index < len(self._lengths) and slot - self.runs[index].first >= self._lengths[index]:
            return None
        return index

    def has_block(self, slot: int) -> bool:
        """Return whether the slot is part of the chain and was not skipped."""
        return self._run_of(slot) is not None

    def height_of(self, slot: int) -> int:
        """Return height of the block of a slot; raise LookupError if it has none."""
        run = self.runs[self._require(slot)]
        return run.height + slot - run.first

    def hash_of(self, slot: int) -> Hash:
        """Return blockhash of a slot; raise LookupError if it has no block."""
        return self.runs[self._require(slot)].hash_of(slot)

    def _require(self, slot: int) -> int:
        index = self._run_of(slot)
        if index is None:
            raise LookupError(f"slot {slot} has no block")
        return index

    def parent_of(self, slot: int) -> int | None:
        """Return the slot of the previous block, None for the first block."""
        index = self._require(slot)
        if slot > self.runs[index].first:
            return slot - 1
        if index == 0:
            return None
        return self.runs[index - 1].first + self._lengths[index - 1] - 1

    def latest_at_or_before(self, slot: int) -> int:
        """Return the newest slot with a block that is not after ``slot``; the first one if there is none."""
        slot = min(slot, self.current)
        if slot <= self.first:
            return self.first
        index = bisect_right(self._ends, slot)
        if index < len(self._lengths):
            slot = min(slot, self.runs[index].first + self._lengths[index] - 1)
        return slot

    def heights_between(self, first: int, last: int) -> range:
        """Return the heights of the blocks from one slot to another, both inclusive."""
        first = max(first, self.first)
        at = self.latest_at_or_before(first)
        lowest = self.height_of(at) + (at < first)
        return range(lowest, self.height_of(self.latest_at_or_before(last)) + 1) if first <= last else range(0)

    def slot_at_height(self, height: int) -> int:
        """Return the slot of the block at a height, or of the first block for a height below it."""
        height = max(height, self.runs[0].height)
        run = self.runs[bisect_right(self.runs, height, key=lambda run: run.height) - 1]
        return run.first + height - run.height

    def advance(self) -> None:
        """Close the open slot and open the next one."""
        self.current += 1
        self._remember()

    def jump(self, slot: int) -> None:
        """Close the open slot and open a later one; slots between are skipped.

        Raise ValueError for a slot in the past.
        """
        if slot <= self.current:
            raise ValueError(f"slot {slot} is not after the current slot {self.current}")
        if slot == self.current + 1:
            self.advance()
            return
        last = self.runs[-1]
        height = self.height_of(self.current) + 1
        seed = hashlib.sha256(bytes(last.hash_of(self.current)) + slot.to_bytes(8, "little")).digest()
        self.runs.append(Run(slot, height, seed))
        self._ends.append(slot)
        self._lengths.append(height - last.height)
        self.current = slot
        self._remember()

    def _remember(self) -> None:
        if len(self._recent) == SLOT_HASHES:
            del self._heights[self._recent[0][1]]
        blockhash = self.runs[-1].hash_of(self.current)
        self._recent.append((self.current, blockhash))
        self._heights[blockhash] = self.height_of(self.current)

    def is_recent(self, blockhash: Hash) -> bool:
        """Return whether a transaction that names this blockhash may be executed now."""
        height = self._heights.get(blockhash)
        return height is not None and self.height_of(self.current) - height <= BLOCKHASH_WINDOW

    def recent_hashes(self) -> list[tuple[int, Hash]]:
        """Return slots and hashes of closed blocks, newest first."""
        return [(slot, blockhash) for slot, blockhash in reversed(self._recent) if slot != self.current]

    def fork_at(self, runs: Sequence[Run], current: int, fork: int) -> None:
        """Restore an earlier state and open the next slot; the hashes from there on depend on ``fork``."""
        self._begin(list(runs), current)
        height = self.height_of(current) + 1
        seed = hashlib.sha256(bytes(self.hash_of(current)) + b"fork" + fork.to_bytes(8, "little")).digest()
        self._lengths.append(height - runs[-1].height)
        self.runs.append(Run(current + 1, height, seed))
        self._ends.append(current + 1)
        self.advance()
