"""Listing of trees: slices of the programs' accounts, narrowed by the settings.

Source: forester/docs/reference/behaviour.md, "Tree discovery".
"""

import asyncio
from collections.abc import Sized
from dataclasses import dataclass
from typing import Self

from solders.pubkey import Pubkey

from forester.chain import bounds
from forester.chain.programs.addresses import ACCOUNT_COMPRESSION, REGISTERED_PROGRAM
from forester.chain.registry_accounts import decode_registered_program
from forester.chain.rpc_client import Account, RpcClient
from forester.chain.tree_metadata import (
    ADDRESS_TREE_V1_DISCRIMINATOR,
    BATCHED_TREE_DISCRIMINATOR,
    METADATA_BYTES,
    STATE_TREE_V1_DISCRIMINATOR,
    TreeMetadata,
    decode_tree_metadata,
)
from forester.errors import MalformedAccount, MalformedAnswer
from forester.settings import Settings
from forester.settings.model import ProcessorMode
from shared.process.logs import get_logger

_log = get_logger(__name__)

TREE_DISCRIMINATORS = (BATCHED_TREE_DISCRIMINATOR, STATE_TREE_V1_DISCRIMINATOR, ADDRESS_TREE_V1_DISCRIMINATOR)


@dataclass(frozen=True)
class TreeFilter:
    """Selection of trees by the settings; empty ``ids`` and ``group`` None choose all."""

    ids: tuple[Pubkey, ...] = ()
    group: Pubkey | None = None
    mode: ProcessorMode = "all"

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Return the filter of the settings, which may leave the group to the registry."""
        return cls(settings.tree_ids, settings.group_authority, settings.processor_mode)

    def chooses(self, tree: TreeMetadata, group: Pubkey | None) -> bool:
        """Return whether a tree is chosen; ``group`` is the owner that all trees must have."""
        if not is_served(tree) or (group is not None and tree.metadata.owner != group):
            return False
        if self.ids and tree.address not in self.ids:
            return False
        return self.mode == "all" or tree.kind.is_batched == (self.mode == "v2")


def is_served(tree: TreeMetadata) -> bool:
    """Return whether foresters of epochs serve a tree; one without a fee is served by the key in its metadata."""
    return tree.metadata.network_fee > 0


async def read_tree_accounts(rpc: RpcClient, length: int) -> list[Account]:
    """Return the first ``length`` bytes of every tree; EndpointError if a kind could not be read."""
    reads = [
        rpc.program_accounts(ACCOUNT_COMPRESSION, memcmp=[(0, discriminator)], length=length)
        for discriminator in TREE_DISCRIMINATORS
    ]
    return [account for part in await asyncio.gather(*reads) for account in part]


def require_few(trees: Sized, remedy: str) -> None:
    """Raise MalformedAnswer for more trees than any cluster has."""
    if len(trees) > bounds.MAXIMUM_TREES:
        raise MalformedAnswer(f"the RPC node returned {len(trees)} trees, more than {bounds.MAXIMUM_TREES}; {remedy}")


async def find_trees(rpc: RpcClient, wanted: TreeFilter) -> dict[Pubkey, TreeMetadata]:
    """Return the chosen trees, including those that were rolled over; EndpointError if a kind could not be read."""
    return (await list_trees(rpc, wanted, await read_group(rpc, wanted)))[0]


async def list_trees(
    rpc: RpcClient, wanted: TreeFilter, group: Pubkey | None
) -> tuple[dict[Pubkey, TreeMetadata], frozenset[Pubkey]]:
    """Return the chosen trees, and the addresses of all trees, including malformed ones. Raises EndpointError."""
    found = await read_tree_accounts(rpc, METADATA_BYTES)
    trees: dict[Pubkey, TreeMetadata] = {}
    for account in found:
        try:
            tree = decode_tree_metadata(account.address, account.data)
        except MalformedAccount as error:
            _log.warning("tree_malformed", tree=str(account.address), error=error.detail)
            continue
        if wanted.chooses(tree, group):
            trees[tree.address] = tree
    require_few(trees, "choose trees with --tree-id, or use another node")
    return trees, frozenset(account.address for account in found)


async def read_group(rpc: RpcClient, wanted: TreeFilter) -> Pubkey | None:
    """Return the group of a filter, else of the registry; None without a registry. Raises EndpointError."""
    if wanted.group is not None:
        return wanted.group
    account = await rpc.account(REGISTERED_PROGRAM)
    return None if account is None else decode_registered_program(account.data).group
