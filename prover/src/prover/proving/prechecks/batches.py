"""Checks of the assertions of ``circuits.batch_append``, ``batch_update`` and ``batch_address_append``."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

from prover.cpu.cpu_count import available_cpus
from prover.proving.prechecks.checks import Checks, is_less, number
from prover.proving.prechecks.membership import INDEX_OUT_OF_RANGE, WRONG_HASH, WRONG_PATH, paths_at
from prover.proving.prechecks.paths import Path, hash_rows
from shared.circuit_inputs import PUBLIC_INPUT_HASH
from shared.field import ZERO
from shared.merkle_updates import LeafUpdates
from shared.witness_inputs import append_input_hash, chain, update_input_hash

Value = TypeVar("Value")

_UNDIVIDED_UPDATES: Final = 100
"""A thread would take longer to start than to check so few updates."""
_MAXIMUM_PARTS: Final = 8


def check_append(checks: Checks) -> None:
    """Check that leaves are written to consecutive slots that are empty."""
    olds, leaves = checks.vector("OldLeaves"), checks.vector("Leaves")
    news = [leaf if old == ZERO else old for old, leaf in zip(olds, leaves, strict=True)]
    paths = _consecutive_paths(checks, "MerkleProofs")
    _check_tree(checks, paths, olds, news, ["MerkleProofs"], ("LeavesHashchainHash", leaves))
    _check_append_hash(checks, "LeavesHashchainHash")


def check_update(checks: Checks) -> None:
    """Check that leaves are replaced by their nullifiers."""
    nullifiers = hash_rows(checks.vector("Leaves"), checks.vector("PathIndices"), checks.vector("TxHashes"))
    paths, olds = paths_at(checks, "PathIndices", "MerkleProofs"), checks.vector("OldLeaves")
    _check_tree(checks, paths, olds, nullifiers, ["MerkleProofs"], ("LeavesHashchainHash", nullifiers))
    hashed = update_input_hash(*map(checks.scalar, ("OldRoot", "NewRoot", "LeavesHashchainHash")))
    _check_public_input_hash(checks, hashed)


def check_address_append(checks: Checks) -> None:
    """Check that values are linked after their low elements, then appended."""
    lows, nexts = checks.vector("LowElementValues"), checks.vector("LowElementNextValues")
    values = checks.vector("NewElementValues")
    for row, (low, value, following) in enumerate(zip(lows, values, nexts, strict=True)):
        above, below = is_less(low, value), is_less(value, following)
        checks.require("LowElementValues", row, holds=above, reason="the new value is not above it")
        checks.require("LowElementNextValues", row, holds=below, reason="the new value is not below it")
    low_paths = paths_at(checks, "LowElementIndices", "LowElementProofs")
    new_paths = _consecutive_paths(checks, "NewElementProofs")
    links = hash_rows([*lows, *lows, *values], [*nexts, *values, *nexts])
    count = len(values)
    paths = _alternating(low_paths, new_paths)
    olds = _alternating(links[:count], [ZERO] * count)
    news = _alternating(links[count : 2 * count], links[2 * count :])
    _check_tree(checks, paths, olds, news, ["LowElementProofs", "NewElementProofs"], ("HashchainHash", values))
    _check_append_hash(checks, "HashchainHash")


def _alternating(first: Sequence[Value], second: Sequence[Value]) -> list[Value]:
    return [element for pair in zip(first, second, strict=True) for element in pair]


def _consecutive_paths(checks: Checks, proofs: str) -> list[Path]:
    """Return paths at the start index and after it, which must be inside the tree."""
    start = number(checks.scalar("StartIndex"))
    paths = [Path(start + row, siblings) for row, siblings in enumerate(checks.rows(proofs))]
    checks.require("StartIndex", holds=paths[-1].is_inside, reason=INDEX_OUT_OF_RANGE)
    return paths


def _check_tree(
    checks: Checks,
    paths: Sequence[Path],
    olds: Sequence[bytes],
    news: Sequence[bytes],
    proofs: Sequence[str],
    chained: tuple[str, Sequence[bytes]],
) -> None:
    """Check consecutive updates of a tree, whose paths are rows of the inputs ``proofs`` alternately, and a hash chain.

    Threads share the work. Of several invalid paths the first one is recorded, whatever its input, since those
    after it depend on it.
    """
    updates = LeafUpdates(
        [path.index for path in paths],
        b"".join(olds),
        b"".join(news),
        b"".join([path.siblings for path in paths]),
        checks.scalar("OldRoot"),
        checks.scalar("NewRoot"),
    )
    cpus = 1 if len(paths) <= _UNDIVIDED_UPDATES else available_cpus()
    parts = 1 if cpus == 1 else min(2 * cpus, _MAXIMUM_PARTS)
    name, elements = chained
    checks_of_parts = [partial(updates.first_failure, part, parts) for part in range(parts)]
    hashed, *failures = _results([partial(chain, elements), *checks_of_parts], cpus)
    first, count = min(failures), len(paths)
    if first < count:
        row, place = divmod(first, len(proofs))
        checks.require(proofs[place], row, holds=False, reason=WRONG_PATH)
    checks.require("NewRoot", holds=first != count, reason="the batch leads to another root")
    checks.require(name, holds=hashed == checks.scalar(name), reason="the hash chain is that of other elements")


def _results(calls: Sequence[Callable[[], Any]], threads: int) -> list[Any]:
    """Return the results of calls, made by this number of threads."""
    if threads == 1:
        return [call() for call in calls]
    with ThreadPoolExecutor(min(threads, len(calls)), thread_name_prefix="precheck") as executor:
        return [future.result() for future in [executor.submit(call) for call in calls]]


def _check_append_hash(checks: Checks, contents: str) -> None:
    old_root, new_root, chained, start = map(checks.scalar, ("OldRoot", "NewRoot", contents, "StartIndex"))
    _check_public_input_hash(checks, append_input_hash(old_root, new_root, chained, number(start)))


def _check_public_input_hash(checks: Checks, hashed: bytes) -> None:
    checks.require(PUBLIC_INPUT_HASH, holds=hashed == checks.scalar(PUBLIC_INPUT_HASH), reason=WRONG_HASH)
