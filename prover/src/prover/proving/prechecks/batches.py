"""Checks of the assertions of ``circuits.batch_append``, ``batch_update`` and ``batch_address_append``."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, Final, NamedTuple, TypeVar

from prover.cpu.cpu_count import available_cpus
from prover.proving.prechecks.checks import Checks, is_less, number
from prover.proving.prechecks.membership import INDEX_OUT_OF_RANGE, WRONG_HASH, WRONG_PATH
from prover.proving.prechecks.paths import hash_rows
from shared.circuit_inputs import PUBLIC_INPUT_HASH
from shared.field import FIELD_BYTES, ZERO
from shared.merkle_updates import LeafUpdates
from shared.witness_inputs import append_input_hash, chain, update_input_hash

Value = TypeVar("Value")

_UNDIVIDED: Final = 100
"""Maximum rows of a batch that is checked by one thread: others would take longer to wake up."""
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
    nullifiers = _hash_rows(checks.vector("Leaves"), checks.vector("PathIndices"), checks.vector("TxHashes"))
    paths, olds = _paths_at(checks, "PathIndices", "MerkleProofs"), checks.vector("OldLeaves")
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
    low_paths = _paths_at(checks, "LowElementIndices", "LowElementProofs")
    new_paths = _consecutive_paths(checks, "NewElementProofs")
    links = _hash_rows([*lows, *lows, *values], [*nexts, *values, *nexts])
    count = len(values)
    paths = _Paths(
        _alternating(low_paths.indices, new_paths.indices), _alternating(low_paths.siblings, new_paths.siblings)
    )
    olds = _alternating(links[:count], [ZERO] * count)
    news = _alternating(links[count : 2 * count], links[2 * count :])
    _check_tree(checks, paths, olds, news, ["LowElementProofs", "NewElementProofs"], ("HashchainHash", values))
    _check_append_hash(checks, "HashchainHash")


class _Paths(NamedTuple):
    """Paths of one height: indices of the leaves, and the siblings of each from the leaf upwards."""

    indices: Sequence[int]
    siblings: Sequence[bytes]

    def is_inside(self, row: int) -> bool:
        """Return True if an index is one of a tree as high as the paths."""
        return not self.indices[row] >> len(self.siblings[row]) // FIELD_BYTES


def _paths_at(checks: Checks, indices: str, proofs: str) -> _Paths:
    """Return the paths that two inputs have, and check that their indices are inside the tree."""
    paths = _Paths(list(map(number, checks.vector(indices))), checks.rows(proofs))
    for row in range(len(paths.indices)):
        checks.require(indices, row, holds=paths.is_inside(row), reason=INDEX_OUT_OF_RANGE)
    return paths


def _consecutive_paths(checks: Checks, proofs: str) -> _Paths:
    """Return paths at the start index and after it, which must be inside the tree."""
    start, siblings = number(checks.scalar("StartIndex")), checks.rows(proofs)
    paths = _Paths(range(start, start + len(siblings)), siblings)
    checks.require("StartIndex", holds=paths.is_inside(-1), reason=INDEX_OUT_OF_RANGE)
    return paths


def _alternating(first: Sequence[Value], second: Sequence[Value]) -> list[Value]:
    return [element for pair in zip(first, second, strict=True) for element in pair]


def _check_tree(
    checks: Checks,
    paths: _Paths,
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
        paths.indices,
        b"".join(olds),
        b"".join(news),
        b"".join(paths.siblings),
        checks.scalar("OldRoot"),
        checks.scalar("NewRoot"),
    )
    name, elements = chained
    count = len(olds)
    threads = _threads_for(count)
    parts = 1 if threads == 1 else min(2 * threads, _MAXIMUM_PARTS)
    checks_of_parts = [partial(updates.first_failure, part, parts) for part in range(parts)]
    hashed, *failures = _results(threads, [partial(chain, elements), *checks_of_parts])
    first = min(failures)
    if first < count:
        row, which = divmod(first, len(proofs))
        checks.require(proofs[which], row, holds=False, reason=WRONG_PATH)
    checks.require("NewRoot", holds=first != count, reason="the batch leads to another root")
    checks.require(name, holds=hashed == checks.scalar(name), reason="the hash chain is that of other elements")


def _hash_rows(*columns: Sequence[bytes]) -> list[bytes]:
    """Return the hash of each row of a table with these columns; threads share long tables."""
    count = len(columns[0])
    threads = _threads_for(count)
    size = -(-count // threads)
    pieces = [[column[at : at + size] for column in columns] for at in range(0, count, size)]
    hashed = _results(threads, [partial(hash_rows, *piece) for piece in pieces])
    return [element for piece in hashed for element in piece]


def _results(threads: int, calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Return the results of calls, made by the calling thread or, if ``threads`` is greater than 1, by others."""
    if threads == 1:
        return [call() for call in calls]
    return list(_helpers().map(lambda call: call(), calls))


def _threads_for(rows: int) -> int:
    """Return the number of threads that check a batch."""
    return 1 if rows <= _UNDIVIDED else _all_threads()


@cache
def _all_threads() -> int:
    return min(available_cpus(), _MAXIMUM_PARTS)


@cache
def _helpers() -> ThreadPoolExecutor:
    """Return the threads that share the work of checks; they wait without use of the CPU."""
    return ThreadPoolExecutor(_all_threads(), thread_name_prefix="precheck")


def _check_append_hash(checks: Checks, contents: str) -> None:
    old_root, new_root, chained, start = map(checks.scalar, ("OldRoot", "NewRoot", contents, "StartIndex"))
    _check_public_input_hash(checks, append_input_hash(old_root, new_root, chained, number(start)))


def _check_public_input_hash(checks: Checks, hashed: bytes) -> None:
    checks.require(PUBLIC_INPUT_HASH, holds=hashed == checks.scalar(PUBLIC_INPUT_HASH), reason=WRONG_HASH)
