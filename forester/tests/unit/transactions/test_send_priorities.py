"""Slots by priority: never too many holders, none lost to cancellations, the most urgent caller first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from forester.compressible import claiming
from forester.epoch.decisions import Action
from forester.pipeline_v2 import batch_sender
from forester.rollover import rollovers
from forester.transactions.expiry import ExpiryPauses
from forester.transactions.send_priorities import Priority, SendingSlots, priority_of
from shared.process.retries import Backoff


def test_priority_of__purposes_of_all_work__puts_epochs_first_and_backlogs_last() -> None:
    assert {priority_of(action.value) for action in (Action.REGISTER, Action.FINALIZE, Action.REPORT)} == {
        Priority.EPOCH
    }
    assert {priority_of(purpose) for purpose in (batch_sender.PURPOSE, rollovers.PURPOSE)} == {Priority.BATCHES}
    purposes = ("nullify", "update_address", "compress_and_close", "compress_mint", claiming.PURPOSE)
    assert {priority_of(purpose) for purpose in purposes} == {Priority.OTHER}
    assert Priority.EPOCH < Priority.BATCHES < Priority.OTHER


class Holders:
    """Callers that send transactions, and the order in which they held a slot."""

    def __init__(self, maximum: int, pause_s: float = 0.002, clock: Callable[[], float] = time.monotonic) -> None:
        self.maximum = maximum
        self.pauses = ExpiryPauses(Backoff(pause_s, pause_s), clock=clock)
        self.slots = SendingSlots(maximum, self.pauses)
        self.at_once = 0
        self.order: list[tuple[int, int]] = []
        self.ends: list[asyncio.Event] = []

    async def hold(self, priority: int, *, repeated: bool = False, signs: bool = True) -> None:
        number, end = len(self.ends), asyncio.Event()
        self.ends.append(end)
        async with self.slots.slot(priority, repeated=repeated) as count_signature:
            self.at_once += 1
            assert self.at_once <= self.maximum
            self.order.append((priority, number))
            if signs and not repeated:
                count_signature()
            try:
                await end.wait()
            finally:
                self.at_once -= 1


STEPS = st.one_of(
    st.tuples(st.sampled_from(["come", "come again", "come and sign nothing"]), st.integers(0, 2)),
    st.tuples(st.sampled_from(["end", "cancel", "end and cancel", "look", "expire", "land"]), st.integers(0, 30)),
)


@given(st.integers(1, 3), st.lists(STEPS, max_size=60))
def test_slots__callers_that_come_end_or_are_cancelled__are_never_too_many_and_none_is_lost(
    maximum: int, steps: list[tuple[str, int]]
) -> None:
    asyncio.run(_kept(maximum, steps))


async def _kept(maximum: int, steps: list[tuple[str, int]]) -> None:
    holders = Holders(maximum)
    tasks: list[asyncio.Task[None]] = []
    for step, number in steps:
        if step.startswith("come"):
            signs, repeated = step != "come and sign nothing", step == "come again"
            tasks.append(asyncio.create_task(holders.hold(number, repeated=repeated, signs=signs)))
            await asyncio.sleep(0)
        elif step == "look":
            await asyncio.sleep(0)
        elif step == "expire":
            holders.pauses.expired(time.monotonic())
        elif step == "land":
            holders.pauses.landed()
        elif tasks:
            # Without a pause between both, a caller is cancelled in the moment in which it gets the slot.
            if "end" in step:
                holders.ends[number % len(tasks)].set()
                await asyncio.sleep(0)
            if "cancel" in step:
                tasks[-1 - number % len(tasks)].cancel()
    for end in holders.ends:
        end.set()
    done = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 10)
    assert not [error for error in done if isinstance(error, Exception)]
    holders.pauses.landed()
    full = [asyncio.create_task(holders.hold(0)) for _ in range(maximum)]
    await asyncio.sleep(0)
    assert holders.at_once == maximum, "no slot is lost"
    for task in full:
        task.cancel()
    await asyncio.wait(full)


@given(st.lists(st.integers(0, 2), max_size=30))
def test_slots__waited_for_by_many__go_by_priority_and_then_in_order(priorities: list[int]) -> None:
    async def run() -> list[tuple[int, int]]:
        holders = Holders(1)
        tasks = [asyncio.create_task(holders.hold(priority)) for priority in [0, *priorities]]
        await asyncio.sleep(0)
        for end in holders.ends:
            end.set()
        await asyncio.gather(*tasks)
        return holders.order

    waited = [(priority, number) for number, priority in enumerate(priorities, 1)]
    assert asyncio.run(run()) == [(0, 0), *sorted(waited)]


async def test_slot__caller_is_cancelled_in_the_moment_of_the_grant__passes_to_the_next() -> None:
    holders = Holders(1)
    first, second, third = (asyncio.create_task(holders.hold(priority)) for priority in (0, 1, 2))
    await asyncio.sleep(0)
    holders.ends[0].set()
    while not first.done():
        await asyncio.sleep(0)
        if not holders.at_once:
            second.cancel()
    await asyncio.wait([second])
    holders.ends[2].set()
    await asyncio.wait_for(third, 10)
    assert holders.order == [(0, 0), (2, 2)]


async def test_slots__pause_after_expiries__the_most_urgent_at_its_end_is_next_and_repeats_do_not_wait() -> None:
    holders = Holders(3, pause_s=0.2)
    holders.pauses.expired(time.monotonic())
    early = [asyncio.create_task(holders.hold(2)) for _ in range(3)]
    await asyncio.sleep(0.05)
    later = [asyncio.create_task(holders.hold(0)), asyncio.create_task(holders.hold(2, repeated=True))]
    await asyncio.sleep(0)
    assert holders.order == [(2, 4)], "a repeated transaction"
    async with asyncio.timeout(60):
        while len(holders.order) < 3:  # noqa: ASYNC110 - the order has no events
            await asyncio.sleep(0.01)
    assert holders.order[1:] == [(0, 3), (2, 0)]
    for end in holders.ends:
        end.set()
    holders.pauses.landed()
    await asyncio.wait_for(asyncio.gather(*early, *later), 60)


async def test_slots__pause_after_expiries__a_caller_that_signs_nothing_leaves_the_signature_to_the_next() -> None:
    now = 0.0
    holders = Holders(3, pause_s=600.0, clock=lambda: now)
    holders.pauses.expired(now)
    now = 600.0
    first = asyncio.create_task(holders.hold(0, signs=False))
    others = [asyncio.create_task(holders.hold(2)) for _ in range(2)]
    await asyncio.sleep(0.05)
    assert holders.order == [(0, 0)], "one at a time"
    first.cancel()
    await asyncio.wait([first])
    await asyncio.sleep(0)
    assert holders.order == [(0, 0), (2, 1)], "and the third one waits for the pause after that signature"
    holders.pauses.landed()
    for end in holders.ends:
        end.set()
    await asyncio.wait_for(asyncio.gather(*others), 60)
