"""Discovery of trees: found by slices of the programs' accounts, narrowed by the settings.

Source: forester/docs/reference/behaviour.md, "Tree discovery".

A tree that was rolled over stays as long as its queues hold work that can be done. Nullifiers of its leaves may be
queued years later: it is checked in every round, and returns when they fill a batch. A tree that is missing stays for
some discoveries: one short answer of a node must not stop the work on it.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from solders.pubkey import Pubkey

from forester.chain import bounds
from forester.chain.batched_accounts import (
    QUEUE_HEAD_BYTES,
    TREE_HEAD_BYTES,
    decode_batched_tree,
    decode_output_queue,
)
from forester.chain.concurrent_accounts import pending_cells
from forester.chain.programs.addresses import ACCOUNT_COMPRESSION, REGISTERED_PROGRAM
from forester.chain.registry_accounts import decode_registered_program
from forester.chain.rpc_client import RpcClient
from forester.chain.tree_metadata import (
    ADDRESS_TREE_V1_DISCRIMINATOR,
    BATCHED_TREE_DISCRIMINATOR,
    METADATA_BYTES,
    STATE_TREE_V1_DISCRIMINATOR,
    TreeKind,
    TreeMetadata,
    decode_tree_metadata,
)
from forester.errors import MalformedAccount, MalformedAnswer
from forester.settings import Settings
from forester.settings.model import ProcessorMode
from forester.waiting import occurs_within
from shared.process.logs import get_logger

_log = get_logger(__name__)

TREE_DISCRIMINATORS = (BATCHED_TREE_DISCRIMINATOR, STATE_TREE_V1_DISCRIMINATOR, ADDRESS_TREE_V1_DISCRIMINATOR)

NOTIFIED_SPACING_S = 5.0
"""Minimum pause before a notified refresh: each one costs three getProgramAccounts."""

ABSENT_DISCOVERIES = 3
"""A tree is removed when this many consecutive discoveries did not find it."""

Trees = Mapping[Pubkey, TreeMetadata]


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
        if tree.metadata.network_fee == 0:
            return False  # served by the key in its metadata, not by foresters of epochs
        if group is not None and tree.metadata.owner != group:
            return False
        if self.ids and tree.address not in self.ids:
            return False
        return self.mode == "all" or tree.kind.is_batched == (self.mode == "v2")


async def find_trees(rpc: RpcClient, wanted: TreeFilter) -> dict[Pubkey, TreeMetadata]:
    """Return the chosen trees, including those that were rolled over; EndpointError if a kind could not be read."""
    return (await _read_trees(rpc, wanted, await _group(rpc, wanted)))[0]


async def _read_trees(
    rpc: RpcClient, wanted: TreeFilter, group: Pubkey | None
) -> tuple[dict[Pubkey, TreeMetadata], frozenset[Pubkey]]:
    """Return the chosen trees, and the addresses of all accounts that the node returned."""
    reads = [
        rpc.program_accounts(ACCOUNT_COMPRESSION, memcmp=[(0, discriminator)], length=METADATA_BYTES)
        for discriminator in TREE_DISCRIMINATORS
    ]
    found = [account for part in await asyncio.gather(*reads) for account in part]
    trees: dict[Pubkey, TreeMetadata] = {}
    for account in found:
        try:
            tree = decode_tree_metadata(account.address, account.data)
        except MalformedAccount as error:
            _log.warning("tree_malformed", tree=str(account.address), error=error.detail)
            continue
        if wanted.chooses(tree, group):
            trees[tree.address] = tree
    if len(trees) > bounds.MAXIMUM_TREES:
        text = f"{len(trees)} trees of the group, more than {bounds.MAXIMUM_TREES}"
        raise MalformedAnswer(f"the RPC node returned {text}; choose trees with --tree-id, or use another node")
    return trees, frozenset(account.address for account in found)


async def _group(rpc: RpcClient, wanted: TreeFilter) -> Pubkey | None:
    if wanted.group is not None:
        return wanted.group
    account = await rpc.account(REGISTERED_PROGRAM)
    return None if account is None else decode_registered_program(account.data).group


async def has_work(rpc: RpcClient, tree: TreeMetadata) -> bool:
    """Return whether the queues of a tree hold elements that can be processed now."""
    if not tree.kind.is_batched:
        queue = await rpc.existing_account(tree.queue, "a V1 queue")
        return next(pending_cells(queue.data), None) is not None
    addresses = [tree.address, tree.queue] if tree.kind is TreeKind.STATE_V2 else [tree.address]
    head, *output = await rpc.accounts(addresses, length=max(TREE_HEAD_BYTES, QUEUE_HEAD_BYTES))
    if head is None:
        return True  # the node has just listed it
    queues = [decode_batched_tree(head.data).queue]
    queues += [decode_output_queue(item.data).queue for item in output if item is not None]
    return any(queue.ready_zkp_batches for queue in queues)


class Discovery:
    """The trees that are worked on, kept up to date; ``changed`` is called with all of them when they differ."""

    def __init__(
        self,
        rpc: RpcClient,
        wanted: TreeFilter,
        *,
        interval_s: float,
        changed: Callable[[Trees], None],
        spacing_s: float = NOTIFIED_SPACING_S,
    ) -> None:
        self._rpc = rpc
        self._wanted = wanted
        self._interval_s = interval_s
        self._changed = changed
        self._spacing_s = min(spacing_s, interval_s or spacing_s)
        self._group: Pubkey | None = None
        """The group of the registry as last read: a node without it must not add the trees of all groups."""

        self._known: frozenset[Pubkey] = frozenset()
        self._absences: dict[Pubkey, int] = {}
        self._again = asyncio.Event()
        self.trees: Trees = {}

    async def refresh(self) -> None:
        """Read the trees once. Raises EndpointError and MalformedAccount, and then changes nothing."""
        self._group = await _group(self._rpc, self._wanted) or self._group
        found, known = await _read_trees(self._rpc, self._wanted, self._group)
        retired = [tree for tree in found.values() if tree.metadata.is_rolled_over]
        working = await asyncio.gather(*(has_work(self._rpc, tree) for tree in retired))
        drained = {tree.address for tree, more in zip(retired, working, strict=True) if not more}
        trees = {address: tree for address, tree in found.items() if address not in drained}
        trees |= self._absent(found)
        self._known = known
        if trees != self.trees:
            new, gone = len(trees.keys() - self.trees.keys()), len(self.trees.keys() - trees.keys())
            _log.info("trees_changed", trees=len(trees), new=new, gone=gone, drained=len(drained))
            self.trees = trees
            self._changed(trees)

    def _absent(self, found: Trees) -> Trees:
        """Return the trees that were not found and stay."""
        counts = {address: self._absences.get(address, 0) + 1 for address in self.trees.keys() - found.keys()}
        self._absences = {address: count for address, count in counts.items() if count < ABSENT_DISCOVERIES}
        return {address: self.trees[address] for address in self._absences}

    async def run(self) -> None:
        """Read the trees at every interval, and soon after one was noticed, forever."""
        rest_s = self._interval_s - self._spacing_s if self._interval_s else None
        while True:
            await asyncio.sleep(self._spacing_s)
            await occurs_within(self._again, rest_s)
            self._again.clear()
            await self.refresh()

    def notice(self, address: Pubkey, data: bytes) -> None:
        """Record a changed account: an unknown tree, or one that was rolled over, is read soon."""
        if data[:8] not in TREE_DISCRIMINATORS or len(data) < METADATA_BYTES:
            return
        known = self.trees.get(address)
        if known is not None:
            try:
                now = decode_tree_metadata(address, data)
            except MalformedAccount:
                return
            if now.metadata.is_rolled_over != known.metadata.is_rolled_over:
                self._again.set()
        elif address not in self._known:
            self._again.set()

    def refresh_soon(self) -> None:
        """Read the trees as soon as the spacing allows."""
        self._again.set()
