"""Need of a tree for a successor, and means of its accounts to pay for one; no I/O.

Source: forester/docs/reference/programs.md, "Rollover". A tree is due when the share of its capacity that its metadata
names is used.
"""

from dataclasses import dataclass

from forester.chain import batched_accounts, concurrent_accounts
from forester.chain.tree_metadata import BATCHED_TREE_DISCRIMINATOR, Metadata, TreeKind

HEAD_BYTES = max(batched_accounts.TREE_HEAD_BYTES, concurrent_accounts.TREE_HEAD_BYTES)
"""Length of the slice of a tree's account that ``decode_head`` needs."""


@dataclass(frozen=True)
class TreeHead:
    """Fill level of a tree."""

    kind: TreeKind
    metadata: Metadata
    next_index: int
    height: int

    @property
    def is_due(self) -> bool:
        """Return whether the tree is full, so that the program accepts a successor.

        It also accepts one of a tree with a threshold of 0, almost empty. Anybody may create such a tree, and let its
        successors be replaced again and again, while the payer bears most of the rent of each CPI context.
        """
        threshold = self.metadata.rollover_threshold
        if self.metadata.is_rolled_over or threshold > 100:  # the largest number means never
            return False
        return 0 < (threshold << self.height) // 100 <= self.next_index


def decode_head(data: bytes) -> TreeHead:
    """Decode the first HEAD_BYTES of a tree of any kind; MalformedAccount if it is none."""
    if data[:8] == BATCHED_TREE_DISCRIMINATOR:
        batched = batched_accounts.decode_batched_tree(data)
        return TreeHead(batched.kind, batched.metadata, batched.next_index, batched.height)
    tree = concurrent_accounts.decode_tree(data)
    return TreeHead(tree.kind, tree.metadata, tree.next_index, tree.height)


@dataclass(frozen=True)
class Rents:
    """Lamports that the new accounts must hold; 0 for accounts that a kind does not have.

    ``additional`` is the additional refund of the old queue of a V2 state tree: for a CPI context of the size that was
    usual when the queue was made.
    """

    tree: int
    queue: int = 0
    cpi_context: int = 0
    additional: int = 0

    @property
    def laid_out(self) -> int:
        """Lamports that the payer advances to the new accounts."""
        return self.tree + self.queue + self.cpi_context

    @property
    def returned(self) -> int:
        """Lamports that the program returns to the payer. It bears the cost of the CPI context of V1."""
        return self.tree + self.queue + self.additional


PAID_BY_TREE = (TreeKind.STATE_V1, TreeKind.ADDRESS_V2)
"""Kinds whose tree collects the fees for its successor; for others the queue does."""


def lacking_lamports(kind: TreeKind, rents: Rents, lamports: int) -> int:
    """Return the lamports that the old account which pays lacks, 0 if nothing; its own rent must remain.

    ``lamports`` is what that account has. Measured on the published programs, to the lamport.
    """
    own = rents.tree if kind in PAID_BY_TREE else rents.queue
    return max(0, own + rents.returned - lamports)
