"""Binary Poseidon trees of any height, sparse, with changes that can be reverted.

Leaves and nodes are field elements of 32 bytes, big-endian; an empty leaf is zero and a node is the hash of its
children. Source: shared/docs/hashing.md, "Merkle trees". Nodes are kept in one table by heap number: the root is 1, the
children of k are 2k and 2k + 1, so k ^ 1 is the sibling, k >> 1 the parent, and leaf i of a tree of height h is 2**h +
i.

A tree may be known in part only: one from a frontier has the free slots and learned leaves, one from a root has learned
leaves only.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Self

from msgspec import Struct

from shared.trees.field import FIELD_BYTES, SCALAR_MODULUS, ZERO
from shared.trees.poseidon import hash2, hash_many

TALLEST = 253
"""An index must be a number below the field order in one way only."""

_ORDER = SCALAR_MODULUS.to_bytes(FIELD_BYTES, "big")


class TreeFull(ValueError):
    """There are more leaves than free slots."""


class NodeUnknown(LookupError):
    """A node is in a part of the tree that is not known here."""


class ProofWrong(ValueError):
    """A path does not lead from its leaf to the root."""


class StageUnknown(LookupError):
    """A stage is not open: confirmed, rolled back, or never begun."""


@cache
def zero_hash(level: int) -> bytes:
    """Return the root of an empty tree of ``level`` levels."""
    if level == 0:
        return ZERO
    below = zero_hash(level - 1)
    return hash2(below, below)


def require_element(data: bytes) -> bytes:
    """Return ``data`` if it is a field element. Raises ValueError otherwise."""
    if len(data) != FIELD_BYTES or data >= _ORDER:
        raise ValueError(f"{len(data)} bytes 0x{data[:FIELD_BYTES].hex()} are not a field element")
    return data


def root_of(leaf: bytes, index: int, path: Sequence[bytes]) -> bytes:
    """Return the root of a leaf, its index and its siblings from the leaves upwards."""
    node = leaf
    for level, sibling in enumerate(path):
        node = hash2(sibling, node) if (index >> level) & 1 else hash2(node, sibling)
    return node


class Write(Struct, frozen=True):
    """A replacement of one leaf; ``path`` (siblings, leaf level first) is that at the time of the write."""

    index: int
    old: bytes
    new: bytes
    path: tuple[bytes, ...]


class _Stage(Struct):
    number: int
    next_index: int
    replaced: dict[int, bytes | None]


class MerkleTree:
    """A tree of ``height`` levels above its leaves, initially empty.

    ``next_index`` is the first slot that no append has used. Changes made after ``stage`` can be taken back with
    ``roll_back`` or made final with ``confirm``. A call that raises has changed nothing.
    """

    def __init__(self, height: int) -> None:
        if not 1 <= height <= TALLEST:
            raise ValueError(f"a tree has 1 to {TALLEST} levels, not {height}")
        self.height = height
        self.capacity = 1 << height
        self.next_index = 0
        self._nodes: dict[int, bytes] = {}
        self._hidden = 0  # leaves before this one are unknown unless they are in the table
        self._stages: list[_Stage] = []
        self._stages_begun = 0

    @classmethod
    def from_frontier(cls, height: int, next_index: int, subtrees: Sequence[bytes]) -> Self:
        """Return a tree of which only the largest full subtrees of the first ``next_index`` leaves are known.

        ``subtrees`` has one entry per level; the entry of level l counts where bit l of ``next_index`` is 1, and is
        the node just before the next free one of that level. All later leaves are empty.
        """
        tree = cls(height)
        if not 0 <= next_index <= tree.capacity or len(subtrees) != height:
            raise ValueError(f"a frontier of height {height} has {height} hashes and an index of at most 2^{height}")
        if next_index == tree.capacity:
            raise TreeFull("the frontier of a full tree does not determine its root")
        tree.next_index = tree._hidden = next_index
        current = None
        for level, subtree in enumerate(subtrees):
            # The node under construction covers the last appended leaf and free slots.
            number = (tree.capacity + next_index) >> level
            if (next_index >> level) & 1:
                tree._nodes[number - 1] = require_element(subtree)
                current = hash2(subtree, zero_hash(level) if current is None else current)
            elif current is not None:
                current = hash2(current, zero_hash(level))
            if current is not None:
                tree._nodes[number >> 1] = current
        return tree

    @classmethod
    def from_root(cls, height: int, next_index: int, root: bytes) -> Self:
        """Return a tree of which only the root is known; ``learn_many`` adds known leaves.

        What a client has of a state tree, where leaves behind ``next_index`` may be nullifiers already.
        """
        tree = cls(height)
        if not 0 <= next_index <= tree.capacity:
            raise ValueError(f"a tree of {height} levels has a next index of at most 2^{height}, not {next_index}")
        tree.next_index = next_index
        tree._hidden = tree.capacity
        tree._nodes[1] = require_element(root)
        return tree

    @property
    def root(self) -> bytes:
        """The root."""
        return self._node(1)

    def leaf(self, index: int) -> bytes:
        """Return the leaf at ``index``, zero if it is empty. Raises NodeUnknown where the tree is not known."""
        return self._node(self._number(index))

    def proof(self, index: int) -> tuple[bytes, ...]:
        """Return the ``height`` siblings on the path from leaf ``index`` to the root, leaf level first."""
        number = self._number(index)
        return tuple(self._node((number >> level) ^ 1) for level in range(self.height))

    def frontier(self) -> tuple[bytes, ...]:
        """Return the full subtrees before ``next_index``, one per level; the hash of an empty one if there is none."""
        edge = self.capacity + self.next_index
        return tuple(
            self._node((edge >> level) - 1) if (self.next_index >> level) & 1 else zero_hash(level)
            for level in range(self.height)
        )

    def learn_many(self, leaves: Mapping[int, bytes], sibling: Callable[[int, int], bytes]) -> None:
        """Add leaves as they were before the open stages, hashing every node above them once; no root changes.

        Raises ProofWrong unless they lead to the root of that moment. What open stages have written stays.
        ``sibling(level, position)`` returns siblings on their ways to the root that are above none of the leaves.
        """
        row = {self._number(index): require_element(leaf) for index, leaf in leaves.items()}
        learned = dict(row)
        for level in range(self.height if row else 0):
            first = self.capacity >> level
            for number in row:
                if number ^ 1 not in row:
                    learned[number ^ 1] = require_element(sibling(level, (number ^ 1) - first))
            parents = sorted({number >> 1 for number in row})
            pairs = b"".join(learned[2 * parent] + learned[2 * parent + 1] for parent in parents)
            row = dict(zip(parents, _elements(hash_many(pairs, 2)), strict=True))
            learned |= row
        if row and row[1] != self._settled_root():
            raise ProofWrong(f"{len(leaves)} leaves and their siblings do not lead to the root")
        self._take_in(learned)

    def set_many(self, leaves: Mapping[int, bytes]) -> None:
        """Write leaves at any indices, hashing every node above them once."""
        fresh = {self._number(index): require_element(leaf) for index, leaf in leaves.items()}
        row = fresh
        for _ in range(self.height):
            parents = sorted({number >> 1 for number in row})
            children = b"".join(
                row.get(child) or self._node(child) for parent in parents for child in (2 * parent, 2 * parent + 1)
            )
            row = dict(zip(parents, _elements(hash_many(children, 2)), strict=True))
            fresh |= row
        for number, node in fresh.items():
            self._put(number, node)

    def append(self, leaves: Sequence[bytes]) -> None:
        """Write leaves to the next free slots; a slot that already holds a leaf keeps it and is used up.

        Such slots hold nullifiers of accounts that were spent before they were appended (shared/docs/hashing.md,
        "Batches").
        """
        slots = self._next_slots(leaves)
        self.set_many({slot: leaf for slot, leaf in zip(slots, leaves, strict=True) if self.leaf(slot) == ZERO})
        self.next_index += len(leaves)

    def append_proved(self, leaves: Sequence[bytes]) -> list[Write]:
        """Append as ``append`` does; return the writes with the path at the time of each."""
        slots = self._next_slots(leaves)
        held = [self.leaf(slot) for slot in slots]
        chosen = [new if old == ZERO else old for old, new in zip(held, leaves, strict=True)]
        written = self.set_proved(zip(slots, chosen, strict=True))
        self.next_index += len(leaves)
        return written

    def set_proved(self, writes: Iterable[tuple[int, bytes]]) -> list[Write]:
        """Write leaves one after the other; return the writes with the path at the time of each.

        An index may occur more than once. The work is done level by level, each level in one batch of hashes. A node is
        not hashed if a later write replaces it before any write has it as a sibling: 500 consecutive leaves take about
        1000 hashes, not 500 times the height.
        """
        orders = list(writes)
        numbers = [self._number(index) for index, _ in orders]
        nodes = {step: require_element(leaf) for step, (_, leaf) in enumerate(orders)}
        olds = self._replaced(orders)
        fresh: dict[int, bytes] = {}
        paths: list[list[bytes]] = [[] for _ in orders]
        for level, (sources, latest, parents) in enumerate(_written_levels(numbers, self.height)):
            for step, source in enumerate(sources):
                paths[step].append(self._node((numbers[step] >> level) ^ 1) if source is None else nodes[source])
            fresh |= {place: nodes[step] for place, step in latest.items()}
            pairs = (
                paths[step][level] + nodes[step] if (numbers[step] >> level) & 1 else nodes[step] + paths[step][level]
                for step in parents
            )
            nodes = dict(zip(parents, _elements(hash_many(b"".join(pairs), 2)), strict=True))
        if orders:
            fresh[1] = nodes[len(orders) - 1]
        for number, node in fresh.items():
            self._put(number, node)
        return [
            Write(index, old, new, tuple(path)) for (index, new), old, path in zip(orders, olds, paths, strict=True)
        ]

    def _replaced(self, orders: Sequence[tuple[int, bytes]]) -> list[bytes]:
        """Return the leaf that each write replaces."""
        held: dict[int, bytes] = {}
        olds = []
        for index, leaf in orders:
            olds.append(held[index] if index in held else self.leaf(index))
            held[index] = leaf
        return olds

    def skip(self, count: int) -> None:
        """Move ``next_index`` past slots that were written by other means."""
        self._require_room(count)
        self.next_index += count

    def stage(self) -> int:
        """Begin a stage: the changes from here to the next one can be reverted. Return its number."""
        self._stages_begun += 1
        self._stages.append(_Stage(self._stages_begun, self.next_index, {}))
        return self._stages_begun

    def roll_back(self, stage: int) -> None:
        """Revert the changes of ``stage`` and all later ones. Raises StageUnknown if it is not open."""
        place = self._stage_position(stage)
        for undone in reversed(self._stages[place:]):
            for number, node in undone.replaced.items():
                if node is None:
                    del self._nodes[number]
                else:
                    self._nodes[number] = node
            self.next_index = undone.next_index
        del self._stages[place:]

    def confirm(self, stage: int) -> None:
        """Make the changes of ``stage`` and all earlier ones final. Raises StageUnknown if it is not open."""
        del self._stages[: self._stage_position(stage) + 1]

    def _stage_position(self, number: int) -> int:
        for place, stage in enumerate(self._stages):
            if stage.number == number:
                return place
        raise StageUnknown(f"stage {number} is not open")

    def _number(self, index: int) -> int:
        if not 0 <= index < self.capacity:
            raise IndexError(f"leaf {index} is outside a tree of {self.height} levels")
        return self.capacity + index

    def _node(self, number: int) -> bytes:
        node = self._nodes.get(number)
        if node is not None:
            return node
        level = self.height + 1 - number.bit_length()
        if (number << level) - self.capacity < self._hidden:
            raise NodeUnknown(f"node {number - (self.capacity >> level)} of level {level} is not known")
        return zero_hash(level)

    def _settled_root(self) -> bytes:
        """Return the root as it was before the open stages."""
        for stage in self._stages:
            if 1 in stage.replaced:
                return stage.replaced[1] or zero_hash(self.height)
        return self.root

    def _take_in(self, learned: Mapping[int, bytes]) -> None:
        """Record nodes as they were before the open stages."""
        for number, known in learned.items():
            first = next((stage.replaced for stage in self._stages if number in stage.replaced), None)
            (self._nodes if first is None else first)[number] = known

    def _put(self, number: int, node: bytes) -> None:
        if self._stages:
            self._stages[-1].replaced.setdefault(number, self._nodes.get(number))
        self._nodes[number] = node

    def _next_slots(self, leaves: Sequence[bytes]) -> range:
        self._require_room(len(leaves))
        for leaf in leaves:
            require_element(leaf)  # also those that find their slot occupied
        return range(self.next_index, self.next_index + len(leaves))

    def _require_room(self, count: int) -> None:
        if count > self.capacity - self.next_index:
            raise TreeFull(f"{count} leaves do not fit behind the first {self.next_index} of {self.capacity}")


def _written_levels(numbers: Sequence[int], height: int) -> list[tuple[list[int | None], dict[int, int], list[int]]]:
    """Return the dependencies of consecutive writes on each level, leaves first.

    Per level: for each write the latest one before it to the sibling of its node, None if there is none; for each node
    its last write; and the writes after which the parent of their node has to be known.
    """
    levels: list[tuple[list[int | None], dict[int, int], list[int]]] = []
    for level in range(height):
        latest: dict[int, int] = {}
        sources = []
        for step, number in enumerate(numbers):
            place = number >> level
            sources.append(latest.get(place ^ 1))
            latest[place] = step
        levels.append((sources, latest, []))
    needed = {len(numbers) - 1} if numbers else set()
    for sources, latest, parents in reversed(levels):
        parents.extend(sorted(needed))
        needed.update(latest.values())
        needed.update(source for source in sources if source is not None)
    return levels


def _elements(data: bytes) -> list[bytes]:
    return [data[start : start + FIELD_BYTES] for start in range(0, len(data), FIELD_BYTES)]
