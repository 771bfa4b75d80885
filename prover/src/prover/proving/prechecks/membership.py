"""Checks of the assertions of ``circuits.inclusion``, ``non_inclusion``, ``combined`` and their version 1."""

from dataclasses import dataclass

from prover.circuits.frontend.tape import INPUT_LEVEL
from prover.proving.assignment import ACCOUNTS, ADDRESSES
from prover.proving.prechecks.constraint_counter import ConstraintCounter
from prover.proving.prechecks.paths import Path, roots
from prover.proving.prechecks.values import AssignmentReader, is_less, numbers
from shared.circuit_id import CircuitId
from shared.poseidon import hash2, hash3
from shared.witness_inputs import chain2

PUBLIC_INPUT_HASH = "$.publicInputHash"
WRONG_HASH = "the public input hash is that of other inputs"
INDEX_OUT_OF_RANGE = "the index is outside the tree"
WRONG_PATH = "the path does not lead to the root"


@dataclass(frozen=True)
class Claims:
    """Roots, and the leaves under them or the values absent from their trees."""

    roots: list[bytes]
    subjects: list[bytes]

    @classmethod
    def read(cls, inputs: AssignmentReader, count: int) -> "Claims":
        """Read the claims of ``count`` accounts or addresses."""
        return cls(inputs.vector(count), inputs.vector(count))

    @property
    def chain(self) -> bytes:
        """Hash chain of the claims in version 2."""
        return chain2(self.roots, self.subjects)


@dataclass(frozen=True)
class LowElements:
    """Elements below and above new values; version 1 links them by ``next_indices``."""

    lows: list[bytes]
    highs: list[bytes]
    next_indices: list[bytes] | None

    @classmethod
    def read(cls, inputs: AssignmentReader, count: int, version: int) -> "LowElements":
        """Read the elements of ``count`` addresses."""
        lows, highs = inputs.vector(count), inputs.vector(count)
        return cls(lows, highs, inputs.vector(count) if version == 1 else None)

    def leaves(self) -> list[bytes]:
        """Return their leaves in the tree."""
        if self.next_indices is None:
            return [hash2(low, high) for low, high in zip(self.lows, self.highs, strict=True)]
        return [hash3(*element) for element in zip(self.lows, self.next_indices, self.highs, strict=True)]


def check_inclusion(counter: ConstraintCounter, inputs: AssignmentReader, circuit: CircuitId) -> None:
    """Check that accounts are in state trees."""
    (height,), (count,) = circuit.heights, circuit.sizes
    stated = inputs.scalar() if circuit.version == 2 else None
    claims = Claims.read(inputs, count)
    paths = _read_paths(inputs, count, height)
    if stated is not None:
        _check_hash(counter, counter.hash_chain_of_pairs(count), holds=claims.chain == stated)
    _check_included(counter, claims, paths, height)


def check_non_inclusion(counter: ConstraintCounter, inputs: AssignmentReader, circuit: CircuitId) -> None:
    """Check that addresses are not in address trees."""
    (height,), (count,) = circuit.heights, circuit.sizes
    stated = inputs.scalar() if circuit.version == 2 else None
    claims = Claims.read(inputs, count)
    elements = LowElements.read(inputs, count, circuit.version)
    paths = _read_paths(inputs, count, height)
    if stated is not None:
        _check_hash(counter, counter.hash_chain_of_pairs(count), holds=claims.chain == stated)
    _check_absent(counter, claims, elements, paths, height)


def check_combined(counter: ConstraintCounter, inputs: AssignmentReader, circuit: CircuitId) -> None:
    """Check that accounts are in state trees and addresses are not in address trees."""
    (state_height, address_height), (accounts, addresses) = circuit.heights, circuit.sizes
    stated = inputs.scalar() if circuit.version == 2 else None
    included = Claims.read(inputs, accounts)
    # In version 1 all claims are public and come first.
    public = Claims.read(inputs, addresses) if circuit.version == 1 else None
    account_paths = _read_paths(inputs, accounts, state_height)
    absent = public or Claims.read(inputs, addresses)
    elements = LowElements.read(inputs, addresses, circuit.version)
    address_paths = _read_paths(inputs, addresses, address_height)
    if stated is not None:
        level = max(counter.hash_chain_of_pairs(accounts), counter.hash_chain_of_pairs(addresses))
        _check_hash(counter, counter.hash(2, level), holds=hash2(included.chain, absent.chain) == stated)
    _check_included(counter, included, account_paths, state_height)
    _check_absent(counter, absent, elements, address_paths, address_height)


def _read_paths(inputs: AssignmentReader, count: int, height: int) -> list[Path]:
    indices = numbers(inputs.vector(count))
    return [Path(index, siblings) for index, siblings in zip(indices, inputs.matrix(count, height), strict=True)]


def _check_hash(counter: ConstraintCounter, level: int, *, holds: bool) -> None:
    counter.equal(level, holds=holds, path=PUBLIC_INPUT_HASH, reason=WRONG_HASH)


def _check_included(counter: ConstraintCounter, claims: Claims, paths: list[Path], height: int) -> None:
    reached = roots(claims.subjects, paths)
    for number, (path, found, root) in enumerate(zip(paths, reached, claims.roots, strict=True)):
        _check_path(counter, path, INPUT_LEVEL, height, f"{ACCOUNTS}[{number}]", holds=found == root)


def _check_absent(
    counter: ConstraintCounter, claims: Claims, elements: LowElements, paths: list[Path], height: int
) -> None:
    reached = roots(elements.leaves(), paths)
    columns = zip(claims.subjects, elements.lows, elements.highs, paths, reached, claims.roots, strict=True)
    for number, (value, low, high, path, found, root) in enumerate(columns):
        address = f"{ADDRESSES}[{number}]"
        lower, higher = f"{address}.leafLowerRangeValue", f"{address}.leafHigherRangeValue"
        counter.less(holds=is_less(low, value), path=lower, reason="the value is not above the element before it")
        counter.less(holds=is_less(value, high), path=higher, reason="the value is not below the element after it")
        leaf = counter.hash(2 if elements.next_indices is None else 3)
        _check_path(counter, path, leaf, height, address, holds=found == root)


def _check_path(counter: ConstraintCounter, path: Path, leaf: int, height: int, subject: str, *, holds: bool) -> None:
    """Check that a leaf, computed at level ``leaf``, is under its root."""
    fits = path.index < 1 << height
    bits = counter.bits(height, holds=fits, path=f"{subject}.pathIndex", reason=INDEX_OUT_OF_RANGE)
    level = counter.merkle_root(height, leaf, bits)
    counter.equal(level, holds=holds, path=f"{subject}.pathElements", reason=WRONG_PATH)
