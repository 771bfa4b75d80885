"""Instructions of the registry program, as a forester sends them, built apart from the forester's own.

Source: forester/docs/reference/programs.md, "Registration instructions" to "Rollover".
An omitted optional account is the called program's own address.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey
from solders.system_program import ID as SYSTEM_PROGRAM

from localnet.chain import addresses
from localnet.programs.registry import BUMP, u16, u32, u64

UPDATE_FORESTER = bytes.fromhex("f6b31eefab2739ab")
REGISTER_FORESTER_EPOCH = bytes.fromhex("2b78fdc26dc065bc")
FINALIZE_REGISTRATION = bytes.fromhex("e6bcac60ccf762e3")
REPORT_WORK = bytes.fromhex("aa6ee82f91d58aa2")
BATCH_APPEND = bytes.fromhex("ddc203d8253edc93")
BATCH_NULLIFY = bytes.fromhex("869ed2f0fc23fdf7")
BATCH_UPDATE_ADDRESS_TREE = bytes.fromhex("ab7ff2417dbd7975")
NULLIFY = bytes.fromhex("cfa0c64be3928001")
UPDATE_ADDRESS_MERKLE_TREE = bytes.fromhex("4bd03f38cf4a7c12")
ROLLOVER_STATE_V1 = bytes.fromhex("6e1c160f305a7fd2")
ROLLOVER_ADDRESS_V1 = bytes.fromhex("18541b0c86a617c0")
ROLLOVER_STATE_V2 = bytes.fromhex("f030dbb4cefd508c")
ROLLOVER_ADDRESS_V2 = bytes.fromhex("51777504c2247fd0")

PROOF_BYTES = 128
V1_PROOF_NODES = 16
"""Siblings that a V1 instruction carries: height 26 less the 10 levels of the canopy."""


def _reads(*keys: Pubkey) -> list[AccountMeta]:
    return [AccountMeta(key, False, False) for key in keys]


def _writes(*keys: Pubkey) -> list[AccountMeta]:
    return [AccountMeta(key, False, True) for key in keys]


def _signs(key: Pubkey, *, writable: bool = False) -> list[AccountMeta]:
    return [AccountMeta(key, True, writable)]


def _instruction(data: bytes, *accounts: list[AccountMeta]) -> Instruction:
    return Instruction(addresses.REGISTRY, data, [meta for group in accounts for meta in group])


def update_forester(authority: Pubkey, derivation: Pubkey, new_authority: Pubkey) -> Instruction:
    """Return the instruction that gives a forester's account a new authority, which signs too; the address stays."""
    return _instruction(
        UPDATE_FORESTER + b"\x00",
        _signs(authority),
        _writes(addresses.forester(derivation)),
        _signs(new_authority),
    )


def register_forester_epoch(authority: Pubkey, derivation: Pubkey, epoch: int) -> Instruction:
    """Return the instruction that registers a forester, which pays, for an epoch."""
    return _instruction(
        REGISTER_FORESTER_EPOCH + u64(epoch),
        _signs(authority, writable=True),
        _signs(authority),
        _reads(addresses.forester(derivation)),
        _writes(addresses.forester_epoch(derivation, epoch)),
        _reads(addresses.PROTOCOL_CONFIG),
        _writes(addresses.epoch(epoch)),
        _reads(SYSTEM_PROGRAM),
    )


def finalize_registration(authority: Pubkey, derivation: Pubkey, epoch: int) -> Instruction:
    """Return the instruction that copies the total weight of an epoch to a forester's registration."""
    return _instruction(
        FINALIZE_REGISTRATION,
        _signs(authority),
        _writes(addresses.forester_epoch(derivation, epoch)),
        _reads(addresses.epoch(epoch)),
    )


def report_work(authority: Pubkey, derivation: Pubkey, epoch: int) -> Instruction:
    """Return the instruction that reports a forester's work in an epoch."""
    return _instruction(
        REPORT_WORK,
        _signs(authority),
        _writes(addresses.forester_epoch(derivation, epoch), addresses.epoch(epoch)),
    )


def _work(epoch_account: Pubkey, authority: Pubkey, *, pays: bool = False) -> list[AccountMeta]:
    """Return the accounts that every work instruction begins with."""
    return [
        *_writes(epoch_account),
        *_signs(authority, writable=pays),
        *_reads(addresses.REGISTRY_CPI_AUTHORITY, addresses.REGISTERED_REGISTRY, addresses.ACCOUNT_COMPRESSION),
    ]


def _batch(discriminator: bytes, new_root: bytes, proof: bytes) -> bytes:
    if len(proof) != PROOF_BYTES:
        message = f"a proof has {PROOF_BYTES} bytes, not {len(proof)}"
        raise ValueError(message)
    data = new_root + proof
    return discriminator + BUMP + u32(len(data)) + data


def batch_append(
    authority: Pubkey, epoch_account: Pubkey, tree: Pubkey, queue: Pubkey, new_root: bytes, proof: bytes
) -> Instruction:
    """Return the instruction that moves one batch of an output queue into its state tree."""
    return _instruction(
        _batch(BATCH_APPEND, new_root, proof),
        _work(epoch_account, authority),
        _reads(addresses.NOOP),
        _writes(tree, queue, authority),
    )


def batch_nullify(authority: Pubkey, epoch_account: Pubkey, tree: Pubkey, new_root: bytes, proof: bytes) -> Instruction:
    """Return the instruction that replaces leaves of a state tree by one batch of nullifiers."""
    return _instruction(
        _batch(BATCH_NULLIFY, new_root, proof),
        _work(epoch_account, authority),
        _reads(addresses.NOOP),
        _writes(tree),
    )


def batch_update_address_tree(
    authority: Pubkey, epoch_account: Pubkey, tree: Pubkey, new_root: bytes, proof: bytes
) -> Instruction:
    """Return the instruction that moves one batch of addresses into an address tree."""
    return _instruction(
        _batch(BATCH_UPDATE_ADDRESS_TREE, new_root, proof),
        _work(epoch_account, authority),
        _reads(addresses.NOOP),
        _writes(tree, authority),
    )


def nullify(
    authority: Pubkey,
    epoch_account: Pubkey,
    tree: Pubkey,
    queue: Pubkey,
    *,
    changelog_index: int,
    queue_index: int,
    leaf_index: int,
    siblings: Sequence[bytes],
) -> Instruction:
    """Return the instruction that clears the leaf of a queued nullifier in a V1 state tree."""
    data = NULLIFY + BUMP + u32(1) + u64(changelog_index) + u32(1) + u16(queue_index) + u32(1) + u64(leaf_index)
    data += u32(1) + u32(V1_PROOF_NODES) + b"".join(siblings[:V1_PROOF_NODES])
    return _instruction(data, _work(epoch_account, authority, pays=True), _reads(addresses.NOOP), _writes(tree, queue))


@dataclass(frozen=True)
class LowElement:
    """The low element of a new value in a V1 address tree; ``siblings`` are all 26, from the leaf upwards."""

    index: int
    value: bytes
    next_index: int
    next_value: bytes
    siblings: Sequence[bytes]


def update_address_merkle_tree(
    authority: Pubkey,
    epoch_account: Pubkey,
    tree: Pubkey,
    queue: Pubkey,
    *,
    changelog_index: int,
    indexed_changelog_index: int,
    queue_index: int,
    low: LowElement,
) -> Instruction:
    """Return the instruction that moves a queued address into its V1 tree."""
    data = UPDATE_ADDRESS_MERKLE_TREE + BUMP + u16(changelog_index) + u16(indexed_changelog_index) + u16(queue_index)
    data += u64(low.index) + low.value + u64(low.next_index) + low.next_value + b"".join(low.siblings[:V1_PROOF_NODES])
    return _instruction(data, _work(epoch_account, authority, pays=True), _writes(queue, tree), _reads(addresses.NOOP))


@dataclass(frozen=True)
class Pair:
    """A tree and its queue."""

    tree: Pubkey
    queue: Pubkey


def _rollover(discriminator: bytes, *accounts: list[AccountMeta]) -> Instruction:
    return _instruction(discriminator + BUMP, *accounts)


def rollover_state_v1(
    authority: Pubkey, epoch_account: Pubkey, old: Pair, new: Pair, cpi_context: Pubkey
) -> Instruction:
    """Return the instruction that rolls over a V1 state tree and its queue.

    The new accounts are zeroed and exactly rent exempt.
    """
    return _rollover(
        ROLLOVER_STATE_V1,
        _work(epoch_account, authority, pays=True),
        _writes(new.tree, new.queue, old.tree, old.queue, cpi_context),
        _reads(addresses.LIGHT_SYSTEM, addresses.PROTOCOL_CONFIG),
    )


def rollover_address_v1(authority: Pubkey, epoch_account: Pubkey, old: Pair, new: Pair) -> Instruction:
    """Return the instruction that rolls over a V1 address tree and its queue."""
    return _rollover(
        ROLLOVER_ADDRESS_V1,
        _work(epoch_account, authority, pays=True),
        _writes(new.tree, new.queue, old.tree, old.queue),
    )


def rollover_state_v2(
    authority: Pubkey, epoch_account: Pubkey, old: Pair, new: Pair, cpi_context: Pubkey
) -> Instruction:
    """Return the instruction that rolls over a V2 state tree and its output queue."""
    return _rollover(
        ROLLOVER_STATE_V2,
        _writes(epoch_account),
        _signs(authority, writable=True),
        _writes(new.tree, old.tree, new.queue, old.queue, cpi_context),
        _reads(addresses.REGISTERED_REGISTRY),
        _writes(addresses.REGISTRY_CPI_AUTHORITY),
        _reads(addresses.ACCOUNT_COMPRESSION, addresses.PROTOCOL_CONFIG, addresses.LIGHT_SYSTEM),
    )


def rollover_address_v2(authority: Pubkey, epoch_account: Pubkey, old: Pubkey, new: Pubkey) -> Instruction:
    """Return the instruction that rolls over a V2 address tree."""
    return _rollover(
        ROLLOVER_ADDRESS_V2,
        _writes(epoch_account),
        _signs(authority, writable=True),
        _writes(new, old),
        _reads(addresses.REGISTERED_REGISTRY),
        _writes(addresses.REGISTRY_CPI_AUTHORITY),
        _reads(addresses.ACCOUNT_COMPRESSION, addresses.PROTOCOL_CONFIG),
    )
