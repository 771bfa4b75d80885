"""Reader of a V2 tree with its output queue: a slice shows waiting work, the whole account has the hash chains.

Both accounts come in one call, so that both show the same moment.
"""

import asyncio

from forester.chain.batched_accounts import decode_batched_tree
from forester.chain.rpc_client import RpcClient
from forester.chain.tree_metadata import TreeKind, TreeMetadata
from forester.errors import AccountMissing
from forester.pipeline_v2.failures import HeadOutdated
from forester.pipeline_v2.staging.tree_head import TreeHead, TreeOutline, outline_bytes

_USUAL_ROOT_HISTORY = 200
_POLL_S = 0.4


class HeadReader:
    """Reader of one tree."""

    def __init__(self, rpc: RpcClient, tree: TreeMetadata) -> None:
        self._rpc = rpc
        self._addresses = [tree.address] + ([tree.queue] if tree.kind is TreeKind.STATE_V2 else [])
        self._slice = outline_bytes(_USUAL_ROOT_HISTORY)

    async def outline(self) -> TreeOutline:
        """Read a slice of a few kilobytes; raises EndpointError, AccountMissing and MalformedAccount."""
        tree, queue = await self._read(self._slice)
        needed = outline_bytes(decode_batched_tree(tree).root_history_capacity)
        if needed > self._slice:
            self._slice = needed
            tree, queue = await self._read(needed)
        return TreeOutline.read(tree, queue)

    async def head(self) -> TreeHead:
        """Read whole accounts; raises as ``outline``."""
        return TreeHead.read(*await self._read(None))

    async def slot(self) -> int:
        """Return a slot that contains all earlier reads."""
        return await self._rpc.slot()

    async def wait_for_slot(self, slot: int, within_s: float) -> None:
        """Wait until the node has confirmed a slot; HeadOutdated if that takes longer than ``within_s`` seconds."""
        try:
            async with asyncio.timeout(within_s):
                while await self._rpc.slot() < slot:  # noqa: ASYNC110 - another process advances
                    await asyncio.sleep(_POLL_S)
        except TimeoutError as error:
            raise HeadOutdated(f"the node has not confirmed slot {slot} within {within_s:g} s") from error

    async def _read(self, length: int | None) -> tuple[bytes, bytes | None]:
        accounts = await self._rpc.accounts(self._addresses, length=length)
        found: list[bytes] = []
        for address, account in zip(self._addresses, accounts, strict=True):
            if account is None:
                raise AccountMissing(f"the tree or queue {address} does not exist; is this the right cluster?")
            found.append(account.data)
        return found[0], found[1] if len(found) > 1 else None
