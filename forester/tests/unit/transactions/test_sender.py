"""The sender on a chain that is played, with a journal on disk: what is signed, repeated, settled and counted."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
import pytest_asyncio
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.system_program import CreateAccountParams, create_account
from solders.transaction import VersionedTransaction

from forester.chain.rpc_client import Blockhash, BlockHeight, RpcClient, SignatureStatus, SignatureStatuses
from forester.errors import EndpointUnreachable, InsufficientFunds, RequestRefused
from forester.journal.database import Journal
from forester.journal.signatures import SentTransaction, SignatureStore
from forester.journal.spending import SpendingStore
from forester.observability.metrics import Metrics
from forester.settings import Settings, SigningKey
from forester.transactions.confirm import Confirmations, ConfirmationTimes, Fate, Outcome
from forester.transactions.expiry import PAUSES
from forester.transactions.priority_fee import PriorityFee
from forester.transactions.sender import Sender
from forester.transactions.spending import BudgetExceeded, SpendingBudget
from shared.retries import Backoff

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


@pytest_asyncio.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with await Journal.open(tmp_path / "journal") as journal:
        yield Bench(journal)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110 - the chain that is played has no events
            await asyncio.sleep(0.01)


async def send(sender: Sender, *instructions: Instruction, within_s: float = 60.0) -> Outcome:
    return await sender.send(instructions or [work()], purpose="test", subject=TREE, within_s=within_s)


async def test_send__landed__was_in_the_journal_before_and_is_not_after(bench: Bench) -> None:
    async with bench.sender(priority_fee_microlamports=5) as sender:
        outcomes = [await send(sender, work(number)) for number in range(3)]
        assert {outcome.fate for outcome in outcomes} == {Fate.CONFIRMED}
        assert bench.chain.journaled_before == [True] * 3
        assert await bench.signatures.pending() == []
        assert bench.chain.blockhash_calls == 1, "kept for a few seconds"
        bench.now = 6.0
        await send(sender, work(4))
        assert bench.chain.blockhash_calls == 2


async def test_send__refused__reports_and_counts_and_the_same_work_is_another_transaction(bench: Bench) -> None:
    bench.chain.fails = {"InstructionError": [2, {"Custom": 14301}]}
    async with bench.sender() as sender:
        outcome = await send(sender)
        assert outcome.fate is Fate.REFUSED
        assert outcome.error is not None
        assert outcome.error.code == 14301
        assert (outcome.error.instruction, outcome.position) == (2, 1), "the limit of compute units comes first"
        assert bench.failed("batch_not_ready") == 1
        bench.chain.fails = {"InstructionError": [2, {"Custom": 13006}]}
        outcome = await send(sender)
        assert outcome.error is not None
        assert outcome.error.code == 13006, "its own fate, with the blockhash of the first"
        assert bench.failed("execution_failed") == 1
        bench.chain.fails = None
        assert (await send(sender)).fate is Fate.CONFIRMED
        assert len(bench.chain.signatures) == 3
    assert await bench.signatures.pending() == []


async def test_send__fate_unknown__stays_in_the_journal_and_is_repeated_not_signed_again(bench: Bench) -> None:
    bench.chain.drops = True
    async with bench.sender() as sender:
        sending = asyncio.create_task(send(sender))
        await until(lambda: bool(bench.chain.sent))
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        assert len(await bench.signatures.pending()) == 1
        assert await sender.settle_pending() == 1, "it may land yet"
        bench.chain.drops = False
        assert (await send(sender)).fate is Fate.CONFIRMED
        assert len(bench.chain.signatures) == 1
        assert await bench.signatures.pending() == []


async def test_send__fate_unknown_for_longer_than_is_remembered__is_signed_again(bench: Bench) -> None:
    bench.chain.drops = True
    async with bench.sender() as sender:
        sending = asyncio.create_task(send(sender))
        await until(lambda: bool(bench.chain.sent))
        sending.cancel()
        await asyncio.wait([sending])
        bench.now, bench.chain.drops = 181.0, False
        assert (await send(sender)).fate is Fate.CONFIRMED
        assert len(bench.chain.signatures) == 2


async def test_send__long_after_a_transaction_was_given_up__forgets_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.chain.drops = True
    async with bench.sender() as sender:
        assert (await send(sender, within_s=0.5)).fate is Fate.DEADLINE_PASSED
        assert len(await bench.signatures.pending()) == 1
        bench.now, bench.chain.drops, bench.chain.last_valid = 200.0, False, LAST_VALID + 301
        assert (await send(sender, work(2))).fate is Fate.CONFIRMED
        assert len(await bench.signatures.pending()) == 1, "the height is a node's word"
        later = time.time() + 601
        monkeypatch.setattr(time, "time", lambda: later)
        bench.now, bench.chain.last_valid = 400.0, LAST_VALID + 602
        assert (await send(sender, work(3))).fate is Fate.CONFIRMED
    assert await bench.signatures.pending() == []


async def test_send__expired__is_settled_and_counted(bench: Bench) -> None:
    bench.chain.drops, bench.chain.height = True, LAST_VALID + 1
    async with bench.sender() as sender:
        assert (await send(sender)).fate is Fate.EXPIRED
        assert bench.chain.blockhash_calls == 1
        assert (await send(sender)).fate is Fate.EXPIRED
        assert bench.chain.blockhash_calls == 2, "not with the expired one again"
    assert bench.failed("confirmation_timeout") == 2
    assert await bench.signatures.pending() == []


async def test_send__node_says_that_everything_expired__signs_a_handful_and_not_hundreds(bench: Bench) -> None:
    """20 s at a twentieth of the usual pauses: 20 callers with work of their own, as the trees of a forester."""
    bench.chain.drops, bench.chain.height = True, LAST_VALID + 1
    bench.clock, bench.pauses = time.monotonic, Backoff(PAUSES.first_s / 20, PAUSES.longest_s / 20)
    ends = time.monotonic() + 1.0
    async with bench.sender() as sender:

        async def keep_sending(number: int) -> None:
            while (remaining_s := ends - time.monotonic()) > 0:
                await send(sender, work(number), within_s=remaining_s)

        await asyncio.gather(*(keep_sending(number) for number in range(20)))
        assert 12 <= len(bench.chain.signatures) <= 12 + 6, "those in flight at once, and a few to see"
        bench.chain.drops, bench.chain.height = False, 10
        assert (await send(sender)).fate is Fate.CONFIRMED
        began = time.monotonic()
        assert (await send(sender, work(2))).fate is Fate.CONFIRMED
        assert time.monotonic() - began < 1.0, "one that landed ends the pauses"


async def test_send__budget_of_the_hour_spent__signs_nothing_more_after_a_restart_either(bench: Bench) -> None:
    bench.maximum = 3 * 5000 + 4999
    async with bench.sender() as sender:
        for number in range(3):
            assert (await send(sender, work(number))).fate is Fate.CONFIRMED
        with pytest.raises(BudgetExceeded):
            await send(sender, work(3))
        assert bench.failed("budget_exceeded") == 1
    async with bench.sender() as sender:
        with pytest.raises(BudgetExceeded, match="--spending-budget-sol-per-hour"):
            await send(sender, work(3))
        assert len(bench.chain.signatures) == 3
        assert await bench.signatures.pending() == []
        bench.now += 3660
        assert (await send(sender, work(3))).fate is Fate.CONFIRMED, "the hour has room again"


async def test_send__expired_or_refused__counts_anyway(bench: Bench) -> None:
    bench.maximum = 2 * 5000
    bench.chain.drops, bench.chain.height = True, LAST_VALID + 1
    async with bench.sender() as sender:
        assert (await send(sender)).fate is Fate.EXPIRED
        bench.chain.drops, bench.chain.height = False, 10
        bench.chain.fails = {"InstructionError": [1, {"Custom": 6004}]}
        assert (await send(sender)).fate is Fate.REFUSED
        with pytest.raises(BudgetExceeded):
            await send(sender)
    assert len(bench.chain.signatures) == 2


async def test_send__price_and_rent__count_for_the_budget(bench: Bench) -> None:
    new = Keypair.from_seed(bytes([8]) * 32)
    creation = create_account(
        CreateAccountParams(
            from_pubkey=PAYER.pubkey, to_pubkey=new.pubkey(), lamports=70_000, space=10, owner=PAYER.pubkey
        )
    )
    cost = 2 * 5000 + 1_000_000 * 20_000 // 1_000_000 + 70_000
    for maximum, signed in ((cost - 1, 0), (cost, 1)):
        bench.maximum = maximum
        async with bench.sender(priority_fee_microlamports=20_000) as sender:
            with contextlib.suppress(BudgetExceeded):
                await sender.send([creation], purpose="test", subject=TREE, within_s=60, signers=[new])
        assert len(bench.chain.signatures) == signed


async def test_send__no_time_left__is_not_sent(bench: Bench) -> None:
    async with bench.sender() as sender:
        assert (await send(sender, within_s=0.0)).fate is Fate.DEADLINE_PASSED
    assert bench.chain.sent == []
    assert bench.failed("deadline_exceeded") == 1


async def test_send__node_refuses_the_transaction__raises_and_nothing_stays_pending(bench: Bench) -> None:
    bench.chain.refuses = RequestRefused("too large", code=-32602)
    async with bench.sender() as sender:
        with pytest.raises(RequestRefused):
            await send(sender)
    assert bench.failed("send_failed") == 1
    assert await bench.signatures.pending() == []


async def test_send__two_callers_with_the_same_work__wait_for_each_other(bench: Bench) -> None:
    async with bench.sender() as sender:
        outcomes = await asyncio.gather(send(sender), send(sender), send(sender, work(2)))
    assert {outcome.fate for outcome in outcomes} == {Fate.CONFIRMED}
    assert len(bench.chain.signatures) == 3


async def test_send__backlog_of_v1_waits__epochs_and_batches_are_signed_before_it(bench: Bench) -> None:
    bench.chain.drops = True
    async with bench.sender() as sender, asyncio.TaskGroup() as tasks:
        for number, purpose in enumerate([*["nullify"] * 30, "v2_batches", "report"]):
            tasks.create_task(sender.send([work(number)], purpose=purpose, subject=bytes([number]), within_s=60))
        await until(lambda: len(bench.chain.signatures) == 12)
        bench.chain.drops = False
    messages = [VersionedTransaction.from_bytes(data).message for data in bench.chain.sent]
    numbers = list(dict.fromkeys(message.instructions[-1].data[0] for message in messages))
    assert {30, 31} <= set(numbers[:24]), "before those of the backlog that waited longer"


@pytest.mark.parametrize("dropped", [True, False], ids=["dropped by the nodes", "refused by the chain"])
async def test_send__payer_without_money__nothing_more_is_sent_until_it_is_restored(
    bench: Bench, dropped: bool
) -> None:
    bench.chain.balance_lamports = 4999
    if dropped:
        bench.chain.drops, bench.chain.height = True, LAST_VALID + 1
    else:
        bench.chain.fails = "InsufficientFundsForFee"
    async with bench.sender() as sender:
        for _ in range(2):
            outcome = await send(sender)
            assert outcome.fate is Fate.REFUSED
            assert isinstance(outcome.error, InsufficientFunds)
            assert sender.short_of_funds
        assert len(bench.chain.signatures) == 1
        bench.chain.balance_lamports, bench.chain.drops, bench.chain.fails = 10**9, False, None
        bench.chain.height = 10
        sender.funds_restored()
        assert (await send(sender)).fate is Fate.CONFIRMED
        assert not sender.short_of_funds


@pytest.mark.parametrize(
    "error", [{"InsufficientFundsForRent": {"account_index": 1}}, {"InstructionError": [1, {"Custom": 6025}]}]
)
async def test_send__another_account_than_the_payers_lacks_lamports__stops_nobody_else(
    bench: Bench, error: object
) -> None:
    bench.chain.fails = error
    async with bench.sender() as sender:
        outcome = await send(sender)
        assert (outcome.fate, sender.short_of_funds) == (Fate.REFUSED, False)
        assert not isinstance(outcome.error, InsufficientFunds)
        bench.chain.fails = None
        assert (await send(sender, work(2))).fate is Fate.CONFIRMED


async def test_send__payer_would_keep_too_little_for_its_rent__nothing_more_is_sent(bench: Bench) -> None:
    bench.chain.fails = {"InsufficientFundsForRent": {"account_index": 0}}
    async with bench.sender() as sender:
        for _ in range(2):
            outcome = await send(sender)
            assert isinstance(outcome.error, InsufficientFunds)
        assert sender.short_of_funds
        assert len(bench.chain.signatures) == 1


async def test_send__funds_run_out_while_the_fate_is_unknown__is_no_refusal(bench: Bench) -> None:
    bench.chain.drops = True
    async with bench.sender() as sender:
        await send(sender, within_s=0.5)
        sender.short_of_funds = True
        outcomes = [await send(sender), await send(sender, work(2))]
        assert [outcome.fate for outcome in outcomes] == [Fate.DEADLINE_PASSED, Fate.REFUSED]
        assert all(isinstance(outcome.error, InsufficientFunds) for outcome in outcomes)


@pytest.mark.parametrize("keeps_history", [True, False])
async def test_settle_pending__after_a_restart__forgets_what_landed_or_expired(
    bench: Bench, keeps_history: bool
) -> None:
    bench.chain.keeps_history = keeps_history
    signatures = [Signature(bytes([number]) * 64) for number in (1, 2, 3)]
    for signature, last_valid in zip(signatures, (50, 5, 50), strict=True):
        await bench.signatures.add(SentTransaction(str(signature), "test", TREE, last_valid))
    bench.chain.landed[signatures[0]] = None
    async with bench.sender() as sender:
        assert await sender.settle_pending() == 1
        assert [item.signature for item in await bench.signatures.pending()] == [str(signatures[2])]


async def test_settle_pending__statuses_of_a_node_that_lags__keeps_what_may_have_landed_since(bench: Bench) -> None:
    await bench.signatures.add(SentTransaction(str(Signature(bytes([1]) * 64)), "test", TREE, 5))
    bench.chain.behind = 1
    async with bench.sender() as sender:
        assert await sender.settle_pending() == 1
        bench.chain.behind = 0
        assert await sender.settle_pending() == 0


async def test_send__earlier_process_sent_for_the_same_tree__is_waited_for(bench: Bench) -> None:
    left = Signature(bytes([1]) * 64)
    await bench.signatures.add(SentTransaction(str(left), "test", TREE, LAST_VALID))
    async with bench.sender() as sender:
        other = await sender.send([work(2)], purpose="other", subject=TREE, within_s=60.0)
        assert other.fate is Fate.CONFIRMED
        assert not await sender.wait_for_earlier("test", TREE, 0.05)
        sent = len(bench.chain.sent)
        assert (await send(sender, within_s=0.5)).fate is Fate.DEADLINE_PASSED
        assert len(bench.chain.sent) == sent
        bench.chain.landed[left] = None
        assert await sender.wait_for_earlier("test", TREE, 60.0)
        assert (await send(sender)).fate is Fate.CONFIRMED


async def test_send__earlier_process_may_have_done_the_work__signs_nothing_before_the_caller_reads_again(
    bench: Bench,
) -> None:
    left = Signature(bytes([1]) * 64)
    await bench.signatures.add(SentTransaction(str(left), "test", TREE, LAST_VALID))
    bench.chain.landed[left] = None
    async with bench.sender() as sender:
        assert [(await send(sender)).fate for _ in range(2)] == [Fate.EXPIRED, Fate.CONFIRMED]
    assert len(bench.chain.signatures) == 1


async def test_send__killed_between_journal_and_node__next_process_sends_the_same_transaction_again(
    bench: Bench,
) -> None:
    bench.chain.drops = True
    async with bench.sender() as sender:
        assert (await send(sender, within_s=0.5)).fate is Fate.DEADLINE_PASSED
    lost = bench.chain.signatures
    assert len(lost) == 1
    bench.chain.drops = False
    async with bench.sender() as sender:
        assert await sender.wait_for_earlier("test", TREE, 60.0)
        assert bench.chain.signatures == lost, "nothing else was signed"
        assert list(bench.chain.landed) == lost
    assert await bench.signatures.pending() == []


async def test_settle_pending__node_refuses_what_an_earlier_process_signed__its_fate_stays_unknown(
    bench: Bench,
) -> None:
    bench.chain.drops = True
    async with bench.sender() as sender:
        await send(sender, within_s=0.5)
    bench.chain.refuses = EndpointUnreachable("no answer")
    async with bench.sender() as sender:
        assert await sender.settle_pending() == 1
    assert len(await bench.signatures.pending()) == 1


async def test_fitting__small_instructions__are_no_more_than_the_reference_packs(bench: Bench) -> None:
    async with bench.sender() as sender:
        assert sender.fitting([work(number) for number in range(6)]) == 4


async def test_send__node_down_when_a_blockhash_is_needed__raises(bench: Bench) -> None:
    async def down() -> Blockhash:
        raise EndpointUnreachable("no answer")

    bench.chain.latest_blockhash = down  # type: ignore[method-assign]
    async with bench.sender() as sender:
        with pytest.raises(EndpointUnreachable):
            await send(sender)
    assert await bench.signatures.pending() == []
