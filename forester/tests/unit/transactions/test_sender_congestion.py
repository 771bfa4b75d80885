"""The sender while all slots are in use, or all transactions expire: what is signed next, and how much."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest_asyncio
from sender_bench import LAST_VALID, TREE, Bench, send, until, work

from forester.journal.database import Journal
from forester.transactions.confirm import Fate, Outcome
from forester.transactions.expiry import PAUSES
from forester.transactions.sender import Sender
from forester.transactions.spending import BudgetExceeded
from shared.process.retries import Backoff

SLOTS = 12


@pytest_asyncio.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with await Journal.open(tmp_path / "journal") as journal:
        bench = Bench(journal)
        bench.clock = time.monotonic
        yield bench


async def abandon(bench: Bench, sender: Sender, *numbers: int) -> None:
    """Send works that are dropped, so that their outcome stays unknown."""
    bench.chain.drops = True
    await asyncio.gather(*(send(sender, work(number), within_s=1.0) for number in numbers))
    assert set(numbers) <= set(bench.chain.works)


async def test_send__node_says_that_everything_expired__signs_a_handful_and_not_hundreds(bench: Bench) -> None:
    """20 s at a twentieth of the usual pauses: 20 callers with work of their own, as the trees of a forester."""
    bench.chain.drops, bench.chain.height = True, LAST_VALID + 1
    bench.pauses = Backoff(PAUSES.first_s / 20, PAUSES.longest_s / 20)
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


async def test_send__backlog_of_v1_waits__epochs_and_batches_are_signed_before_it(bench: Bench) -> None:
    bench.chain.drops = True
    async with bench.sender() as sender, asyncio.TaskGroup() as tasks:
        for number, purpose in enumerate([*["nullify"] * 30, "v2_batches", "report"]):
            tasks.create_task(send(sender, work(number), purpose=purpose))
        await until(lambda: len(bench.chain.signatures) == 12)
        bench.chain.drops = False
    assert {30, 31} <= set(bench.chain.works[:24]), "before those of the backlog that waited longer"


async def test_send__backlog_of_v1_in_the_pauses__epoch_is_signed_at_the_next_opportunity(bench: Bench) -> None:
    bench.chain.drops, bench.chain.height = True, LAST_VALID + 1
    bench.pauses = Backoff(1.0, 1.0)
    async with bench.sender() as sender, asyncio.TaskGroup() as tasks:
        backlog = [tasks.create_task(send(sender, work(number), purpose="nullify")) for number in range(40)]
        await until(lambda: len(bench.chain.works) > SLOTS)
        signed = len(bench.chain.works)
        assert (await send(sender, work(100), purpose="register")).fate is Fate.EXPIRED
        assert bench.chain.works.index(100) <= signed + 1
        for task in backlog:
            task.cancel()


async def test_send__all_expire__repeated_work_waits_for_no_pause_and_ends_them_when_it_lands(bench: Bench) -> None:
    bench.pauses = Backoff(600.0, 600.0)
    async with bench.sender() as sender:
        await abandon(bench, sender, 0)
        bench.chain.height = LAST_VALID + 1
        assert (await send(sender, work(1))).fate is Fate.EXPIRED
        bench.chain.drops, bench.chain.height = False, 10
        assert (await send(sender, work(2), within_s=0.1)) == Outcome(Fate.DEADLINE_PASSED, signed=False)
        assert (await send(sender, work(0))).fate is Fate.CONFIRMED
        assert (await send(sender, work(2))).fate is Fate.CONFIRMED


async def test_send__repeats_and_a_backlog_of_v1__epoch_is_signed_for_the_next_free_slot(bench: Bench) -> None:
    async with bench.sender() as sender, asyncio.TaskGroup() as tasks:
        await abandon(bench, sender, *range(SLOTS))
        sends = [send(sender, work(number), purpose="nullify", within_s=1.0) for number in range(SLOTS)]
        sends += [send(sender, work(number), purpose="nullify") for number in range(SLOTS, 3 * SLOTS)]
        backlog = [tasks.create_task(sending) for sending in sends]
        await asyncio.sleep(0.1)
        register = tasks.create_task(send(sender, work(100), purpose="register", within_s=10.0))
        await until(lambda: register.done() or 100 in bench.chain.works)
        bench.chain.drops = False
        assert (await register).fate is Fate.CONFIRMED
        for task in backlog:
            task.cancel()


async def test_send__all_expired__one_that_fails_on_the_chain_ends_the_pauses(bench: Bench) -> None:
    bench.pauses = Backoff(1.0, 600.0)
    bench.chain.drops, bench.chain.height = True, LAST_VALID + 1
    async with bench.sender() as sender:
        assert (await send(sender, work(1))).fate is Fate.EXPIRED
        bench.chain.drops, bench.chain.height = False, 10
        bench.chain.fails = {"InstructionError": [1, {"Custom": 6004}]}
        outcomes = await asyncio.wait_for(asyncio.gather(*(send(sender, work(n)) for n in range(2, 42))), 15)
    assert {outcome.fate for outcome in outcomes} == {Fate.REFUSED}


async def test_send__all_expired__work_over_the_budget_takes_no_turn_of_smaller_work(bench: Bench) -> None:
    bench.pauses = Backoff(1.0, 1.0)
    bench.maximum = 2 * 5000 + 4000
    bench.chain.drops, bench.chain.height = True, LAST_VALID + 1
    async with bench.sender() as sender:
        assert (await send(sender, work(1))).fate is Fate.EXPIRED
        bench.chain.drops, bench.chain.height = False, 10
        facts: Any = {"purpose": "register", "subject": TREE, "within_s": 60.0, "program_lamports": 10_000}
        too_dear = asyncio.gather(*(sender.send([work(n)], **facts) for n in range(2, 22)), return_exceptions=True)
        assert (await asyncio.wait_for(send(sender, work(50)), 8)).fate is Fate.CONFIRMED
        assert {type(error) for error in await too_dear} == {BudgetExceeded}


async def test_send__payer_turns_out_to_have_nothing__those_that_wait_for_a_slot_are_not_signed(bench: Bench) -> None:
    bench.chain.drops = True
    async with bench.sender() as sender:
        sends = [asyncio.create_task(send(sender, work(n), within_s=4.0)) for n in range(SLOTS)]
        await until(lambda: len(bench.chain.works) == SLOTS)
        sends += [asyncio.create_task(send(sender, work(n))) for n in range(SLOTS, 3 * SLOTS)]
        bench.chain.balance_lamports = 0
        outcomes = await asyncio.wait_for(asyncio.gather(*sends), 60)
    assert [outcome.signed for outcome in outcomes] == [True] * SLOTS + [False] * 2 * SLOTS
    assert len(bench.chain.signatures) == SLOTS


async def test_send__all_slots_in_use__returns_at_its_deadline_and_says_if_it_was_signed(bench: Bench) -> None:
    async with bench.sender() as sender, asyncio.TaskGroup() as tasks:
        await abandon(bench, sender, *range(SLOTS))
        await abandon(bench, sender, SLOTS)
        holders = [tasks.create_task(send(sender, work(number))) for number in range(SLOTS)]
        await asyncio.sleep(0.1)
        async with asyncio.timeout(10):
            assert await send(sender, work(SLOTS), within_s=0.2) == Outcome(Fate.DEADLINE_PASSED)
            assert await send(sender, work(100), within_s=0.2) == Outcome(Fate.DEADLINE_PASSED, signed=False)
        for task in holders:
            task.cancel()
