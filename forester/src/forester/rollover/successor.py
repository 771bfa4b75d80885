"""New accounts for a full tree: keys, sizes, rents, and the instructions that create them.

Source: forester/docs/reference/programs.md, "Rollover". New accounts are zeroed, exempt from rent and of the size of
the old ones; the CPI context has the size of the protocol configuration.
"""

from collections.abc import Callable
from dataclasses import dataclass

from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import CreateAccountParams, create_account

from forester.chain.programs import registry
from forester.chain.programs.addresses import ACCOUNT_COMPRESSION, LIGHT_SYSTEM
from forester.chain.tree_metadata import TreeKind, TreeMetadata
from forester.journal.rollovers import BegunRollover
from forester.rollover.readiness import Rents
from forester.settings import SigningKey

_BUILDERS: dict[TreeKind, Callable[[registry.Forester, registry.Successors], Instruction]] = {
    TreeKind.STATE_V1: registry.rollover_state_v1,
    TreeKind.ADDRESS_V1: registry.rollover_address_v1,
    TreeKind.STATE_V2: registry.rollover_state_v2,
    TreeKind.ADDRESS_V2: registry.rollover_address_v2,
}
UNIT_LIMITS = {
    TreeKind.STATE_V1: 350_000,
    TreeKind.ADDRESS_V1: 500_000,
    TreeKind.STATE_V2: 150_000,
    TreeKind.ADDRESS_V2: 150_000,
}
"""Compute units; measured 230 000, 344 000, 55 000 and 48 000."""


@dataclass(frozen=True)
class Sizes:
    """Bytes of the new accounts, and those of ``Rents.additional``; None for accounts that a kind does not have."""

    tree: int
    queue: int | None = None
    cpi_context: int | None = None
    additional: int | None = None


@dataclass(frozen=True)
class NewAccount:
    """An account to be created."""

    key: SigningKey
    size: int
    lamports: int
    owner: Pubkey

    def creation(self, payer: Pubkey) -> Instruction:
        """Return the instruction that creates it; the key also signs."""
        return create_account(
            CreateAccountParams(
                from_pubkey=payer,
                to_pubkey=self.key.pubkey,
                lamports=self.lamports,
                space=self.size,
                owner=self.owner,
            )
        )


def has_queue(kind: TreeKind) -> bool:
    """Return whether the tree has a queue of its own account."""
    return kind is not TreeKind.ADDRESS_V2


def has_cpi_context(kind: TreeKind) -> bool:
    """Return whether a CPI context comes with the tree."""
    return kind in (TreeKind.STATE_V1, TreeKind.STATE_V2)


def new_keys(tree: TreeMetadata) -> BegunRollover:
    """Generate the keys of all accounts that the kind of a tree needs."""
    return BegunRollover(
        tree=bytes(tree.address),
        new_tree=SigningKey(Keypair()),
        new_queue=SigningKey(Keypair()) if has_queue(tree.kind) else None,
        cpi_context=SigningKey(Keypair()) if has_cpi_context(tree.kind) else None,
    )


def new_accounts(begun: BegunRollover, sizes: Sizes, rents: Rents) -> list[NewAccount]:
    """Return the accounts to be created."""
    wanted = [
        (begun.cpi_context, sizes.cpi_context, rents.cpi_context, LIGHT_SYSTEM),
        (begun.new_queue, sizes.queue, rents.queue, ACCOUNT_COMPRESSION),
        (begun.new_tree, sizes.tree, rents.tree, ACCOUNT_COMPRESSION),
    ]
    return [NewAccount(key, size, rent, owner) for key, size, rent, owner in wanted if key is not None and size]


def rollover_instruction(tree: TreeMetadata, forester: registry.Forester, begun: BegunRollover) -> Instruction:
    """Return the instruction that replaces the old accounts by the new ones."""
    context = begun.cpi_context.pubkey if begun.cpi_context is not None else None
    accounts = registry.Successors(
        new_tree=begun.new_tree.pubkey,
        old_tree=tree.address,
        new_queue=begun.new_queue.pubkey if begun.new_queue is not None else None,
        old_queue=tree.queue if has_queue(tree.kind) else None,
        cpi_context=context,
    )
    instruction = _BUILDERS[tree.kind](forester, accounts)
    # The V1 instruction lacks the flag that the context is written; a creation in the same transaction adds it,
    # but not if it was created before.
    metas = [
        AccountMeta(meta.pubkey, meta.is_signer, meta.is_writable or meta.pubkey == context)
        for meta in instruction.accounts
    ]
    return Instruction(instruction.program_id, bytes(instruction.data), metas)
