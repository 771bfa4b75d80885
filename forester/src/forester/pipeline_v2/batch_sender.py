"""Sender of proofs of one tree: as many per transaction as fit.

Instructions of one transaction chain from root to root, so all of them land or none does.
"""

from collections.abc import Sequence

from solders.instruction import Instruction
from solders.pubkey import Pubkey

from forester.chain.programs import registry
from forester.chain.tree_metadata import TreeMetadata
from forester.journal.proofs import StoredProof
from forester.pipeline_v2.failures import PROOF_REFUSED
from forester.transactions.confirm import Fate, Outcome
from forester.transactions.sender import Sender
from shared.requests.circuit_id import CircuitKind

PURPOSE = "v2_batches"
UNITS_PER_BATCH = 200_000
"""Compute unit limit of an instruction; 125,000 are used.

Source: forester/docs/reference/programs.md, "Transactions".
"""

_STALE = frozenset({PROOF_REFUSED, 10010, *range(11001, 11010), 14301, 14302})
"""The proof does not fit the tree: stale root, hash chain or index, an invalid proof, or no such batch is ready."""


class BatchSender:
    """Sender for one tree, as the forester that is registered under ``derivation``."""

    def __init__(self, tree: TreeMetadata, sender: Sender, derivation: Pubkey, cu_limit: int) -> None:
        self._tree = tree
        self._subject = bytes(tree.address)
        self._sender = sender
        self._derivation = derivation
        self._cu_limit = cu_limit

    async def wait_for_earlier(self, within_s: float) -> bool:
        """Wait for transactions of an earlier process for the tree; return whether all are settled."""
        return await self._sender.wait_for_earlier(PURPOSE, self._subject, within_s)

    def fitting(self, ready: Sequence[StoredProof], epoch: int) -> int:
        """Return the number of proofs that fit one transaction; one more than there are if another would also fit."""
        work = [self._instruction(proof, epoch) for proof in [*ready, ready[-1]]]
        return min(self._sender.fitting(work), max(1, self._cu_limit // UNITS_PER_BATCH))

    async def send(self, group: Sequence[StoredProof], epoch: int, within_s: float) -> Outcome:
        """Send proofs in one transaction; raises EndpointError and JournalError, and then nothing was sent."""
        work = [self._instruction(proof, epoch) for proof in group]
        limit = min(self._cu_limit, UNITS_PER_BATCH * len(group))
        return await self._sender.send(
            work, purpose=PURPOSE, subject=self._subject, within_s=within_s, unit_limit=limit
        )

    def _instruction(self, proof: StoredProof, epoch: int) -> Instruction:
        tree, data = self._tree.address, proof.new_root + proof.proof
        forester = self._forester(epoch)
        match CircuitKind(proof.circuit):
            case CircuitKind.BATCH_APPEND:
                return registry.batch_append(forester, tree, self._tree.queue, data)
            case CircuitKind.BATCH_UPDATE:
                return registry.batch_nullify(forester, tree, data)
            case CircuitKind.BATCH_ADDRESS_APPEND:
                return registry.batch_update_address_tree(forester, tree, data)
            case other:
                raise ValueError(f"no instruction accepts a proof of {other}")

    def _forester(self, epoch: int) -> registry.Forester:
        if self._tree.metadata.network_fee == 0:
            return registry.Forester(self._sender.payer, None)
        return registry.Forester.registered(self._sender.payer, self._derivation, epoch)


def unfitting(group: Sequence[StoredProof], outcome: Outcome) -> StoredProof | None:
    """Return the proof that does not fit the tree, if the transaction of a group was refused for that."""
    if outcome.fate is not Fate.REFUSED or outcome.error is None or outcome.error.code not in _STALE:
        return None
    return group[min(outcome.position or 0, len(group) - 1)]
