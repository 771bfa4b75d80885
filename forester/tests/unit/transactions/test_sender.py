"""The sender on a simulated chain, with a journal on disk: what is signed, repeated, settled and counted."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from sender_bench import LAST_VALID, PAYER, TREE, Bench, send, until, work
from solders.keypair import Keypair
from solders.signature import Signature
from solders.system_program import CreateAccountParams, create_account

from forester.chain.rpc_client import Blockhash
from forester.errors import EndpointUnreachable, InsufficientFunds, RequestRefused, TransactionRefused
from forester.journal.database import Journal
from forester.journal.signatures import SentTransaction
from forester.transactions.builder import TransactionTooLarge
from forester.transactions.confirm import Fate, Outcome
from forester.transactions.sender import Sender
from forester.transactions.spending import BudgetExceeded
from shared.process.retries import Backoff


@pytest_asyncio.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with await Journal.open(tmp_path / "journal") as journal:
        yield Bench(journal)


async def abandoned(bench: Bench, sender: Sender) -> None:
    """Send a transaction whose call is cancelled, so that its outcome is unknown."""
    sending = asyncio.create_task(send(sender))
    await until(lambda: bool(bench.chain.sent))
    sending.cancel()
    await asyncio.wait([sending])


def let_writes_hang(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Let writes of signatures return only after an event, which is returned."""
    add, may_return = bench.signatures.add, asyncio.Event()

    async def slow(sent: SentTransaction) -> None:
        await add(sent)
        await may_return.wait()

    monkeypatch.setattr(bench.signatures, "add", slow)
    return may_return


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


async def test_send__node_refuses_a_repetition__what_was_sent_first_is_its_fate(bench: Bench) -> None:
    bench.chain.drops = True
    async with bench.sender() as sender:
        await abandoned(bench, sender)
        bench.chain.refuses = TransactionRefused("the chain refused a transaction: BlockhashNotFound")
        assert (await send(sender, within_s=0.5)).fate is Fate.DEADLINE_PASSED
        bench.chain.landed[bench.chain.signatures[0]] = None
        assert (await send(sender)).fate is Fate.CONFIRMED
    assert len(bench.chain.signatures) == 1


async def test_send__deadline_while_the_journal_writes__same_transaction_is_sent_by_the_next_call(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_return = let_writes_hang(bench, monkeypatch)
    async with bench.sender() as sender:
        assert await send(sender, within_s=2.0) == Outcome(Fate.DEADLINE_PASSED)
        (stored,) = await bench.signatures.pending()
        may_return.set()
        assert (await send(sender)).fate is Fate.CONFIRMED
    assert [str(signature) for signature in bench.chain.signatures] == [stored.signature]
    assert await bench.signatures.pending() == []


async def test_send__deadline_while_the_journal_writes__refusal_by_the_node_is_its_fate(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_return = let_writes_hang(bench, monkeypatch)
    bench.chain.refuses = RequestRefused("too large", code=-32602)
    async with bench.sender() as sender:
        await send(sender, within_s=2.0)
        may_return.set()
        with pytest.raises(RequestRefused):
            await send(sender)
    assert await bench.signatures.pending() == []


async def test_send__deadline_while_the_journal_writes__is_the_signature_of_its_pause(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.pauses = Backoff(600.0, 600.0)
    bench.chain.drops, bench.chain.height = True, LAST_VALID + 1
    async with bench.sender() as sender:
        assert (await send(sender, work(1))).fate is Fate.EXPIRED
        bench.now, bench.chain.height = 600.0, 10
        let_writes_hang(bench, monkeypatch)
        assert await send(sender, work(2), within_s=2.0) == Outcome(Fate.DEADLINE_PASSED)
        assert await send(sender, work(3), within_s=0.2) == Outcome(Fate.DEADLINE_PASSED, signed=False)


async def test_send__fate_unknown_for_longer_than_is_remembered__is_signed_again(bench: Bench) -> None:
    bench.chain.drops = True
    async with bench.sender() as sender:
        await abandoned(bench, sender)
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


async def test_send__too_large__counts_nothing(bench: Bench) -> None:
    async with bench.sender() as sender:
        with pytest.raises(TransactionTooLarge):
            await send(sender, *(work(number) for number in range(200)))
    assert await bench.spending.within_window(bench.now) == {}
    assert await bench.signatures.pending() == []


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
        assert await send(sender, within_s=0.0) == Outcome(Fate.DEADLINE_PASSED, signed=False)
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
        assert [(outcome.fate, outcome.signed) for outcome in outcomes] == [
            (Fate.DEADLINE_PASSED, True),
            (Fate.REFUSED, False),
        ]
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


async def test_send__earlier_process_was_given_a_height_without_end__is_waited_for_on_the_same_day_alone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.signatures.add(SentTransaction(str(Signature(bytes([1]) * 64)), "test", TREE, 2**48))
    async with bench.sender() as sender:
        assert not await sender.wait_for_earlier("test", TREE, 0.05)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 86_500)
    async with bench.sender() as sender:
        assert await sender.wait_for_earlier("test", TREE, 0.05)


async def test_send__earlier_process_may_have_done_the_work__signs_nothing_before_the_caller_reads_again(
    bench: Bench,
) -> None:
    left = Signature(bytes([1]) * 64)
    await bench.signatures.add(SentTransaction(str(left), "test", TREE, LAST_VALID))
    bench.chain.landed[left] = None
    async with bench.sender() as sender:
        assert [await send(sender) for _ in range(2)] == [
            Outcome(Fate.EXPIRED, signed=False),
            Outcome(Fate.CONFIRMED, 7),
        ]
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
