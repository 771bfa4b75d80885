"""Decisions on roots and indices that disagree; no I/O.

Three parties have a root of a tree: we, who may have staged batches ahead; the indexer, whose snapshot the staging
needs; and the chain, which alone decides which proofs fit. Source: forester/docs/reference/behaviour.md,
"Root comparison".
"""

import enum


class RootDecision(enum.Enum):
    """Decision on a snapshot of the indexer."""

    PROCEED = "proceed"
    WAIT = "wait"
    """The indexer lags behind our state; it is read again soon."""
    RESET_AND_PROCEED = "reset_and_proceed"
    """Another forester moved the tree: staged batches are dropped, the snapshot is used."""
    RESET_AND_STOP = "reset_and_stop"
    """As above, and the snapshot is also useless."""

    @property
    def resets(self) -> bool:
        """Return whether the staged tree must be dropped."""
        return self in (RootDecision.RESET_AND_PROCEED, RootDecision.RESET_AND_STOP)

    @property
    def proceeds(self) -> bool:
        """Return whether batches may be staged on the snapshot."""
        return self in (RootDecision.PROCEED, RootDecision.RESET_AND_PROCEED)


def reconcile_roots(expected: bytes | None, indexer: bytes, chain: bytes) -> RootDecision:
    """Return the decision of the guard; ``expected`` is the root of our staged tree, None if there is none."""
    if expected is None or indexer == expected:
        return RootDecision.PROCEED
    if chain == expected:
        return RootDecision.WAIT
    return RootDecision.RESET_AND_PROCEED if indexer == chain else RootDecision.RESET_AND_STOP


def reconcile_snapshot(expected: bytes | None, indexer: bytes, chain: bytes) -> RootDecision:
    """Decide as ``reconcile_roots``, but spend prover time only on a snapshot with the chain's last root.

    A proof of any other snapshot is refused by the program, unless the tree returns to that root, which it does not.
    """
    decision = reconcile_roots(expected, indexer, chain)
    return RootDecision.WAIT if decision is RootDecision.PROCEED and indexer != chain else decision


class Alignment(enum.Enum):
    """Position of a batch of queued elements relative to the next index of the tree."""

    PROCESS = "process"
    SKIP = "skip"
    """The tree contains it already."""
    STALE = "stale"
    """The elements begin after the tree's next one: our tree is older than the indexer's queue."""
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
