"""Instructions of the registry that a forester sends. The functions build them and read nothing from the chain.

Source: forester/docs/reference/programs.md, "Registration instructions" to "Rollover".

The program accepts work and rollovers only while the forester is eligible for the tree (V2) or its queue (V1), and adds
them to the forester's work counter. An instruction costs no more than the transaction's fee unless its function says
what else it costs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from solders.instruction import Instruction
from solders.pubkey import Pubkey

from forester.chain.programs import addresses as known
from forester.chain.programs.coder import build_instruction

BATCH_DATA_BYTES = 160
V1_PROOF_LENGTH = 16
"""Siblings sent with V1 work: height 26 less the 10 levels of the canopy, which the tree's account stores."""

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
    """Low element of a new address in a V1 tree: the element with the largest smaller value.

    ``value`` and ``next_value`` have 32 bytes; ``proof`` has V1_PROOF_LENGTH siblings of 32 bytes, the lowest first.
    """

    index: int
    value: bytes
    next_index: int
    next_value: bytes
    proof: Sequence[bytes]


def register_forester_epoch(payer: Pubkey, authority: Pubkey, derivation: Pubkey, epoch: int) -> Instruction:
    """Return the instruction that registers a forester for an epoch.

    It creates the forester's registration, and the epoch's account if it does not exist; ``payer`` pays their rent. The
    program accepts it once, in the epoch's registration phase, if ``authority`` is the forester's current authority.
    """
    keys = [
        *(payer, authority, known.forester_address(derivation), known.forester_epoch_address(derivation, epoch)),
        *(known.PROTOCOL_CONFIG, known.epoch_address(epoch), known.SYSTEM),
    ]
    return build_instruction("register_forester_epoch", {"epoch": epoch}, keys)


def finalize_registration(authority: Pubkey, derivation: Pubkey, epoch: int) -> Instruction:
    """Return the instruction that copies the epoch's registered weight into the forester's registration.

    The program accepts it in the epoch's active phase, and no work before it. It is necessary again after another
    forester has registered; the protocol config limits the repetitions.
    """
    keys = [authority, known.forester_epoch_address(derivation, epoch), known.epoch_address(epoch)]
    return build_instruction("finalize_registration", {}, keys)


def report_work(authority: Pubkey, derivation: Pubkey, epoch: int) -> Instruction:
    """Return the instruction that adds the forester's work counter to the epoch's total.

    The program accepts it once, in the epoch's report phase, at the beginning of the next epoch's active phase.
    """
    keys = [authority, known.forester_epoch_address(derivation, epoch), known.epoch_address(epoch)]
    return build_instruction("report_work", {}, keys)


def batch_append(forester: Forester, tree: Pubkey, output_queue: Pubkey, data: bytes) -> Instruction:
    """Return the instruction that appends one zkp batch of an output queue to a V2 state tree.

    ``data`` has BATCH_DATA_BYTES: the new root of 32 bytes and the compressed proof of 128 (A 32, B 64, C 32).
    ValueError for another length. The program accepts it if the queue has a zkp batch that is ready and the proof's old
    root is the tree's latest.
    """
    keys = [forester.registration, forester.authority, *_INVOKED, known.NOOP, tree, output_queue, forester.authority]
    return build_instruction("batch_append", _BUMP | {"data": _batch_data(data)}, keys)


def batch_nullify(forester: Forester, tree: Pubkey, data: bytes) -> Instruction:
    """Return the instruction that nullifies one zkp batch of a V2 state tree's input queue.

    ``data``, and when the program accepts it, as for ``batch_append``.
    """
    keys = [forester.registration, forester.authority, *_INVOKED, known.NOOP, tree]
    return build_instruction("batch_nullify", _BUMP | {"data": _batch_data(data)}, keys)


def batch_update_address_tree(forester: Forester, tree: Pubkey, data: bytes) -> Instruction:
    """Return the instruction that inserts one zkp batch of queued addresses into a V2 address tree.

    ``data``, and when the program accepts it, as for ``batch_append``.
    """
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
    """Return the instruction that nullifies one leaf of a V1 state tree and removes it from the queue.

    ``proof`` has V1_PROOF_LENGTH siblings of 32 bytes, the lowest first; ValueError otherwise. ``changelog_index`` is
    the sequence number of the proof's root modulo 1,400; the program refuses a proof that is more changes old.
    ``queue_index`` is the element's cell in the queue's hash set.
    """
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
    """Return the instruction that inserts one queued address into a V1 address tree, linked after ``low``.

    The indices are those of ``nullify``; ``indexed_changelog_index`` is that of the ring of linked elements. ValueError
    if a value of ``low`` has not 32 bytes, or its proof not V1_PROOF_LENGTH siblings.
    """
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
    """Accounts of a rollover. Address trees of V2 have no queue, address trees no CPI context.

    The new ones exist before the instruction: zeroed, exempt from rent, and of the old ones' sizes. The program accepts
    one rollover of a tree, when the tree is filled up to its threshold. It pays the rent of the new tree and queue back
    to the forester's authority, from an old account that must hold it in addition to its own rent.
    """

    new_tree: Pubkey
    old_tree: Pubkey
    new_queue: Pubkey | None = None
    old_queue: Pubkey | None = None
    cpi_context: Pubkey | None = None


def rollover_state_v1(forester: Forester, accounts: Successors) -> Instruction:
    """Return the instruction that replaces a full V1 state tree, its queue and CPI context.

    The old tree pays. The rent of the CPI context is not paid back.
    """
    keys = [
        *(forester.registration, forester.authority, *_INVOKED),
        *(accounts.new_tree, accounts.new_queue, accounts.old_tree, accounts.old_queue),
        *(accounts.cpi_context, known.LIGHT_SYSTEM, known.PROTOCOL_CONFIG),
    ]
    return build_instruction("rollover_state_merkle_tree_and_queue", _BUMP, keys)


def rollover_address_v1(forester: Forester, accounts: Successors) -> Instruction:
    """Return the instruction that replaces a full V1 address tree and its queue. The old queue pays."""
    keys = [
        *(forester.registration, forester.authority, *_INVOKED),
        *(accounts.new_tree, accounts.new_queue, accounts.old_tree, accounts.old_queue),
    ]
    return build_instruction("rollover_address_merkle_tree_and_queue", _BUMP, keys)


def rollover_state_v2(forester: Forester, accounts: Successors) -> Instruction:
    """Return the instruction that replaces a full V2 state tree, its output queue and CPI context.

    The old queue pays. In addition it pays the rent of the ``additional_bytes`` of its metadata, for the CPI context.
    """
    keys = [
        *(forester.registration, forester.authority, accounts.new_tree, accounts.old_tree),
        *(accounts.new_queue, accounts.old_queue, accounts.cpi_context),
        *(known.REGISTERED_PROGRAM, known.CPI_AUTHORITY, known.ACCOUNT_COMPRESSION),
        *(known.PROTOCOL_CONFIG, known.LIGHT_SYSTEM),
    ]
    return build_instruction("rollover_batched_state_merkle_tree", _BUMP, keys)


def rollover_address_v2(forester: Forester, accounts: Successors) -> Instruction:
    """Return the instruction that replaces a full V2 address tree. The old tree pays."""
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
