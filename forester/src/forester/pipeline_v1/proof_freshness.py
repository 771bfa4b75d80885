"""Comparison of a proof with its V1 tree on the chain, before a fee is paid for it.

A tree keeps its last roots and its last changes. The program updates a proof of any of these roots,
including low elements of addresses, so that all elements may be sent with proofs of one root. For that the program
calls itself once per element that was inserted just below, which it can some fifty times: addresses in random order
need a few calls, fifty in ascending order are refused (measured).
"""

import enum
from dataclasses import dataclass, replace

from solders.pubkey import Pubkey

from forester.chain.concurrent_accounts import TREE_HEAD_BYTES, ConcurrentTree, decode_tree, root_offset
from forester.chain.rpc_client import RpcClient
from forester.pipeline_v1.indexer_proofs import Proof
from shared.trees.field import FIELD_BYTES
from shared.trees.merkle_tree import root_of
from shared.trees.poseidon import hash3

SPARE_CHANGES = 200
"""A proof that is nearly as old as the changelog is not sent: more changes land meanwhile."""


class ProofFit(enum.Enum):
    """Fit of a proof to the tree."""

    FITS = "fits"
    TOO_OLD = "too old"
    AHEAD = "ahead of the node"
    WRONG = "wrong"


@dataclass(frozen=True)
class TreeView:
    """The head of a tree, and some roots of its history by their sequence number."""

    tree: ConcurrentTree
    roots: dict[int, bytes]

    def behind(self, proof: Proof) -> int:
        """Return the number of changes of the tree since a proof was made."""
        return self.tree.sequence_number - proof.sequence

    def fit(self, proof: Proof) -> ProofFit:
        """Return whether the program accepts a proof; it costs 27 hashes to confirm one."""
        fit = age_of(self.tree, proof)
        if fit is not ProofFit.FITS:
            return fit
        return (
            ProofFit.FITS if self.roots.get(proof.sequence) == proof.root and leads_to_root(proof) else ProofFit.WRONG
        )

    def changelog_index(self, proof: Proof) -> int:
        """Return the last changelog entry before a proof; the indexed changelog has the same index."""
        return (self.tree.changelog_index - self.behind(proof)) % self.tree.changelog_capacity


def age_of(tree: ConcurrentTree, proof: Proof) -> ProofFit:
    """Return whether a tree has the root of a proof still, and already."""
    behind = tree.sequence_number - proof.sequence
    if behind < 0:
        return ProofFit.AHEAD
    maximum = min(tree.changelog_capacity, tree.root_history_capacity) - SPARE_CHANGES
    return ProofFit.FITS if behind <= maximum else ProofFit.TOO_OLD


def leads_to_root(proof: Proof) -> bool:
    """Return whether the leaf and its siblings hash to the root of a proof."""
    if proof.leaf_index >> len(proof.siblings):
        return False
    try:
        return root_of(_leaf(proof), proof.leaf_index, proof.siblings) == proof.root
    except ValueError:  # something is not a field element
        return False


def _leaf(proof: Proof) -> bytes:
    low = proof.low
    if low is None:
        return proof.cell.value
    return hash3(low.value, low.next_index.to_bytes(FIELD_BYTES, "big"), low.next_value)


async def read_view(rpc: RpcClient, address: Pubkey, proofs: list[Proof]) -> TreeView:
    """Read the head of a tree and the roots of some proofs: 32 bytes for each sequence number.

    Raises EndpointError, AccountMissing and MalformedAccount.
    """
    tree = decode_tree((await rpc.existing_account(address, "a V1 tree", length=TREE_HEAD_BYTES)).data)
    roots = {}
    for sequence in sorted({proof.sequence for proof in proofs if age_of(tree, proof) is ProofFit.FITS}):
        index = (tree.root_index - (tree.sequence_number - sequence)) % tree.root_history_capacity
        start = root_offset(replace(tree, root_index=index))
        roots[sequence] = (await rpc.existing_account(address, "a V1 tree", start=start, length=32)).data
    return TreeView(tree, roots)
