"""The batch circuits: what ``circuits.batch_append``, ``batch_update`` and ``batch_address_append`` assert."""

from collections.abc import Iterable, Sequence

from prover.circuits.frontend.gnark_release import GnarkRelease
from prover.circuits.frontend.tape import INPUT_LEVEL
from prover.proving.prechecks.membership import ASTRAY, OTHER_HASH, OUTSIDE, PUBLIC_INPUT_HASH
from prover.proving.prechecks.paths import Path, Update, follow
from prover.proving.prechecks.values import InputReader, is_less, numbers
from prover.proving.prechecks.walk import Walk
from shared.circuit_id import CircuitId
from shared.field import FIELD_BYTES, ZERO
from shared.poseidon import hash_many
from shared.witness_inputs import append_input_hash, chain, update_input_hash

_LEVEL_OF_CHOICE = INPUT_LEVEL + 3
"""Of a new leaf of append: an inverse, whether the old leaf is zero, the choice."""


def check_append(walk: Walk, inputs: InputReader, circuit: CircuitId, release: GnarkRelease) -> None:
    """Leaves are written to consecutive slots, except where those hold something."""
    (height,), (size,) = circuit.heights, circuit.sizes
    stated, old_root, new_root, contents = inputs.vector(4)
    start = int.from_bytes(inputs.scalar(), "big")
    olds, leaves = inputs.vector(size), inputs.vector(size)
    paths = _paths(range(start, start + size), inputs.matrix(size, height))

    _check_hash(walk, 4, holds=append_input_hash(old_root, new_root, contents, start) == stated)
    walk.skip(size * (3 if release.is_zero_is_boolean else 4))
    _check_chain(walk, size, INPUT_LEVEL, holds=chain(leaves) == contents, path="$.leavesHashchainHash")

    news = [leaf if old == ZERO else old for old, leaf in zip(olds, leaves, strict=True)]
    followed = _Followed(walk, height, old_root, list(map(Update, paths, olds, news)), new_root)
    for number in range(size):
        followed.check(INPUT_LEVEL, _LEVEL_OF_CHOICE, "$.startIndex", f"$.merkleProofs[{number}]")
    followed.check_end()


def check_update(walk: Walk, inputs: InputReader, circuit: CircuitId) -> None:
    """Leaves are replaced by their nullifiers."""
    (height,), (size,) = circuit.heights, circuit.sizes
    stated, old_root, new_root, contents = inputs.vector(4)
    transactions, leaves, olds = inputs.vector(size), inputs.vector(size), inputs.vector(size)
    siblings = inputs.matrix(size, height)
    indices = inputs.vector(size)
    nullifiers = _hash_rows(leaves, indices, transactions)

    _check_hash(walk, 3, holds=update_input_hash(old_root, new_root, contents) == stated)
    nullifier_level = max(walk.hash(3) for _ in range(size))
    _check_chain(walk, size, nullifier_level, holds=chain(nullifiers) == contents, path="$.leavesHashchainHash")

    updates = list(map(Update, _paths(numbers(indices), siblings), olds, nullifiers))
    followed = _Followed(walk, height, old_root, updates, new_root)
    for number in range(size):
        followed.check(INPUT_LEVEL, nullifier_level, f"$.pathIndices[{number}]", f"$.newMerkleProofs[{number}]")
    followed.check_end()


def check_address_append(walk: Walk, inputs: InputReader, circuit: CircuitId) -> None:
    """Values are linked behind the elements below them, then appended."""
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
    followed = _Followed(walk, height, old_root, updates, new_root)
    for number, (low, value, following) in enumerate(zip(lows, values, nexts, strict=True)):
        lower, higher = f"$.lowElementValues[{number}]", f"$.lowElementNextValues[{number}]"
        walk.less(holds=is_less(low, value), path=lower, reason="the new value is not above it")
        walk.less(holds=is_less(value, following), path=higher, reason="the new value is not below it")
        leaf = max(walk.hash(2), walk.hash(2))
        followed.check(leaf, leaf, f"$.lowElementIndices[{number}]", f"$.lowElementProofs[{number}]")
        leaf = walk.hash(2)
        followed.check(INPUT_LEVEL, leaf, "$.startIndex", f"$.newElementProofs[{number}]")
    followed.check_end()
    _check_chain(walk, size, INPUT_LEVEL, holds=chain(values) == contents, path="$.hashchainHash")
    _check_hash(walk, 4, holds=append_input_hash(old_root, new_root, contents, start) == stated)


class _Followed:
    """Updates of a tree that a circuit asserts one after the other."""

    def __init__(self, walk: Walk, height: int, old_root: bytes, updates: Sequence[Update], new_root: bytes) -> None:
        self._walk = walk
        self._height = height
        stands, self._ends = follow(old_root, updates, new_root)
        self._rest = iter(zip(updates, stands, strict=True))
        self._root_level = INPUT_LEVEL

    def check(self, old_leaf: int, new_leaf: int, index_path: str, proof_path: str) -> None:
        """The next update; its leaves are computed at the given levels."""
        update, stands = next(self._rest)
        fits = update.path.index < 1 << self._height
        bits = self._walk.bits(self._height, holds=fits, path=index_path, reason=OUTSIDE)
        found = self._walk.merkle_root(self._height, old_leaf, bits)
        self._walk.equal(max(found, self._root_level), holds=stands, path=proof_path, reason=ASTRAY)
        self._root_level = self._walk.merkle_root(self._height, new_leaf, bits)

    def check_end(self) -> None:
        """The last update leads to the new root."""
        self._walk.equal(self._root_level, holds=self._ends, path="$.newRoot", reason="the batch leads to another root")


def _paths(indices: Iterable[int], siblings: Sequence[Sequence[bytes]]) -> list[Path]:
    return [Path(index, row) for index, row in zip(indices, siblings, strict=True)]


def _hash_rows(*columns: Sequence[bytes]) -> list[bytes]:
    hashed = hash_many(b"".join(element for row in zip(*columns, strict=True) for element in row), len(columns))
    return [hashed[place : place + FIELD_BYTES] for place in range(0, len(hashed), FIELD_BYTES)]


def _check_hash(walk: Walk, members: int, *, holds: bool) -> None:
    walk.equal(walk.hash_chain(members), holds=holds, path=PUBLIC_INPUT_HASH, reason=OTHER_HASH)


def _check_chain(walk: Walk, size: int, level: int, *, holds: bool, path: str) -> None:
    walk.equal(walk.hash_chain(size, level), holds=holds, path=path, reason="the hash chain is that of other elements")
