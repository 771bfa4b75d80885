"""Address trees: sorted linked lists of values in a Poseidon tree, in which absence can be proved.

An element points to the next larger value; a value is absent if a smaller element points to a larger value. Source:
shared/docs/hashing.md, "Indexed Merkle trees". Values are 32 bytes, big-endian, so that their order as bytes is their
order as numbers.

Version 1 (height 26) also hashes the index of the next element and starts with two elements. Version 2 (height 40)
starts with one; its indices of next elements are not hashed.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Sequence
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from shared.trees.field import FIELD_BYTES, ZERO
from shared.trees.merkle_tree import MerkleTree, TreeFull, Write, require_element
from shared.trees.poseidon import hash2, hash3

LARGEST_VALUE = (2**248 - 1).to_bytes(FIELD_BYTES, "big")
"""End of the list; values are strictly between zero and this."""

HEIGHTS = {1: 26, 2: 40}
"""Height of the published trees by version."""


class ValueInvalid(ValueError):
    """A value is not strictly between zero and LARGEST_VALUE."""


class ValuePresent(ValueError):
    """A value that is an element already can neither be proved absent nor inserted."""


class LowElementUnknown(LookupError):
    """The low element of a value is in a part of the tree that is not known here."""


class Element(Struct, frozen=True):
    """An element: its index, its value, and index and value of the next larger one."""

    index: int
    value: bytes
    next_index: int
    next_value: bytes

    def leaf(self, version: int) -> bytes:
        """Return the leaf of the element."""
        if version == 1:
            return hash3(self.value, self.next_index.to_bytes(FIELD_BYTES, "big"), self.next_value)
        return hash2(self.value, self.next_value)


class Absence(Struct, frozen=True):
    """A proof that a value is not in the tree of this root: it is between ``low``, with its path, and the next one."""

    version: int
    root: bytes
    value: bytes
    low: Element
    path: tuple[bytes, ...]


class Insertion(Struct, frozen=True):
    """An insertion of a value after ``low`` (as before the insertion), and its two writes."""

    value: bytes
    low: Element
    low_write: Write
    new_write: Write


class _Step(Struct):
    """State that reverts an insertion."""

    low: Element
    value: bytes


class IndexedMerkleTree:
    """An address tree of version 1 or 2; initially with its first elements.

    Stages work as in MerkleTree. A call that raises has changed nothing.
    """

    def __init__(self, version: int, height: int | None = None) -> None:
        if version not in HEIGHTS:
            raise ValueError(f"there is no version {version} of address trees")
        self.version = version
        self._tree = MerkleTree(HEIGHTS[version] if height is None else height)
        self._values: list[bytes] = []
        self._elements: dict[bytes, Element] = {}
        self._stages: list[tuple[int, list[_Step]]] = []
        first = Element(0, ZERO, 1 if version == 1 else 0, LARGEST_VALUE)
        initial = [first, Element(1, LARGEST_VALUE, 0, ZERO)] if version == 1 else [first]
        for element in initial:
            self._remember(element)
        self._tree.append([element.leaf(version) for element in initial])

    @classmethod
    def from_frontier(cls, version: int, height: int, next_index: int, subtrees: Sequence[bytes]) -> Self:
        """Return a tree of which only the frontier is known; ``learn_many`` adds known elements."""
        tree = cls(version, height)
        tree._tree = MerkleTree.from_frontier(height, next_index, subtrees)
        tree._values.clear()
        tree._elements.clear()
        return tree

    @property
    def height(self) -> int:
        """Levels above the leaves."""
        return self._tree.height

    @property
    def root(self) -> bytes:
        """Root of the tree."""
        return self._tree.root

    @property
    def next_index(self) -> int:
        """Index of the next element."""
        return self._tree.next_index

    @property
    def elements(self) -> list[Element]:
        """Return the known elements in the order of their values."""
        return [self._elements[value] for value in self._values]

    def leaf(self, index: int) -> bytes:
        """Return the leaf at an index."""
        return self._tree.leaf(index)

    def frontier(self) -> tuple[bytes, ...]:
        """Return the frontier, as MerkleTree.frontier."""
        return self._tree.frontier()

    def proof(self, index: int) -> tuple[bytes, ...]:
        """Return a path, as MerkleTree.proof."""
        return self._tree.proof(index)

    def learn_many(self, elements: Iterable[Element], sibling: Callable[[int, int], bytes]) -> None:
        """Add elements as MerkleTree.learn_many does leaves."""
        fresh = list(elements)
        self._tree.learn_many({element.index: element.leaf(self.version) for element in fresh}, sibling)
        for element in fresh:
            if element.value not in self._elements:
                self._remember(element)

    def low_element(self, value: bytes) -> Element:
        """Return the element before an absent value: ``low.value < value < low.next_value``.

        Raises ValueInvalid, ValuePresent or LowElementUnknown.
        """
        require_element(value)
        if not ZERO < value < LARGEST_VALUE:
            raise ValueInvalid(f"0x{value.hex()} is not strictly between zero and 2^248 - 1")
        place = bisect_left(self._values, value)
        if place < len(self._values) and self._values[place] == value:
            raise ValuePresent(f"0x{value.hex()} is in the tree")
        low = self._elements[self._values[place - 1]] if place else None
        if low is None or low.next_value < value:
            raise LowElementUnknown(f"the low element of 0x{value.hex()} is not known")
        if low.next_value == value:
            raise ValuePresent(f"0x{value.hex()} is in the tree")
        return low

    def absence(self, value: bytes) -> Absence:
        """Prove that a value is not in the tree; raises as ``low_element``."""
        low = self.low_element(value)
        return Absence(self.version, self.root, value, low, self._tree.proof(low.index))

    def insert_many(self, values: Sequence[bytes]) -> list[Insertion]:
        """Insert values one after the other; raises as ``low_element``, and TreeFull.

        The paths of an insertion are those of the moment of its writes: first the low element, then the new one.
        """
        start = self._tree.next_index
        if len(values) > self._tree.capacity - start:
            raise TreeFull(f"{len(values)} values do not fit behind the first {start} of {self._tree.capacity}")
        steps: list[_Step] = []
        writes: list[tuple[int, bytes]] = []
        try:
            for index, value in enumerate(values, start):
                low = self.low_element(value)
                steps.append(_Step(low, value))
                moved = replace(low, next_index=index, next_value=value)
                new = Element(index, value, low.next_index, low.next_value)
                self._elements[low.value] = moved
                self._remember(new)
                writes += [(low.index, moved.leaf(self.version)), (index, new.leaf(self.version))]
            written = self._tree.set_proved(writes)
        except Exception:
            self._undo(steps)
            raise
        self._tree.skip(len(values))
        if self._stages:
            self._stages[-1][1].extend(steps)
        return [
            Insertion(step.value, step.low, low_write, new_write)
            for step, low_write, new_write in zip(steps, written[::2], written[1::2], strict=True)
        ]

    def stage(self) -> int:
        """Begin a stage, as MerkleTree.stage."""
        number = self._tree.stage()
        self._stages.append((number, []))
        return number

    def roll_back(self, stage: int) -> None:
        """Revert the insertions of ``stage`` and all later ones. Raises StageUnknown if it is not open."""
        self._tree.roll_back(stage)
        while self._stages and self._stages[-1][0] >= stage:
            self._undo(self._stages.pop()[1])

    def confirm(self, stage: int) -> None:
        """Make the insertions of ``stage`` and all earlier ones final. Raises StageUnknown if it is not open."""
        self._tree.confirm(stage)
        self._stages = [entry for entry in self._stages if entry[0] > stage]

    def _remember(self, element: Element) -> None:
        insort(self._values, element.value)
        self._elements[element.value] = element

    def _undo(self, steps: Sequence[_Step]) -> None:
        for step in reversed(steps):
            del self._values[bisect_left(self._values, step.value)]
            del self._elements[step.value]
            self._elements[step.low.value] = step.low
