"""A registered forester on a network of its own, with a sender; the clock moves when something was sent."""

from __future__ import annotations

import asyncio
import base64
import struct
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
from localnet_process import Localnet
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.signature import Signature

from forester.chain.programs import registry
from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RpcPool
from forester.chain.tree_metadata import TreeMetadata, decode_tree_metadata
from forester.epoch.phases import SlotRange
from forester.indexer.client import IndexerClient
from forester.journal.database import Journal
from forester.journal.signatures import SignatureStore
from forester.journal.spending import SpendingStore
from forester.observability.metrics import Metrics
from forester.scheduling.eligibility_window import EligibilityWindow
from forester.settings import Settings, SigningKey
from forester.transactions.confirm import Confirmations, ConfirmationTimes, Fate
from forester.transactions.priority_fee import PriorityFee
from forester.transactions.sender import Sender
from forester.transactions.spending import SpendingBudget

EPOCH = 2
_T = TypeVar("_T")


IDLE_S = 1.0
"""The clock moves on after this time also if nothing is sent, so that nobody waits for ever."""


class CountingClient(RpcClient):
    """A counter of what was sent to the network."""

    sent = 0

    async def send_transaction(self, transaction: bytes, *, skip_preflight: bool = False) -> Signature:
        signature = await super().send_transaction(transaction, skip_preflight=skip_preflight)
        self.sent += 1
        return signature


@dataclass
class Kit:
    """Parts of tree processors."""

    net: Localnet
    key: Keypair
    rpc: CountingClient
    indexer: IndexerClient
    journal: Journal
    sender: Sender
    metrics: Metrics

    @property
    def pubkey(self) -> Pubkey:
        return self.key.pubkey()

    @property
    def window(self) -> EligibilityWindow:
        """A window that does not end."""
        return EligibilityWindow(EPOCH, SlotRange(500, 100_000), lambda: 501)

    async def moving(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Confirm what some work sends until it is done: on a slow machine no slot passes for nothing."""
        task, sent, moved_at = asyncio.create_task(work), -1, 0.0
        while not task.done():
            if sent != self.rpc.sent or time.monotonic() - moved_at >= IDLE_S:
                sent, moved_at = self.rpc.sent, time.monotonic()
                await asyncio.to_thread(self.net.call, "localnet_advance", 1)
            await asyncio.wait([task], timeout=0.05)
        return await task

    async def send(self, *work: Instruction) -> None:
        """Send a transaction and require that it succeeded."""
        outcome = await self.moving(self.sender.send(work, purpose="test", subject=b"", within_s=120))
        assert outcome.fate is Fate.CONFIRMED, outcome

    async def register(self) -> None:
        """Make the forester one of the epoch, and go to its active phase."""
        await self.send(registry.register_forester_epoch(self.pubkey, self.pubkey, self.pubkey, EPOCH))
        await asyncio.to_thread(self.net.call, "localnet_warp", 501)
        await self.send(registry.finalize_registration(self.pubkey, self.pubkey, EPOCH))

    async def data(self, address: Pubkey) -> bytes:
        return (await self.rpc.existing_account(address, "an account of the test")).data

    async def tree(self, address: Pubkey) -> TreeMetadata:
        return decode_tree_metadata(address, await self.data(address))

    async def patch(self, address: Pubkey, lamports: int = 0, **numbers: int) -> None:
        """Write 64-bit numbers at offsets (``at240=7``) into an account and give it lamports."""
        account = await self.rpc.existing_account(address, "an account of the test")
        self.net.call("localnet_patchAccount", str(address), {"lamports": account.lamports + lamports})
        for name, value in numbers.items():
            data = base64.b64encode(struct.pack("<Q", value)).decode()
            part = {"offset": int(name.removeprefix("at")), "data": data}
            self.net.call("localnet_patchAccount", str(address), part)
        await asyncio.to_thread(self.net.call, "localnet_advance", 1)


@asynccontextmanager
async def forester_on(
    net: Localnet, folder: Path, key: Keypair | None = None, *, budget_lamports: int = 200 * 10**9
) -> AsyncIterator[Kit]:
    """A forester with a journal in ``folder``; entered again it is one that was restarted."""
    key = key or net.keys["forester"]
    payer, metrics = SigningKey(key), Metrics()
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(RpcPool([net.url]))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        journal = await stack.enter_async_context(await Journal.open(folder / "journal.sqlite"))
        rpc = CountingClient(pool)
        confirmations = await stack.enter_async_context(Confirmations(rpc, pace=ConfirmationTimes(0.05, 1.0)))
        sender = Sender(
            *(rpc, confirmations, SignatureStore(journal), PriorityFee(Settings(), rpc), payer),
            budget=SpendingBudget(SpendingStore(journal), budget_lamports),
            cu_limit=1_000_000,
            metrics=metrics,
        )
        indexer = IndexerClient(session, net.environment["INDEXER_URL"])
        yield Kit(net, key, rpc, indexer, journal, sender, metrics)
