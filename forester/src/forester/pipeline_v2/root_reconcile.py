"""What to do about roots and indices that disagree; no I/O.

Three parties have a root of a tree: we, who may have staged batches ahead; the indexer, whose snapshot the staging
needs; and the chain, which alone decides which proofs fit. Source: forester/docs/reference/behaviour.md,
"Root comparison".
"""

import enum


class RootDecision(enum.Enum):
    """What a dispatch does with a snapshot of the indexer."""

    PROCEED = "proceed"
    WAIT = "wait"
    """The indexer lags behind what we know; nothing is lost by looking again soon."""
    RESET_AND_PROCEED = "reset_and_proceed"
    """Somebody else moved the tree: what was staged is dropped, the snapshot is used."""
    RESET_AND_STOP = "reset_and_stop"
    """As above, and the snapshot is of no use either."""

    @property
    def resets(self) -> bool:
        """Whether the staged tree is to be dropped."""
        return self in (RootDecision.RESET_AND_PROCEED, RootDecision.RESET_AND_STOP)

    @property
    def proceeds(self) -> bool:
        """Whether batches may be staged on the snapshot."""
        return self in (RootDecision.PROCEED, RootDecision.RESET_AND_PROCEED)


def reconcile_roots(expected: bytes | None, indexer: bytes, chain: bytes) -> RootDecision:
    """The five decisions of the guard; ``expected`` is the root of our staged tree, None if there is none."""
    if expected is None or indexer == expected:
        return RootDecision.PROCEED
    if chain == expected:
        return RootDecision.WAIT
    return RootDecision.RESET_AND_PROCEED if indexer == chain else RootDecision.RESET_AND_STOP


def reconcile_snapshot(expected: bytes | None, indexer: bytes, chain: bytes) -> RootDecision:
    """As ``reconcile_roots``, but prover time is spent only on a snapshot whose root is the chain's last.

    A proof of any other snapshot is refused by the program, unless the tree comes back to that root, which it does not.
    """
    decision = reconcile_roots(expected, indexer, chain)
    return RootDecision.WAIT if decision is RootDecision.PROCEED and indexer != chain else decision


class Alignment(enum.Enum):
    """How a batch of queued elements lies to the next index of the tree."""

    PROCESS = "process"
    SKIP = "skip"
    """The tree has taken it already."""
    STALE = "stale"
    """The elements begin behind the tree's next one: our tree is older than the indexer's queue."""
    GAP = "gap"
    """Elements between the tree's next one and the batch are missing."""


def align_batch(next_index: int, data_start: int, offset: int) -> Alignment:
    """Compare a batch ``offset`` elements into data from ``data_start`` on with the tree's next index."""
    if data_start > next_index:
        return Alignment.STALE
    start = data_start + offset
    if start == next_index:
        return Alignment.PROCESS
    return Alignment.SKIP if start < next_index else Alignment.GAP
