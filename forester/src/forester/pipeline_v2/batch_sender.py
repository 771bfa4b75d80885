"""Sender of proofs of one tree: as many per transaction as fit, with a verdict on refusals.

Instructions of one transaction chain from root to root, so all of them land or none does.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from solders.instruction import Instruction
from solders.pubkey import Pubkey

from forester.chain.programs import registry
from forester.chain.tree_metadata import TreeMetadata
from forester.errors import ForesterError
from forester.journal.proofs import StoredProof
from forester.pipeline_v2.failures import PROOF_REFUSED, TransactionLost
from forester.transactions.confirm import Fate, Outcome
from forester.transactions.sender import Sender
from shared.circuit_id import CircuitKind

PURPOSE = "v2_batches"
UNITS_PER_BATCH = 200_000
"""Compute unit limit of an instruction; 125,000 are used.

Source: forester/docs/reference/programs.md, "Transactions".
"""

_STALE = frozenset({PROOF_REFUSED, 10010, *range(11001, 11010)})
"""The proof does not fit the tree: stale root, hash chain or index, or an invalid proof."""


class Verdict(enum.Enum):
    """Outcome of a group of proofs."""

    LANDED = "landed"
    UNKNOWN = "unknown"
    """It may still land: the same group is sent again, or the tree shows that it landed."""
    LOST = "lost"
    """It will not land any more; the proofs remain valid."""
    UNFITTING = "unfitting"
    """One of the proofs does not fit the tree on the chain."""
    REFUSED = "refused"
    """Refused for a reason other than the proofs."""


@dataclass(frozen=True)
class SentGroup:
    """Outcome of a group of proofs; ``failure`` unless it landed, ``culprit`` is the proof that does not fit.

    ``slot`` is the one in which the chain decided, None if it did not.
    """

    verdict: Verdict
    slot: int | None = None
    failure: ForesterError | None = None
    culprit: StoredProof | None = None


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

    async def send(self, group: tuple[StoredProof, ...], epoch: int, within_s: float) -> SentGroup:
        """Send proofs in one transaction; raises EndpointError and JournalError, and then nothing was sent."""
        work = [self._instruction(proof, epoch) for proof in group]
        limit = min(self._cu_limit, UNITS_PER_BATCH * len(group))
        outcome = await self._sender.send(
            work, purpose=PURPOSE, subject=self._subject, within_s=within_s, unit_limit=limit
        )
        return _judged(group, outcome)

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


def _judged(group: tuple[StoredProof, ...], outcome: Outcome) -> SentGroup:
    error = outcome.error
    match outcome.fate:
        case Fate.CONFIRMED:
            return SentGroup(Verdict.LANDED, outcome.slot)
        case Fate.DEADLINE_PASSED:
            return SentGroup(Verdict.UNKNOWN, failure=error)
        case Fate.EXPIRED:
            return SentGroup(Verdict.LOST, failure=TransactionLost())
        case Fate.REFUSED:
            if error is not None and error.code in _STALE:
                culprit = group[min(outcome.place or 0, len(group) - 1)]
                return SentGroup(Verdict.UNFITTING, outcome.slot, error, culprit)
            return SentGroup(Verdict.REFUSED, outcome.slot, error)
