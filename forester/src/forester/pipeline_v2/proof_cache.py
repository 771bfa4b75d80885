"""Selection of stored proofs that fit the current tree; no I/O.

A proof fits when the chain is at its sequence number and its old root; those that continue from it fit after it. Proofs
from other roots may still fit: appends and nullifications commute, so another forester's order can lead to the
same root. Only a proof before the chain's sequence number is certainly obsolete.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from forester.journal.proofs import StoredProof
from forester.pipeline_v2.staging import StagedBatch
from forester.prover_client.client import FinishedProof


@dataclass(frozen=True)
class Selection:
    """``chain`` fits now, one after another; ``obsolete`` never again; ``ahead`` are the others."""

    chain: tuple[StoredProof, ...]
    ahead: tuple[StoredProof, ...]
    obsolete: tuple[StoredProof, ...]

    def end(self, root: bytes, sequence: int) -> tuple[bytes, int]:
        """Return root and sequence number after the chain, or those given if it is empty."""
        return (self.chain[-1].new_root, self.chain[-1].sequence + 1) if self.chain else (root, sequence)


def stored_proof(tree: bytes, batch: StagedBatch, finished: FinishedProof) -> StoredProof:
    """Return the journal's record of a proof."""
    return StoredProof(
        tree=tree,
        sequence=batch.sequence,
        circuit=batch.kind.value,
        old_root=batch.old_root,
        new_root=batch.new_root,
        start_index=batch.start_index,
        elements=batch.elements,
        proof=finished.proof.data,
    )


def select_proofs(proofs: Sequence[StoredProof], root: bytes, sequence: int) -> Selection:
    """Sort the stored proofs of one tree by their use at its root and sequence number.

    Of several continuations the longest is selected.
    """
    obsolete = tuple(proof for proof in proofs if proof.sequence < sequence)
    useful = sorted((proof for proof in proofs if proof.sequence >= sequence), key=lambda proof: -proof.sequence)
    # From the furthest proof backwards: the longest continuation from each (sequence, root).
    longest: dict[tuple[int, bytes], tuple[int, StoredProof]] = {}
    for proof in useful:
        length = 1 + longest.get((proof.sequence + 1, proof.new_root), (0, proof))[0]
        place = (proof.sequence, proof.old_root)
        if place not in longest or length > longest[place][0]:
            longest[place] = (length, proof)
    chain: list[StoredProof] = []
    place = (sequence, root)
    while place in longest:
        chain.append(longest[place][1])
        place = (chain[-1].sequence + 1, chain[-1].new_root)
    chosen = set(chain)
    return Selection(tuple(chain), tuple(proof for proof in useful[::-1] if proof not in chosen), obsolete)
