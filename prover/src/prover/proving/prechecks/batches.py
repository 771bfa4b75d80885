"""Checks of the assertions of ``circuits.batch_append``, ``batch_update`` and ``batch_address_append``."""

from collections.abc import Sequence

from prover.proving.prechecks.checks import Checks, is_less, number
from prover.proving.prechecks.membership import INDEX_OUT_OF_RANGE, WRONG_HASH, WRONG_PATH, paths_at
from prover.proving.prechecks.paths import Path, Update, check_updates, hash_rows
from shared.circuit_inputs import PUBLIC_INPUT_HASH
from shared.field import ZERO
from shared.witness_inputs import append_input_hash, chain, update_input_hash


def check_append(checks: Checks) -> None:
    """Check that leaves are written to consecutive slots that are empty."""
    inputs = checks.inputs
    olds, leaves = inputs.vector("OldLeaves"), inputs.vector("Leaves")
    news = [leaf if old == ZERO else old for old, leaf in zip(olds, leaves, strict=True)]
    paths = _consecutive_paths(checks, "MerkleProofs")
    _check_tree(checks, list(map(Update, paths, olds, news)), ["MerkleProofs"])
    _check_chain(checks, "LeavesHashchainHash", leaves)
    _check_append_hash(checks, "LeavesHashchainHash")


def check_update(checks: Checks) -> None:
    """Check that leaves are replaced by their nullifiers."""
    inputs = checks.inputs
    indices = inputs.vector("PathIndices")
    nullifiers = hash_rows(inputs.vector("Leaves"), indices, inputs.vector("TxHashes"))
    paths = paths_at(checks, "PathIndices", "MerkleProofs")
    _check_tree(checks, list(map(Update, paths, inputs.vector("OldLeaves"), nullifiers)), ["MerkleProofs"])
    _check_chain(checks, "LeavesHashchainHash", nullifiers)
    hashed = update_input_hash(*map(inputs.scalar, ("OldRoot", "NewRoot", "LeavesHashchainHash")))
    _check_public_input_hash(checks, hashed)


def check_address_append(checks: Checks) -> None:
    """Check that values are linked after their low elements, then appended."""
    inputs = checks.inputs
    lows, nexts = inputs.vector("LowElementValues"), inputs.vector("LowElementNextValues")
    values = inputs.vector("NewElementValues")
    for row, (low, value, following) in enumerate(zip(lows, values, nexts, strict=True)):
        above, below = is_less(low, value), is_less(value, following)
        checks.require("LowElementValues", row, holds=above, reason="the new value is not above it")
        checks.require("LowElementNextValues", row, holds=below, reason="the new value is not below it")
    low_paths = paths_at(checks, "LowElementIndices", "LowElementProofs")
    new_paths = _consecutive_paths(checks, "NewElementProofs")
    links = map(Update, low_paths, hash_rows(lows, nexts), hash_rows(lows, values))
    appends = map(Update, new_paths, [ZERO] * len(values), hash_rows(values, nexts))
    updates = [update for pair in zip(links, appends, strict=True) for update in pair]
    _check_tree(checks, updates, ["LowElementProofs", "NewElementProofs"])
    _check_chain(checks, "HashchainHash", values)
    _check_append_hash(checks, "HashchainHash")


def _consecutive_paths(checks: Checks, proofs: str) -> list[Path]:
    """Return paths at the start index and after it, which must be inside the tree."""
    start = number(checks.inputs.scalar("StartIndex"))
    paths = [Path(start + row, siblings) for row, siblings in enumerate(checks.inputs.matrix(proofs))]
    checks.require("StartIndex", holds=paths[-1].is_inside, reason=INDEX_OUT_OF_RANGE)
    return paths


def _check_tree(checks: Checks, updates: Sequence[Update], proofs: Sequence[str]) -> None:
    """Check consecutive updates of a tree, whose paths are rows of the inputs ``proofs`` alternately."""
    fits, ends = check_updates(checks.inputs.scalar("OldRoot"), updates, checks.inputs.scalar("NewRoot"))
    for position, holds in enumerate(fits):
        row, name = divmod(position, len(proofs))
        checks.require(proofs[name], row, holds=holds, reason=WRONG_PATH)
    # A wrong path leads to another root, too.
    checks.require("NewRoot", holds=ends or not all(fits), reason="the batch leads to another root")


def _check_chain(checks: Checks, name: str, elements: Sequence[bytes]) -> None:
    holds = chain(elements) == checks.inputs.scalar(name)
    checks.require(name, holds=holds, reason="the hash chain is that of other elements")


def _check_append_hash(checks: Checks, contents: str) -> None:
    old_root, new_root, chained, start = map(checks.inputs.scalar, ("OldRoot", "NewRoot", contents, "StartIndex"))
    _check_public_input_hash(checks, append_input_hash(old_root, new_root, chained, number(start)))


def _check_public_input_hash(checks: Checks, hashed: bytes) -> None:
    checks.require(PUBLIC_INPUT_HASH, holds=hashed == checks.inputs.scalar(PUBLIC_INPUT_HASH), reason=WRONG_HASH)
