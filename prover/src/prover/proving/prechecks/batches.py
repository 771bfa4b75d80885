"""Checks of the assertions of ``circuits.batch_append``, ``batch_update`` and ``batch_address_append``."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Final, TypeVar

from prover.proving.prechecks.checks import Checks, is_less, number, split
from prover.proving.prechecks.membership import INDEX_OUT_OF_RANGE, WRONG_HASH, WRONG_PATH, indices_inside
from shared.process.cpus_and_memory import available_cpus
from shared.requests.circuit_inputs import PUBLIC_INPUT_HASH
from shared.requests.witness_inputs import append_input_hash, update_input_hash
from shared.trees.field import FIELD_BYTES, ZERO
from shared.trees.merkle_updates import LeafUpdateCheck, LeafUpdates
from shared.trees.poseidon import hash_chain, hash_columns

Value = TypeVar("Value")
Elements = bytes | memoryview
"""Field elements, one after the other."""

_UNDIVIDED: Final = 100
"""Maximum rows of a batch that is checked by one thread: others would take longer to wake up."""
_MAXIMUM_THREADS: Final = 8


def check_append(checks: Checks) -> None:
    """Check that leaves are written to consecutive slots that are empty."""
    olds, leaves = checks.data("OldLeaves"), checks.data("Leaves")
    is_empty = olds == bytes(len(olds))
    news = leaves if is_empty else b"".join(map(_kept, checks.vector("OldLeaves"), checks.vector("Leaves")))
    indices = _consecutive_indices(checks, "MerkleProofs")
    _check_tree(checks, indices, olds, news, ["MerkleProofs"], ("LeavesHashchainHash", leaves))
    _check_append_hash(checks, "LeavesHashchainHash")


def check_update(checks: Checks) -> None:
    """Check that leaves are replaced by their nullifiers."""
    nullifiers = _hash_rows(*map(checks.data, ("Leaves", "PathIndices", "TxHashes")))
    indices, olds = indices_inside(checks, "PathIndices", "MerkleProofs"), checks.data("OldLeaves")
    _check_tree(checks, indices, olds, nullifiers, ["MerkleProofs"], ("LeavesHashchainHash", nullifiers))
    hashed = update_input_hash(*map(checks.scalar, ("OldRoot", "NewRoot", "LeavesHashchainHash")))
    _check_public_input_hash(checks, hashed)


def check_address_append(checks: Checks) -> None:
    """Check that values are linked after their low elements, then appended."""
    lows, nexts, values = map(checks.data, ("LowElementValues", "LowElementNextValues", "NewElementValues"))
    ordered = zip(*map(checks.numbers, ("LowElementValues", "NewElementValues", "LowElementNextValues")), strict=True)
    for row, (low, value, following) in enumerate(ordered):
        above, below = is_less(low, value), is_less(value, following)
        checks.require("LowElementValues", row, holds=above, reason="the new value is not above it")
        checks.require("LowElementNextValues", row, holds=below, reason="the new value is not below it")
    low_indices = indices_inside(checks, "LowElementIndices", "LowElementProofs")
    new_indices = _consecutive_indices(checks, "NewElementProofs")
    links = split(_hash_rows(b"".join([lows, lows, values]), b"".join([nexts, values, nexts])))
    count = len(low_indices)
    olds = b"".join(_alternating(links[:count], [ZERO] * count))
    news = b"".join(_alternating(links[count : 2 * count], links[2 * count :]))
    indices, proofs = _alternating(low_indices, new_indices), ["LowElementProofs", "NewElementProofs"]
    _check_tree(checks, indices, olds, news, proofs, ("HashchainHash", values))
    _check_append_hash(checks, "HashchainHash")


def _kept(old: bytes, leaf: bytes) -> bytes:
    """Return the leaf of a slot after a batch of leaves: one that was spent before keeps its nullifier."""
    return leaf if old == ZERO else old


def _consecutive_indices(checks: Checks, proofs: str) -> Sequence[int]:
    """Return the indices of paths from the start index on, and check that they are inside the tree."""
    start, (count, height) = number(checks.scalar("StartIndex")), checks.shape(proofs)
    indices = range(start, start + count)
    checks.require("StartIndex", holds=not indices[-1] >> height, reason=INDEX_OUT_OF_RANGE)
    return indices


def _alternating(first: Sequence[Value], second: Sequence[Value]) -> list[Value]:
    return [element for pair in zip(first, second, strict=True) for element in pair]


def _check_tree(
    checks: Checks,
    indices: Sequence[int],
    olds: Elements,
    news: Elements,
    proofs: Sequence[str],
    chained: tuple[str, Elements],
) -> None:
    """Check consecutive updates of a tree, whose paths are rows of the inputs ``proofs`` alternately, and a hash chain.

    Threads share the work. Of several invalid paths the first one is recorded, whatever its input, since those
    after it depend on it.
    """
    name, elements = chained
    count = len(indices)
    hashed = _begin(count, partial(hash_chain, elements))
    siblings = list(map(checks.data, proofs))
    check = LeafUpdateCheck(
        LeafUpdates(indices, olds, news, siblings, checks.scalar("OldRoot"), checks.scalar("NewRoot"))
    )
    helping = [_helpers().submit(check.run) for _ in range(_threads_for(count) - 1)]
    check.run()
    for each in helping:
        if not each.cancel():
            each.result()
    first = check.first_failure
    if first < count:
        row, which = divmod(first, len(proofs))
        checks.require(proofs[which], row, holds=False, reason=WRONG_PATH)
    checks.require("NewRoot", holds=first != count, reason="the batch leads to another root")
    checks.require(name, holds=hashed() == checks.scalar(name), reason="the hash chain is that of other elements")


def _hash_rows(*columns: Elements) -> bytes:
    """Return the hash of each row of a table with these columns; threads share long tables."""
    count = len(columns[0]) // FIELD_BYTES
    size = -(-count // _threads_for(count)) * FIELD_BYTES
    pieces = [[column[at : at + size] for column in columns] for at in range(0, count * FIELD_BYTES, size)]
    others = [_begin(count, partial(hash_columns, *piece)) for piece in pieces[1:]]
    return b"".join([hash_columns(*pieces[0]), *(each() for each in others)])


def _begin(rows: int, call: Callable[[], Value]) -> Callable[[], Value]:
    """Begin a call in another thread, if a batch of so many rows has several. Return a function with its result."""
    return call if _threads_for(rows) == 1 else _helpers().submit(call).result


def _threads_for(rows: int) -> int:
    """Return the number of threads that check a batch."""
    return 1 if rows <= _UNDIVIDED else _all_threads()


@cache
def _all_threads() -> int:
    return min(available_cpus(), _MAXIMUM_THREADS)


@cache
def _helpers() -> ThreadPoolExecutor:
    """Return the threads with which those of requests share the work; they wait without use of the CPU."""
    return ThreadPoolExecutor(_all_threads() - 1, thread_name_prefix="precheck")


def _check_append_hash(checks: Checks, contents: str) -> None:
    old_root, new_root, chained, start = map(checks.scalar, ("OldRoot", "NewRoot", contents, "StartIndex"))
    _check_public_input_hash(checks, append_input_hash(old_root, new_root, chained, number(start)))


def _check_public_input_hash(checks: Checks, hashed: bytes) -> None:
    checks.require(PUBLIC_INPUT_HASH, holds=hashed == checks.scalar(PUBLIC_INPUT_HASH), reason=WRONG_HASH)
