"""Instructions of the registry that a forester sends.

Source: forester/docs/reference/programs.md, "Registration instructions" to "Rollover".
"""

from collections.abc import Sequence
from dataclasses import dataclass

from solders.instruction import Instruction
from solders.pubkey import Pubkey

from forester.chain.programs import addresses as known
from forester.chain.programs.coder import build_instruction

BATCH_DATA_BYTES = 160
V1_PROOF_LENGTH = 16
"""Siblings sent with V1 work: height 26 less the 10 levels of the canopy."""

_INVOKED = [known.CPI_AUTHORITY, known.REGISTERED_PROGRAM, known.ACCOUNT_COMPRESSION]
_BUMP = {"bump": known.CPI_AUTHORITY_BUMP}


@dataclass(frozen=True)
class Forester:
    """A forester at work: the signing key, and its registration for the epoch.

    ``registration`` is None for trees without network fee, which the key in their metadata serves.
    """

    authority: Pubkey
    registration: Pubkey | None

    @classmethod
    def registered(cls, authority: Pubkey, derivation: Pubkey, epoch: int) -> "Forester":
        """Return the forester that is known by ``derivation``, registered for ``epoch``."""
        return cls(authority, known.forester_epoch_address(derivation, epoch))


@dataclass(frozen=True)
class LowAddress:
    """The low element of a new address in a V1 tree: its index, value, successor, and proof of 16 siblings."""

    index: int
    value: bytes
    next_index: int
    next_value: bytes
    proof: Sequence[bytes]


def register_forester_epoch(payer: Pubkey, authority: Pubkey, derivation: Pubkey, epoch: int) -> Instruction:
    """Register for an epoch; creates its accounts."""
    keys = [
        *(payer, authority, known.forester_address(derivation), known.forester_epoch_address(derivation, epoch)),
        *(known.PROTOCOL_CONFIG, known.epoch_address(epoch), known.SYSTEM),
    ]
    return build_instruction("register_forester_epoch", {"epoch": epoch}, keys)


def finalize_registration(authority: Pubkey, derivation: Pubkey, epoch: int) -> Instruction:
    """Take over the registered weight of the epoch; only while the epoch is active."""
    keys = [authority, known.forester_epoch_address(derivation, epoch), known.epoch_address(epoch)]
    return build_instruction("finalize_registration", {}, keys)


def report_work(authority: Pubkey, derivation: Pubkey, epoch: int) -> Instruction:
    """Add the forester's work counter to the epoch's; once, in the report phase."""
    keys = [authority, known.forester_epoch_address(derivation, epoch), known.epoch_address(epoch)]
    return build_instruction("report_work", {}, keys)


def batch_append(forester: Forester, tree: Pubkey, output_queue: Pubkey, data: bytes) -> Instruction:
    """Append one zkp batch of the output queue; ``data`` is new root 32, proof a 32, b 64, c 32 bytes."""
    keys = [forester.registration, forester.authority, *_INVOKED, known.NOOP, tree, output_queue, forester.authority]
    return build_instruction("batch_append", _BUMP | {"data": _batch_data(data)}, keys)


def batch_nullify(forester: Forester, tree: Pubkey, data: bytes) -> Instruction:
    """Nullify one zkp batch of the input queue; ``data`` as for ``batch_append``."""
    keys = [forester.registration, forester.authority, *_INVOKED, known.NOOP, tree]
    return build_instruction("batch_nullify", _BUMP | {"data": _batch_data(data)}, keys)


def batch_update_address_tree(forester: Forester, tree: Pubkey, data: bytes) -> Instruction:
    """Insert one zkp batch of addresses; ``data`` as for ``batch_append``."""
    keys = [forester.registration, forester.authority, *_INVOKED, known.NOOP, tree, forester.authority]
    return build_instruction("batch_update_address_tree", _BUMP | {"data": _batch_data(data)}, keys)


def nullify(
    forester: Forester,
    tree: Pubkey,
    queue: Pubkey,
    *,
    changelog_index: int,
    queue_index: int,
    leaf_index: int,
    proof: Sequence[bytes],
) -> Instruction:
    """Nullify one leaf of a V1 state tree; ``proof`` is its 16 lowest siblings."""
    arguments = _BUMP | {
        "change_log_indices": [changelog_index],
        "leaves_queue_indices": [queue_index],
        "leaf_indices": [leaf_index],
        "proofs": [_v1_proof(proof)],
    }
    keys = [forester.registration, forester.authority, *_INVOKED, known.NOOP, tree, queue]
    return build_instruction("nullify", arguments, keys)


def update_address_merkle_tree(
    forester: Forester,
    tree: Pubkey,
    queue: Pubkey,
    *,
    changelog_index: int,
    indexed_changelog_index: int,
    queue_index: int,
    low: LowAddress,
) -> Instruction:
    """Insert one address into a V1 address tree."""
    arguments = _BUMP | {
        "changelog_index": changelog_index,
        "indexed_changelog_index": indexed_changelog_index,
        "value": queue_index,
        "low_address_index": low.index,
        "low_address_value": _word(low.value),
        "low_address_next_index": low.next_index,
        "low_address_next_value": _word(low.next_value),
        "low_address_proof": _v1_proof(low.proof),
    }
    keys = [forester.registration, forester.authority, *_INVOKED, queue, tree, known.NOOP]
    return build_instruction("update_address_merkle_tree", arguments, keys)


@dataclass(frozen=True)
class Successors:
    """Accounts of a rollover. Address trees of V2 have no queue, address trees no CPI context."""

    new_tree: Pubkey
    old_tree: Pubkey
    new_queue: Pubkey | None = None
    old_queue: Pubkey | None = None
    cpi_context: Pubkey | None = None


def rollover_state_v1(forester: Forester, accounts: Successors) -> Instruction:
    """Replace a full V1 state tree, its queue and CPI context."""
    keys = [
        *(forester.registration, forester.authority, *_INVOKED),
        *(accounts.new_tree, accounts.new_queue, accounts.old_tree, accounts.old_queue),
        *(accounts.cpi_context, known.LIGHT_SYSTEM, known.PROTOCOL_CONFIG),
    ]
    return build_instruction("rollover_state_merkle_tree_and_queue", _BUMP, keys)


def rollover_address_v1(forester: Forester, accounts: Successors) -> Instruction:
    """Replace a full V1 address tree and its queue."""
    keys = [
        *(forester.registration, forester.authority, *_INVOKED),
        *(accounts.new_tree, accounts.new_queue, accounts.old_tree, accounts.old_queue),
    ]
    return build_instruction("rollover_address_merkle_tree_and_queue", _BUMP, keys)


def rollover_state_v2(forester: Forester, accounts: Successors) -> Instruction:
    """Replace a full V2 state tree, its output queue and CPI context."""
    keys = [
        *(forester.registration, forester.authority, accounts.new_tree, accounts.old_tree),
        *(accounts.new_queue, accounts.old_queue, accounts.cpi_context),
        *(known.REGISTERED_PROGRAM, known.CPI_AUTHORITY, known.ACCOUNT_COMPRESSION),
        *(known.PROTOCOL_CONFIG, known.LIGHT_SYSTEM),
    ]
    return build_instruction("rollover_batched_state_merkle_tree", _BUMP, keys)


def rollover_address_v2(forester: Forester, accounts: Successors) -> Instruction:
    """Replace a full V2 address tree."""
    keys = [
        *(forester.registration, forester.authority, accounts.new_tree, accounts.old_tree),
        *(known.REGISTERED_PROGRAM, known.CPI_AUTHORITY, known.ACCOUNT_COMPRESSION, known.PROTOCOL_CONFIG),
    ]
    return build_instruction("rollover_batched_address_merkle_tree", _BUMP, keys)


def _batch_data(data: bytes) -> bytes:
    if len(data) != BATCH_DATA_BYTES:
        raise ValueError(f"batch data has {BATCH_DATA_BYTES} bytes, not {len(data)}")
    return data


def _word(value: bytes) -> list[int]:
    if len(value) != 32:
        raise ValueError(f"a field element has 32 bytes, not {len(value)}")
    return list(value)


def _v1_proof(proof: Sequence[bytes]) -> list[list[int]]:
    if len(proof) != V1_PROOF_LENGTH:
        raise ValueError(f"a V1 proof has {V1_PROOF_LENGTH} siblings, not {len(proof)}")
    return [_word(node) for node in proof]
