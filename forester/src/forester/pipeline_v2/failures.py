"""Errors of staging and inserting batches.

ForesterError
├── StagingRefused
│   ├── SnapshotContradicts   nodes, leaves or subtrees do not give the snapshot's root
│   ├── SnapshotOutdated      the snapshot is of another root than the chain's
│   ├── HashChainDiffers      queued elements are not those of the chain
│   ├── QueueMisaligned       queue and tree disagree about what comes next
│   └── ElementUnusable       an element that no circuit accepts
├── HeadOutdated              the node returns an older state of the tree
├── TransactionLost           it will not be confirmed any more
└── TransactionRefused
    └── RefusedAgain          the chain refuses every proof of a batch
"""

from forester.chain.programs.addresses import ACCOUNT_COMPRESSION
from forester.errors import ForesterError, TransactionRefused

PROOF_REFUSED = 13006
"""ProofVerificationFailed: the proof does not fit the tree, or is none."""


class StagingRefused(ForesterError, exit_code=69, retryable=True):
    """The indexer's data cannot be staged. No prover time was spent; another snapshot may be usable."""


class SnapshotContradicts(StagingRefused):
    """The nodes of a snapshot do not lead to its root."""


class SnapshotOutdated(StagingRefused):
    """The indexer's snapshot is of another root than the chain's: it lags, or is dishonest."""


class HashChainDiffers(StagingRefused):
    """The chain of a batch's elements is another than the one in the account."""

    def __init__(self, kind: str, batch: int, expected: bytes, computed: bytes) -> None:
        super().__init__(
            f"the elements of {kind} batch {batch} have the hash chain 0x{computed.hex()}, the account has "
            f"0x{expected.hex()}"
        )


class QueueMisaligned(StagingRefused):
    """The queue does not continue at the end of the tree."""


class ElementUnusable(StagingRefused):
    """An element cannot be put into the tree."""


class HeadOutdated(ForesterError, exit_code=69, retryable=True):
    """The node returns a tree from before our last transaction."""


class TransactionLost(ForesterError, exit_code=75, retryable=True):
    """A transaction was not confirmed before its blockhash expired."""


class RefusedAgain(TransactionRefused):
    """The chain refuses every proof of a batch."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, program=str(ACCOUNT_COMPRESSION), code=PROOF_REFUSED)
