"""Discovery of trees: listed again and again, and kept while their queues hold work.

Source: forester/docs/reference/behaviour.md, "Tree discovery".

A tree that was rolled over stays as long as its queues hold work that can be done. Nullifiers of its leaves may be
queued years later: it is checked in every round, and returns when they fill a batch. A tree that is missing stays for
some discoveries: one short answer of a node must not stop the work on it.
"""

import asyncio
import time
from collections.abc import Callable, Mapping

from solders.pubkey import Pubkey

from forester.chain.batched_accounts import (
    QUEUE_HEAD_BYTES,
    TREE_HEAD_BYTES,
    decode_batched_tree,
    decode_output_queue,
)
from forester.chain.concurrent_accounts import pending_cells
from forester.chain.rpc_client import RpcClient
from forester.chain.tree_metadata import METADATA_BYTES, TreeKind, TreeMetadata, decode_tree_metadata
from forester.chain.trees import TREE_DISCRIMINATORS, TreeFilter, list_trees, read_group
from forester.errors import MalformedAccount
from forester.observability.health import HealthBoard
from forester.waiting import occurs_within
from shared.process.logs import get_logger

_log = get_logger(__name__)

NOTIFIED_SPACING_S = 5.0
"""Minimum pause before a notified refresh: each one costs three getProgramAccounts."""

ABSENT_DISCOVERIES = 3
"""A tree is removed when this many consecutive discoveries did not find it."""

NONE_CHOSEN_S = 60.0
"""While no tree is chosen, the trees are read at least this often; that is reported after this time at the earliest."""

Trees = Mapping[Pubkey, TreeMetadata]


async def has_work(rpc: RpcClient, tree: TreeMetadata, *, if_malformed: bool = False) -> bool:
    """Return whether the queues of a tree hold elements that can be processed now, ``if_malformed`` if unreadable."""
    try:
        return await _has_work(rpc, tree)
    except MalformedAccount as error:
        _log.warning("tree_malformed", tree=str(tree.address), error=error.detail)
        return if_malformed


async def _has_work(rpc: RpcClient, tree: TreeMetadata) -> bool:
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


def _why_none(wanted: TreeFilter, trees: int) -> str:
    """Return the reason why no tree is chosen of those on the chain."""
    if not trees:
        return "no tree is worked on: the RPC node returned none; correct --rpc-url"
    options = {
        "--group-authority": wanted.group is not None,
        "--processor-mode": wanted.mode != "all",
        "--tree-id": bool(wanted.ids),
    }
    given = " or ".join(option for option, is_set in options.items() if is_set)
    if given:
        return f"no tree is worked on: none of the {trees} trees on the chain is chosen; correct {given}"
    return (
        f"no tree is worked on: none of the {trees} trees on the chain belongs to the registry's group and has a "
        "network fee; check that --rpc-url is of the intended network"
    )


class Discovery:
    """The trees that are worked on, kept up to date; ``changed`` is called with all of them when they differ.

    ``board`` has the condition ``trees`` when several consecutive readings over ``none_chosen_s`` found no chosen tree.
    """

    def __init__(
        self,
        rpc: RpcClient,
        wanted: TreeFilter,
        *,
        interval_s: float,
        changed: Callable[[Trees], None],
        board: HealthBoard,
        spacing_s: float = NOTIFIED_SPACING_S,
        none_chosen_s: float = NONE_CHOSEN_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rpc = rpc
        self._wanted = wanted
        self._interval_s = interval_s
        self._changed = changed
        self._board = board
        self._spacing_s = min(spacing_s, interval_s or spacing_s)
        self._none_chosen_s = none_chosen_s
        self._clock = clock
        self._none_chosen: list[float] = []
        """Times of the first consecutive readings that found no chosen tree, at most ABSENT_DISCOVERIES."""

        self._group: Pubkey | None = None
        """The group of the registry as last read: a node without it must not add the trees of all groups."""

        self._known: frozenset[Pubkey] = frozenset()
        self._absences: dict[Pubkey, int] = {}
        self._again = asyncio.Event()
        self.trees: Trees = {}

    async def refresh(self) -> None:
        """Read the trees once. Raises EndpointError and MalformedAccount, and then changes nothing."""
        self._group = await read_group(self._rpc, self._wanted) or self._group
        found, known = await list_trees(self._rpc, self._wanted, self._group)
        retired = [tree for tree in found.values() if tree.metadata.is_rolled_over]
        # A wrong answer must not end the work on a tree.
        working = await asyncio.gather(
            *(has_work(self._rpc, tree, if_malformed=tree.address in self.trees) for tree in retired)
        )
        drained = {tree.address for tree, more in zip(retired, working, strict=True) if not more}
        trees = {address: tree for address, tree in found.items() if address not in drained}
        trees |= self._absent(found)
        self._known = known
        self._report_chosen(found)
        if trees != self.trees:
            new, gone = len(trees.keys() - self.trees.keys()), len(self.trees.keys() - trees.keys())
            _log.info("trees_changed", trees=len(trees), new=new, gone=gone, drained=len(drained))
            self.trees = trees
            self._changed(trees)

    def _report_chosen(self, found: Trees) -> None:
        """Report whether trees are chosen; those without work are, because they may get some later."""
        if found:
            self._none_chosen = []
            self._board.clear("trees")
            return
        now = self._clock()
        self._none_chosen = [*self._none_chosen, now][:ABSENT_DISCOVERIES]
        if len(self._none_chosen) == ABSENT_DISCOVERIES and now - self._none_chosen[0] >= self._none_chosen_s:
            self._board.report("trees", _why_none(self._wanted, len(self._known)))

    def _absent(self, found: Trees) -> Trees:
        """Return the trees that were not found and stay."""
        counts = {address: self._absences.get(address, 0) + 1 for address in self.trees.keys() - found.keys()}
        self._absences = {address: count for address, count in counts.items() if count < ABSENT_DISCOVERIES}
        return {address: self.trees[address] for address in self._absences}

    async def run(self) -> None:
        """Read the trees at every interval, and soon after one was noticed, forever."""
        while True:
            interval_s = self._interval_s
            if self._none_chosen:
                interval_s = min(interval_s or self._none_chosen_s, self._none_chosen_s)
            await asyncio.sleep(self._spacing_s)
            is_noticed = await occurs_within(self._again, interval_s - self._spacing_s if interval_s else None)
            self._again.clear()
            try:
                await self.refresh()
            except BaseException:
                if is_noticed:
                    self._again.set()  # a notice is not lost with its reading
                raise

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
