"""Why batches cannot be staged.

ForesterError
└── StagingRefused
    ├── SnapshotContradicts   nodes, leaves or subtrees do not give the snapshot's root
    ├── HashChainDiffers      queued elements are not those of the chain
    ├── QueueMisaligned       queue and tree disagree about what comes next
    └── ElementUnusable       an element that no circuit takes
"""

from forester.errors import ForesterError


class StagingRefused(ForesterError):
    """The indexer's data cannot be staged. No prover time was spent; another snapshot may do."""

    exit_code = 69
    retryable = True


class SnapshotContradicts(StagingRefused):
    """The nodes of a snapshot do not lead to its root."""


class HashChainDiffers(StagingRefused):
    """The chain of a batch's elements is another than the one stated by ``source``."""

    def __init__(self, kind: str, batch: int, source: str, stated: bytes, computed: bytes) -> None:
        super().__init__(
            f"the elements of {kind} batch {batch} have the hash chain 0x{computed.hex()}, {source} has "
            f"0x{stated.hex()}"
        )
        self.source = source


class QueueMisaligned(StagingRefused):
    """The queue does not go on where the tree ends."""


class ElementUnusable(StagingRefused):
    """An element cannot be put into the tree."""
