"""Detection of another process with our key, from the transactions that name its account; no I/O."""

from collections.abc import Sequence

from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from forester.chain.programs.addresses import REGISTRY
from forester.chain.programs.coder import instruction_discriminator, instruction_names
from forester.chain.rpc_client import AddressSignature
from forester.transactions.own_signatures import OwnSignatures

GRACE_SLOTS = 300
"""Transactions of an earlier process may land for the 150 blocks of their blockhash, plus slots without a block."""


class KeyUse:
    """Signatures of an account, judged answer by answer. ``slot`` is the one in which this process began.

    Slots only go up: what an earlier answer has covered is never judged again, so that a node that is behind, or
    another one, cannot return signatures that are ours and forgotten.
    """

    def __init__(self, slot: int) -> None:
        self.until: Signature | None = None
        """Newest signature that was seen."""
        self._covered = slot + GRACE_SLOTS
        self._seen_slot = -1
        self._compared = False
        self._signed = 0

    def strangers(self, seen: Sequence[AddressSignature], own: OwnSignatures) -> list[AddressSignature]:
        """Record an answer; return its new signatures, newest first, that are neither ours nor older than this process.

        Nothing is judged by the first answer, nor if so much was signed since the last one that some may be forgotten.
        """
        judged = self._compared and own.count - self._signed <= own.maximum // 2
        found = [item for item in seen if judged and item.slot > self._covered and item.signature not in own]
        self._compared, self._signed = True, own.count
        newest = max(seen, key=lambda item: item.slot, default=None)
        if newest is not None and newest.slot > self._seen_slot:
            self.until, self._seen_slot = newest.signature, newest.slot
            self._covered = max(self._covered, newest.slot)
        return sorted(found, key=lambda item: item.slot, reverse=True)


def works_with(key: Pubkey, transaction: bytes) -> bool:
    """Return whether a landed transaction has a work instruction of the registry that ``key`` signed.

    A mention is no signature: anybody may send lamports to an account.
    """
    try:
        message = VersionedTransaction.from_bytes(transaction).message
    except ValueError:
        return False
    names = message.account_keys
    signers = names[: message.header.num_required_signatures]
    work = {instruction_discriminator(name) for name in instruction_names()}
    return any(
        names[item.program_id_index : item.program_id_index + 1] == [REGISTRY]
        and bytes(item.data[:8]) in work
        and any(index < len(signers) and signers[index] == key for index in bytes(item.accounts))
        for item in message.instructions
    )
