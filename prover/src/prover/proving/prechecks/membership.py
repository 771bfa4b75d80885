"""Inclusion, non-inclusion and both: what ``circuits.inclusion``, ``non_inclusion`` and their legacy forms assert."""

from dataclasses import dataclass

from prover.circuits.frontend.tape import INPUT_LEVEL
from prover.proving.assignment import ACCOUNTS, ADDRESSES
from prover.proving.prechecks.paths import Path, roots
from prover.proving.prechecks.values import InputReader, is_less, numbers
from prover.proving.prechecks.walk import Walk
from shared.circuit_id import CircuitId
from shared.poseidon import hash2, hash3
from shared.witness_inputs import chain2

PUBLIC_INPUT_HASH = "$.publicInputHash"
OTHER_HASH = "the public input hash is that of other inputs"
OUTSIDE = "the index is outside the tree"
ASTRAY = "the path does not lead to the root"


@dataclass(frozen=True)
class Claims:
    """Roots, and the leaves under them or the values absent from their trees."""

    roots: list[bytes]
    subjects: list[bytes]

    @classmethod
    def read(cls, inputs: InputReader, count: int) -> "Claims":
        """Read the claims of ``count`` accounts or addresses."""
        return cls(inputs.vector(count), inputs.vector(count))

    @property
    def chain(self) -> bytes:
        """What version 2 hashes of them."""
        return chain2(self.roots, self.subjects)


@dataclass(frozen=True)
class LowElements:
    """The elements beside new values; version 1 links them by ``next_indices``."""

    lows: list[bytes]
    highs: list[bytes]
    next_indices: list[bytes] | None

    @classmethod
    def read(cls, inputs: InputReader, count: int, version: int) -> "LowElements":
        """Read the elements of ``count`` addresses."""
        lows, highs = inputs.vector(count), inputs.vector(count)
        return cls(lows, highs, inputs.vector(count) if version == 1 else None)

    def leaves(self) -> list[bytes]:
        """Their leaves in the tree."""
        if self.next_indices is None:
            return [hash2(low, high) for low, high in zip(self.lows, self.highs, strict=True)]
        return [hash3(*element) for element in zip(self.lows, self.next_indices, self.highs, strict=True)]


def check_inclusion(walk: Walk, inputs: InputReader, circuit: CircuitId) -> None:
    """Accounts are in state trees."""
    (height,), (count,) = circuit.heights, circuit.sizes
    stated = inputs.scalar() if circuit.version == 2 else None
    claims = Claims.read(inputs, count)
    paths = _read_paths(inputs, count, height)
    if stated is not None:
        _check_hash(walk, walk.hash_chain_of_pairs(count), holds=claims.chain == stated)
    _check_included(walk, claims, paths, height)


def check_non_inclusion(walk: Walk, inputs: InputReader, circuit: CircuitId) -> None:
    """Addresses are not in address trees."""
    (height,), (count,) = circuit.heights, circuit.sizes
    stated = inputs.scalar() if circuit.version == 2 else None
    claims = Claims.read(inputs, count)
    elements = LowElements.read(inputs, count, circuit.version)
    paths = _read_paths(inputs, count, height)
    if stated is not None:
        _check_hash(walk, walk.hash_chain_of_pairs(count), holds=claims.chain == stated)
    _check_absent(walk, claims, elements, paths, height)


def check_combined(walk: Walk, inputs: InputReader, circuit: CircuitId) -> None:
    """Accounts are in state trees and addresses are not in address trees."""
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
        level = max(walk.hash_chain_of_pairs(accounts), walk.hash_chain_of_pairs(addresses))
        _check_hash(walk, walk.hash(2, level), holds=hash2(included.chain, absent.chain) == stated)
    _check_included(walk, included, account_paths, state_height)
    _check_absent(walk, absent, elements, address_paths, address_height)


def _read_paths(inputs: InputReader, count: int, height: int) -> list[Path]:
    indices = numbers(inputs.vector(count))
    return [Path(index, siblings) for index, siblings in zip(indices, inputs.matrix(count, height), strict=True)]


def _check_hash(walk: Walk, level: int, *, holds: bool) -> None:
    walk.equal(level, holds=holds, path=PUBLIC_INPUT_HASH, reason=OTHER_HASH)


def _check_included(walk: Walk, claims: Claims, paths: list[Path], height: int) -> None:
    reached = roots(claims.subjects, paths)
    for number, (path, found, root) in enumerate(zip(paths, reached, claims.roots, strict=True)):
        _check_place(walk, path, INPUT_LEVEL, height, f"{ACCOUNTS}[{number}]", holds=found == root)


def _check_absent(walk: Walk, claims: Claims, elements: LowElements, paths: list[Path], height: int) -> None:
    reached = roots(elements.leaves(), paths)
    columns = zip(claims.subjects, elements.lows, elements.highs, paths, reached, claims.roots, strict=True)
    for number, (value, low, high, path, found, root) in enumerate(columns):
        address = f"{ADDRESSES}[{number}]"
        lower, higher = f"{address}.leafLowerRangeValue", f"{address}.leafHigherRangeValue"
        walk.less(holds=is_less(low, value), path=lower, reason="the value is not above the element before it")
        walk.less(holds=is_less(value, high), path=higher, reason="the value is not below the element after it")
        leaf = walk.hash(2 if elements.next_indices is None else 3)
        _check_place(walk, path, leaf, height, address, holds=found == root)


def _check_place(walk: Walk, path: Path, leaf: int, height: int, subject: str, *, holds: bool) -> None:
    """A leaf, computed at level ``leaf``, lies under its root."""
    fits = path.index < 1 << height
    bits = walk.bits(height, holds=fits, path=f"{subject}.pathIndex", reason=OUTSIDE)
    level = walk.merkle_root(height, leaf, bits)
    walk.equal(level, holds=holds, path=f"{subject}.pathElements", reason=ASTRAY)
