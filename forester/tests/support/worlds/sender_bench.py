"""A sender on a simulated chain, with a journal on disk and a clock that is moved by hand."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, cast

from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from forester.chain.rpc_client import Blockhash, BlockHeight, RpcClient, SignatureStatus, SignatureStatuses
from forester.errors import RequestRefused
from forester.journal.database import Journal
from forester.journal.signatures import SignatureStore
from forester.journal.spending import SpendingStore
from forester.observability.metrics import Metrics
from forester.settings import Settings, SigningKey
from forester.transactions.confirm import Confirmations, ConfirmationTimes, Outcome
from forester.transactions.priority_fee import PriorityFee
from forester.transactions.sender import Sender
from forester.transactions.spending import SpendingBudget
from shared.process.retries import Backoff

PAYER = SigningKey(Keypair.from_seed(bytes([7]) * 32))
TREE = b"\x05" * 32
LAST_VALID = 100


def work(number: int = 1) -> Instruction:
    metas = [AccountMeta(PAYER.pubkey, True, False), AccountMeta(Pubkey(TREE), False, True)]
    return Instruction(Pubkey(bytes([9]) * 32), bytes([number]), metas)


@dataclass
class Chain:
    """Lands what is sent, with ``fails`` as its error, unless it ``drops`` everything."""

    journal: SignatureStore
    drops: bool = False
    fails: Any = None
    refuses: Exception | None = None
    height: int = 10
    last_valid: int = LAST_VALID
    balance_lamports: int = 10**9
    keeps_history: bool = True
    second_source: RpcClient | None = None
    behind: int = 0
    sent: list[bytes] = field(default_factory=list)
    landed: dict[Signature, Any] = field(default_factory=dict)
    journaled_before: list[bool] = field(default_factory=list)
    blockhash_calls: int = 0

    async def latest_blockhash(self) -> Blockhash:
        self.blockhash_calls += 1
        return Blockhash(Hash(bytes([3]) * 32), self.last_valid)

    async def send_transaction(self, data: bytes, *, skip_preflight: bool) -> Signature:
        signature = VersionedTransaction.from_bytes(data).signatures[0]
        self.journaled_before.append(str(signature) in [item.signature for item in await self.journal.pending()])
        if self.refuses is not None:
            raise self.refuses
        self.sent.append(data)
        if not self.drops:
            self.landed.setdefault(signature, self.fails)
        return signature

    async def block_height(self) -> BlockHeight:
        return BlockHeight(self.height, self.height)

    async def signature_statuses(
        self, signatures: list[Signature], *, search_history: bool = False
    ) -> SignatureStatuses:
        if search_history and not self.keeps_history:
            raise RequestRefused("Transaction history is not available from this node", code=-32011)
        if self.behind:
            return SignatureStatuses(self.height - self.behind, [None] * len(signatures))
        found = [
            SignatureStatus(7, self.landed[signature], "confirmed") if signature in self.landed else None
            for signature in signatures
        ]
        return SignatureStatuses(self.height, found)

    async def transaction(self, _: Signature) -> None:
        return None

    async def balance(self, _: Pubkey) -> int:
        return self.balance_lamports

    @property
    def signatures(self) -> list[Signature]:
        """Signatures of sent transactions, each once."""
        return list(dict.fromkeys(VersionedTransaction.from_bytes(data).signatures[0] for data in self.sent))

    @property
    def works(self) -> list[int]:
        """Numbers of the work in sent transactions, each once."""
        messages = [VersionedTransaction.from_bytes(data).message for data in self.sent]
        return list(dict.fromkeys(message.instructions[-1].data[0] for message in messages))


class Bench:
    """A sender with its chain, its journal and a clock that is moved by hand."""

    def __init__(self, journal: Journal) -> None:
        self.signatures = SignatureStore(journal)
        self.chain = Chain(self.signatures)
        self.metrics = Metrics()
        self.spending = SpendingStore(journal)
        self.maximum = 10**9
        self.pauses = Backoff(0.0, 0.0)
        self.now = 0.0
        self.clock: Callable[[], float] = lambda: self.now

    @contextlib.asynccontextmanager
    async def sender(self, **options: Any) -> AsyncIterator[Sender]:
        rpc = cast("RpcClient", self.chain)
        async with Confirmations(rpc, pace=ConfirmationTimes(0.01, 0.02)) as confirmations:
            fees = PriorityFee(Settings(**options), rpc)
            yield Sender(
                *(rpc, confirmations, self.signatures, fees, PAYER),
                budget=SpendingBudget(self.spending, self.maximum, clock=lambda: self.now),
                pauses=self.pauses,
                cu_limit=1_000_000,
                metrics=self.metrics,
                clock=self.clock,
            )

    def failed(self, reason: str) -> float:
        return self.metrics.registry.get_sample_value("forester_transactions_failed_total", {"reason": reason}) or 0.0


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110 - the chain that is played has no events
            await asyncio.sleep(0.01)


async def send(sender: Sender, *instructions: Instruction, purpose: str = "test", within_s: float = 60.0) -> Outcome:
    return await sender.send(instructions or [work()], purpose=purpose, subject=TREE, within_s=within_s)
