"""Checks of the assertions of ``circuits.inclusion``, ``non_inclusion`` and ``combined``."""

from collections.abc import Callable, Sequence
from typing import Final

from prover.proving.prechecks.checks import Checks, is_less, split
from shared.requests.circuit_inputs import INCLUSION_PART, NEXT_INDICES, NON_INCLUSION_PART, PUBLIC_INPUT_HASH
from shared.requests.witness_inputs import chain2
from shared.trees.field import FIELD_BYTES
from shared.trees.poseidon import hash2, hash_columns, hash_many

WRONG_HASH: Final = "the public input hash is that of other inputs"
INDEX_OUT_OF_RANGE: Final = "the index is outside the tree"
WRONG_PATH: Final = "the path does not lead to the root"


def check_inclusion(checks: Checks) -> None:
    """Check that accounts are in state trees."""
    _check_hash(checks, lambda: _claim(checks, "", "Leaves"))
    _check_included(checks, "")


def check_non_inclusion(checks: Checks) -> None:
    """Check that addresses are not in address trees."""
    _check_hash(checks, lambda: _claim(checks, "", "Values"))
    _check_absent(checks, "")


def check_combined(checks: Checks) -> None:
    """Check that accounts are in state trees and addresses are not in address trees."""
    state, absent = INCLUSION_PART, NON_INCLUSION_PART
    _check_hash(checks, lambda: hash2(_claim(checks, state, "Leaves"), _claim(checks, absent, "Values")))
    _check_included(checks, state)
    _check_absent(checks, absent)


def _check_hash(checks: Checks, claim: Callable[[], bytes]) -> None:
    """Check the public input of version 2; version 1 has the claims themselves."""
    if PUBLIC_INPUT_HASH in checks:
        stated = checks.scalar(PUBLIC_INPUT_HASH)
        checks.require(PUBLIC_INPUT_HASH, holds=claim() == stated, reason=WRONG_HASH)


def _claim(checks: Checks, part: str, subjects: str) -> bytes:
    return chain2(checks.vector(part + "Roots"), checks.vector(part + subjects))


def _check_included(checks: Checks, part: str) -> None:
    _check_paths(checks, part, checks.vector(part + "Leaves"))


def _check_absent(checks: Checks, part: str) -> None:
    lower, higher = part + "LeafLowerRangeValues", part + "LeafHigherRangeValues"
    ordered = zip(*map(checks.numbers, (lower, part + "Values", higher)), strict=True)
    for row, (low, value, high) in enumerate(ordered):
        checks.require(lower, row, holds=is_less(low, value), reason="the value is not above the element before it")
        checks.require(higher, row, holds=is_less(value, high), reason="the value is not below the element after it")
    nexts = part + NEXT_INDICES
    columns = [lower, *([nexts] if nexts in checks else []), higher]
    _check_paths(checks, part, split(hash_columns(*map(checks.data, columns))))


def _check_paths(checks: Checks, part: str, leaves: list[bytes]) -> None:
    """Check that leaves are under their roots."""
    name = part + "InPathElements"
    indices = indices_inside(checks, part + "InPathIndices", name)
    reached = _roots(leaves, indices, checks.rows(name))
    for row, (found, root) in enumerate(zip(reached, checks.vector(part + "Roots"), strict=True)):
        checks.require(name, row, holds=found == root, reason=WRONG_PATH)


def indices_inside(checks: Checks, name: str, proofs: str) -> Sequence[int]:
    """Return the indices of paths, and check that they are inside the tree."""
    indices, (_, height) = checks.numbers(name), checks.shape(proofs)
    for row, index in enumerate(indices):
        if index >> height:
            checks.require(name, row, holds=False, reason=INDEX_OUT_OF_RANGE)
    return indices


def _roots(leaves: Sequence[bytes], indices: Sequence[int], paths: Sequence[bytes]) -> list[bytes]:
    """Return the roots to which leaves and their siblings lead; bits of an index beyond its path do not count.

    All paths have one height and are hashed together, level by level.
    """
    nodes = leaves
    for level in range(len(paths[0]) // FIELD_BYTES):
        siblings = [path[level * FIELD_BYTES : (level + 1) * FIELD_BYTES] for path in paths]
        triples = zip(indices, nodes, siblings, strict=True)
        nodes = split(hash_many(b"".join(s + n if index >> level & 1 else n + s for index, n, s in triples), 2))
    return list(nodes)
