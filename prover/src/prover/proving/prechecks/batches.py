"""Checks of the assertions of ``circuits.batch_append``, ``batch_update`` and ``batch_address_append``."""

from collections.abc import Iterable, Sequence

from prover.circuits.frontend.gnark_release import GnarkRelease
from prover.circuits.frontend.tape import INPUT_LEVEL
from prover.proving.prechecks.constraint_counter import ConstraintCounter
from prover.proving.prechecks.membership import INDEX_OUT_OF_RANGE, PUBLIC_INPUT_HASH, WRONG_HASH, WRONG_PATH
from prover.proving.prechecks.paths import Path, Update, check_updates
from prover.proving.prechecks.values import AssignmentReader, is_less, numbers
from shared.circuit_id import CircuitId
from shared.field import FIELD_BYTES, ZERO
from shared.poseidon import hash_many
from shared.witness_inputs import append_input_hash, chain, update_input_hash

_LEVEL_OF_CHOICE = INPUT_LEVEL + 3
"""Level of a new leaf of append: after an inverse, the test of the old leaf for zero, and the choice."""


def check_append(
    counter: ConstraintCounter, inputs: AssignmentReader, circuit: CircuitId, release: GnarkRelease
) -> None:
    """Check that leaves are written to consecutive slots that are empty."""
    (height,), (size,) = circuit.heights, circuit.sizes
    stated, old_root, new_root, contents = inputs.vector(4)
    start = int.from_bytes(inputs.scalar(), "big")
    olds, leaves = inputs.vector(size), inputs.vector(size)
    paths = _paths(range(start, start + size), inputs.matrix(size, height))

    _check_hash(counter, 4, holds=append_input_hash(old_root, new_root, contents, start) == stated)
    counter.skip(size * (3 if release.is_zero_is_boolean else 4))
    _check_chain(counter, size, INPUT_LEVEL, holds=chain(leaves) == contents, path="$.leavesHashchainHash")

    news = [leaf if old == ZERO else old for old, leaf in zip(olds, leaves, strict=True)]
    tree = _TreeUpdates(counter, height, old_root, list(map(Update, paths, olds, news)), new_root)
    for number in range(size):
        tree.check(INPUT_LEVEL, _LEVEL_OF_CHOICE, "$.startIndex", f"$.merkleProofs[{number}]")
    tree.check_end()


def check_update(counter: ConstraintCounter, inputs: AssignmentReader, circuit: CircuitId) -> None:
    """Check that leaves are replaced by their nullifiers."""
    (height,), (size,) = circuit.heights, circuit.sizes
    stated, old_root, new_root, contents = inputs.vector(4)
    transactions, leaves, olds = inputs.vector(size), inputs.vector(size), inputs.vector(size)
    siblings = inputs.matrix(size, height)
    indices = inputs.vector(size)
    nullifiers = _hash_rows(leaves, indices, transactions)

    _check_hash(counter, 3, holds=update_input_hash(old_root, new_root, contents) == stated)
    nullifier_level = max(counter.hash(3) for _ in range(size))
    _check_chain(counter, size, nullifier_level, holds=chain(nullifiers) == contents, path="$.leavesHashchainHash")

    updates = list(map(Update, _paths(numbers(indices), siblings), olds, nullifiers))
    tree = _TreeUpdates(counter, height, old_root, updates, new_root)
    for number in range(size):
        tree.check(INPUT_LEVEL, nullifier_level, f"$.pathIndices[{number}]", f"$.newMerkleProofs[{number}]")
    tree.check_end()


def check_address_append(counter: ConstraintCounter, inputs: AssignmentReader, circuit: CircuitId) -> None:
    """Check that values are linked after their low elements, then appended."""
    (height,), (size,) = circuit.heights, circuit.sizes
    stated, old_root, new_root, contents = inputs.vector(4)
    start = int.from_bytes(inputs.scalar(), "big")
    lows, nexts = inputs.vector(size), inputs.vector(size)
    low_paths = _paths(numbers(inputs.vector(size)), inputs.matrix(size, height))
    values = inputs.vector(size)
    new_paths = _paths(range(start, start + size), inputs.matrix(size, height))

    links = map(Update, low_paths, _hash_rows(lows, nexts), _hash_rows(lows, values))
    appends = map(Update, new_paths, [ZERO] * size, _hash_rows(values, nexts))
    updates = [update for pair in zip(links, appends, strict=True) for update in pair]
    tree = _TreeUpdates(counter, height, old_root, updates, new_root)
    for number, (low, value, following) in enumerate(zip(lows, values, nexts, strict=True)):
        lower, higher = f"$.lowElementValues[{number}]", f"$.lowElementNextValues[{number}]"
        counter.less(holds=is_less(low, value), path=lower, reason="the new value is not above it")
        counter.less(holds=is_less(value, following), path=higher, reason="the new value is not below it")
        leaf = max(counter.hash(2), counter.hash(2))
        tree.check(leaf, leaf, f"$.lowElementIndices[{number}]", f"$.lowElementProofs[{number}]")
        leaf = counter.hash(2)
        tree.check(INPUT_LEVEL, leaf, "$.startIndex", f"$.newElementProofs[{number}]")
    tree.check_end()
    _check_chain(counter, size, INPUT_LEVEL, holds=chain(values) == contents, path="$.hashchainHash")
    _check_hash(counter, 4, holds=append_input_hash(old_root, new_root, contents, start) == stated)


class _TreeUpdates:
    """Consecutive updates of a tree that a circuit asserts."""

    def __init__(
        self, counter: ConstraintCounter, height: int, old_root: bytes, updates: Sequence[Update], new_root: bytes
    ) -> None:
        self._counter = counter
        self._height = height
        holds, self._ends = check_updates(old_root, updates, new_root)
        self._rest = iter(zip(updates, holds, strict=True))
        self._root_level = INPUT_LEVEL

    def check(self, old_leaf: int, new_leaf: int, index_path: str, proof_path: str) -> None:
        """Check the next update, whose leaves are computed at the given levels."""
        update, holds = next(self._rest)
        fits = update.path.index < 1 << self._height
        bits = self._counter.bits(self._height, holds=fits, path=index_path, reason=INDEX_OUT_OF_RANGE)
        found = self._counter.merkle_root(self._height, old_leaf, bits)
        self._counter.equal(max(found, self._root_level), holds=holds, path=proof_path, reason=WRONG_PATH)
        self._root_level = self._counter.merkle_root(self._height, new_leaf, bits)

    def check_end(self) -> None:
        """Check that the last update leads to the new root."""
        self._counter.equal(
            self._root_level, holds=self._ends, path="$.newRoot", reason="the batch leads to another root"
        )


def _paths(indices: Iterable[int], siblings: Sequence[Sequence[bytes]]) -> list[Path]:
    return [Path(index, row) for index, row in zip(indices, siblings, strict=True)]


def _hash_rows(*columns: Sequence[bytes]) -> list[bytes]:
    hashed = hash_many(b"".join(element for row in zip(*columns, strict=True) for element in row), len(columns))
    return [hashed[position : position + FIELD_BYTES] for position in range(0, len(hashed), FIELD_BYTES)]


def _check_hash(counter: ConstraintCounter, members: int, *, holds: bool) -> None:
    counter.equal(counter.hash_chain(members), holds=holds, path=PUBLIC_INPUT_HASH, reason=WRONG_HASH)


def _check_chain(counter: ConstraintCounter, size: int, level: int, *, holds: bool, path: str) -> None:
    counter.equal(
        counter.hash_chain(size, level), holds=holds, path=path, reason="the hash chain is that of other elements"
    )
