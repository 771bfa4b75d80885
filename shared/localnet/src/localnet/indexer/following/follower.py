"""Synchronisation of the store with a chain, from its first slot on and through its forks."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from itertools import islice
from typing import ParamSpec, TypeVar

from localnet.chain.network import Network
from localnet.indexer.accounts.tree_accounts import TreeAccount
from localnet.indexer.database.store import Store
from localnet.indexer.decoding.source import Block
from localnet.indexer.faults import Faults
from localnet.indexer.following.audit import Audit
from localnet.indexer.following.engine import ChainNotUnderstood, Engine
from localnet.indexer.following.feed import convert_block, may_make_trees, read_tree, read_trees

_log = logging.getLogger(__name__)

_BLOCKS_AT_ONCE = 64
P = ParamSpec("P")
T = TypeVar("T")


class Follower:
    """Task that applies new blocks of a chain after each call of ``wake``.

    The chain is read in the thread of the event loop; the store is written in another one.
    """

    def __init__(self, network: Network, store: Store, faults: Faults | None = None) -> None:
        self._network = network
        self._store = store
        self._faults = faults or Faults()
        self._engine = Engine(store, self._read_tree)
        self._audit = Audit(store, network)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake = asyncio.Event()
        self._fork: int | None = None
        self._turn = asyncio.Lock()
        self._stopped: str | None = None
        self._ended = False

    @property
    def stopped(self) -> str | None:
        """Reason why indexing stopped; None while it continues."""
        return self._stopped

    def wake(self) -> None:
        """Notify the follower that the chain has advanced."""
        self._wake.set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Follow the chain in the background; the store is up to date when the block begins."""
        await self.catch_up()
        task = asyncio.create_task(self._run())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            # A call of ``settled`` may also be applying blocks: it ends first, and none begins after it.
            self._ended = True
            async with self._turn:
                pass

    async def settled(self) -> None:
        """Wait until the store has all that the chain had at the call, so that a sender can read its transaction."""
        if self._wake.is_set() or self._turn.locked():
            await self.catch_up()

    async def _run(self) -> None:
        try:
            while True:
                await self._wake.wait()
                await self.catch_up()
        except Exception as fault:  # noqa: BLE001 - nothing awaits this task: log and health report the reason
            self._stopped = f"{type(fault).__name__}: {fault}"
            _log.exception("indexing stops")

    async def catch_up(self) -> None:
        """Apply all blocks up to the open slot; a transaction of unknown shape stops it until the next fork."""
        async with self._turn:
            if self._ended:
                return
            self._wake.clear()
            self._loop = asyncio.get_running_loop()
            if self._fork != self._network.fork:
                await self._begin()
            if self._stopped is None:
                try:
                    await self._apply_new()
                except ChainNotUnderstood as fault:
                    self._stopped = str(fault)

    async def rebuild(self) -> None:
        """Empty the store and derive it again from the first slot."""
        async with self._turn:
            await self._in_thread(self._store.wipe)
            self._fork = None
        await self.catch_up()

    async def _begin(self) -> None:
        """Continue a store of this chain and fork, and empty any other."""
        known_slot, _ = await self._in_thread(lambda: self._engine.position)
        block = self._network.block(known_slot) if known_slot else None
        continues = await self._in_thread(self._engine.continues, convert_block(block) if block else None)
        if not continues:
            _log.warning("the store is of another fork or chain: it is derived again")
            await self._in_thread(self._store.wipe)
        self._fork = self._network.fork
        self._stopped = None
        self._audit = Audit(self._store, self._network)
        await self._register_trees()

    async def _register_trees(self) -> None:
        for tree in read_trees(self._network):
            await self._in_thread(self._engine.register, tree)

    async def _apply_new(self) -> None:
        while True:
            position = await self._in_thread(lambda: self._engine.position)
            fork, tip = self._network.fork, self._network.slot - self._faults.lag
            if fork != self._fork:
                self._wake.set()
                return
            blocks = self._next_blocks(position, tip)
            if not blocks:
                if not self._faults.lag:
                    # No await since the chain was read, so both are at the same transaction.
                    self._audit.run()
                await self._in_thread(self._engine.advance, tip)
                return
            for block in blocks:
                await self._in_thread(self._engine.apply_block, block)
                if may_make_trees(block):
                    await self._register_trees()

    async def _in_thread(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Return the result of ``work`` from another thread. Cancelling waits for its end, since it uses the store."""
        running = asyncio.ensure_future(asyncio.to_thread(work, *arguments, **named))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            while not running.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait({running})
            raise

    def _next_blocks(self, position: tuple[int, int], tip: int) -> list[Block]:
        slot, done = position
        found = self._network.blocks_with_transactions(max(slot, self._network.first_slot), tip)
        fresh = (block for block in found if block.slot > slot or len(block.transactions) > done)
        return [convert_block(block) for block in islice(fresh, _BLOCKS_AT_ONCE)]

    def _read_tree(self, key: bytes) -> TreeAccount | None:
        """Read an account from the writing thread."""
        if self._loop is None:
            return None

        async def reading() -> TreeAccount | None:
            return read_tree(self._network, key)

        return asyncio.run_coroutine_threadsafe(reading(), self._loop).result()
