"""Dispatch of trees: windows, failures, funds, rollovers."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from dispatch_setting import HALF, Setting, quiet, tree, until, windows
from registry_rules import PHASES
from solders.pubkey import Pubkey

from forester.chain.programs.addresses import REGISTRY
from forester.chain.tree_metadata import TreeKind, TreeMetadata
from forester.daemon import funds as funds_module
from forester.daemon import rounds as rounds_module
from forester.daemon.live_epochs import LiveEpoch
from forester.daemon.supervisor import Supervisor
from forester.daemon.trees.dispatch import LOOKAHEAD_SLOTS
from forester.errors import EndpointUnreachable, ForesterError, InsufficientFunds, TransactionRefused, failure_of
from forester.scheduling.eligibility_window import EligibilityWindow, ProcessingResult
from forester.scheduling.tree_schedule import Share


async def test_dispatch__windows__work_begins_in_their_first_slot_and_continues_in_their_last() -> None:
    setting, item = Setting(1290), tree()
    first, second, *_ = windows(HALF, item)
    await setting.begin(item)
    setting.publish(HALF)
    await setting.go(first.first - 1)
    processor = setting.processor(item)
    assert processor.worked == []
    await setting.go(first.first)
    assert processor.worked == [first.first]
    await setting.go(first.last)
    setting.tasks.account_changed(item.address)
    await quiet()
    assert processor.worked == [first.first, first.last], "the last slot is one of ours, too"
    await setting.go(second.first - 1)
    setting.tasks.account_changed(item.address)
    await quiet()
    assert processor.worked == [first.first, first.last]
    await setting.go(second.first)
    assert processor.worked[-1] == second.first
    windows_given = {eligibility.window for eligibility in processor.turns}
    assert windows_given <= set(windows(HALF, item)), "whole runs of light slots"
    assert await setting.supervisor.stop(60)
    assert processor.closed == [setting.parts.close_s]


async def test_dispatch__v2_tree__prepares_at_once_with_the_whole_schedule() -> None:
    item = tree()
    setting = Setting(windows(QUARTER, item)[0].last + 1)
    await setting.begin(item)
    setting.publish(QUARTER)
    await until(lambda: bool(setting.processor(item).prepared))
    eligibility = setting.processor(item).turns[0]
    assert eligibility.schedule is not None
    assert eligibility.schedule.windows == windows(QUARTER, item)
    await setting.supervisor.stop(60)


async def test_dispatch__window_of_a_v1_tree_is_near__prepares_once() -> None:
    item = next(
        candidate
        for candidate in (tree(number, TreeKind.STATE_V1) for number in range(1, 90))
        if any(
            b.first - a.last > LOOKAHEAD_SLOTS + 5
            for a, b in zip(windows(QUARTER, candidate), windows(QUARTER, candidate)[1:], strict=False)
        )
    )
    pairs = zip(windows(QUARTER, item), windows(QUARTER, item)[1:], strict=False)
    before, window = next((a, b) for a, b in pairs if b.first - a.last > LOOKAHEAD_SLOTS + 5)
    setting = Setting(before.last + 1)
    await setting.begin(item)
    setting.publish(QUARTER)
    await quiet()
    processor = setting.processor(item)
    assert processor.prepared == [], "nobody knows whether we will be the ones to send it"
    await setting.go(window.first - LOOKAHEAD_SLOTS)
    assert processor.prepared == [window.first - LOOKAHEAD_SLOTS]
    await setting.go(window.first)
    assert processor.worked == [window.first]
    assert {eligibility.window for eligibility in processor.turns} == {window}
    await setting.supervisor.stop(60)


QUARTER = LiveEpoch(PHASES, Share(0, 1, 8))


async def test_dispatch__more_waits__works_on_at_once_then_rests_until_an_account_changes() -> None:
    setting, item = Setting(), tree()
    setting.scripts[item.address] = [
        ProcessingResult(10, 1, more=True),
        ProcessingResult(10, 1, more=True),
        ProcessingResult(5, 1),
    ]
    await setting.begin(item)
    setting.publish()
    await until(lambda: len(setting.rounds) == 3)
    await quiet()
    assert [done.elements for done in setting.rounds] == [10, 10, 5]
    setting.tasks.account_changed(Pubkey.default())
    await quiet()
    assert len(setting.rounds) == 3
    for place in (item.address, item.queue):
        setting.tasks.account_changed(place)
        await quiet()
    setting.tasks.all_changed()
    await quiet()
    assert len(setting.rounds) == 6
    await setting.supervisor.stop(60)


@pytest.mark.parametrize("code", [6004, 6017, 6000])
async def test_dispatch__share_is_refused__reports_at_once_and_works_with_the_new_one(code: int) -> None:
    setting, item = Setting(), tree()
    refusal = TransactionRefused("refused", program=str(REGISTRY), code=code)
    setting.scripts[item.address] = [ProcessingResult(failure=refusal)]
    await setting.begin(item)
    setting.publish()
    await until(lambda: len(setting.rounds) >= 2)
    assert setting.refused == [refusal]
    processor = setting.processor(item)
    processor.turns.clear()
    setting.publish(HALF)
    await setting.go(1500, step=5)
    assert processor.turns
    assert {eligibility.window for eligibility in processor.turns} <= set(windows(HALF, item))
    setting.publish(None)
    reported = len(setting.rounds)
    await setting.go(1600, step=5)
    assert len(setting.rounds) == reported, "without a share nobody works"
    await setting.supervisor.stop(60)


async def test_dispatch__one_tree_fails_and_crashes__is_tried_again_and_touches_no_other() -> None:
    setting, bad, good = Setting(), tree(1), tree(2, TreeKind.STATE_V1)
    away: list[ForesterError] = [EndpointUnreachable("the prover is unreachable") for _ in range(5)]
    setting.scripts[bad.address] = [
        *(ProcessingResult(failure=error) for error in away),
        ZeroDivisionError("a bug"),
        ProcessingResult(7, 1),
    ]
    setting.scripts[good.address] = [ProcessingResult(1, 1)]
    await setting.begin(bad, good)
    setting.publish()
    await until(lambda: any(done.elements == 7 for done in setting.rounds))
    assert [done.failure for done in setting.rounds if done.failure is not None] == away
    assert len(setting.processors[bad.address]) == 2, "a new tree processor after the crash"
    assert setting.processors[bad.address][0].closed == [0.0]
    assert len(setting.processors[good.address]) == 1
    assert setting.supervisor.restarts.labels("tree")._value.get() == 1
    await setting.supervisor.stop(60)


async def test_dispatch__rounds_that_meet_a_defect__are_counted_like_restarts_and_keep_the_tree_processor() -> None:
    told: list[tuple[str, int, str]] = []
    supervisor = Supervisor(failed=lambda *facts: told.append(facts))
    setting, item = Setting(defect=partial(supervisor.count_failure, "tree")), tree()
    defects = [failure_of(KeyError("a bug")) for _ in range(3)]
    away = EndpointUnreachable("the prover is unreachable")
    setting.scripts[item.address] = [
        *(ProcessingResult(failure=error) for error in (*defects, away)),
        ProcessingResult(7, 1),
    ]
    await setting.begin(item)
    setting.publish()
    await until(lambda: any(done.elements == 7 for done in setting.rounds))
    assert [facts[:2] for facts in told] == [("tree", 1), ("tree", 2), ("tree", 3)]
    assert supervisor.restarts.labels("tree")._value.get() == 3
    assert len(setting.processors[item.address]) == 1
    await setting.supervisor.stop(60)


async def test_dispatch__tree_processor_rests_after_a_failure__is_polled_and_the_pause_does_not_grow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reported: list[str] = []
    monkeypatch.setattr(rounds_module._log, "warning", lambda event, **_: reported.append(event), raising=False)
    setting, item = Setting(look_s=0.001), tree()
    lag: ForesterError = EndpointUnreachable("the indexer lags")
    setting.scripts[item.address] = [
        *[ProcessingResult(failure=lag)] * 40,
        ProcessingResult(7, 1, more=True),
        ProcessingResult(failure=lag),
        ProcessingResult(8, 1),
    ]
    await setting.begin(item)
    setting.publish()
    await until(lambda: any(done.elements == 8 for done in setting.rounds))
    assert reported == ["round_failed"] * 2, "once for each time that something was tried"
    await setting.supervisor.stop(60)


async def test_dispatch__funds_run_out__all_trees_rest_until_the_payer_is_topped_up() -> None:
    setting, one, two = Setting(), tree(1), tree(2)
    setting.purse.lamports = 2_000_000
    lacking = InsufficientFunds("insufficient funds: 0.002 SOL")

    async def spend(_: EligibilityWindow) -> None:
        setting.purse.short_of_funds = True

    setting.scripts[one.address] = [ProcessingResult(failure=lacking)]
    setting.during = spend
    setting.supervisor.start("balance", setting.funds.run)
    await setting.begin(one)
    setting.during = None
    setting.publish()
    await until(lambda: not setting.funds.available)
    setting.tasks.set_trees({item.address: item for item in (one, two)})
    setting.processor(one).during = None
    await quiet()
    setting.tasks.all_changed()
    await quiet()
    assert len(setting.rounds) == 1
    assert setting.processor(two).worked == []
    setting.purse.lamports += 10**9
    await until(lambda: len(setting.rounds) >= 3)
    assert setting.funds.available
    assert not setting.purse.short_of_funds
    assert setting.processor(two).worked != []
    await setting.supervisor.stop(60)


async def test_funds__node_was_wrong__tries_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(funds_module, "_TRY_AGAIN_S", 0.0)
    setting = Setting()
    setting.purse.short_of_funds = True
    setting.funds.notice()
    assert not setting.funds.available
    setting.supervisor.start("balance", setting.funds.run)
    await until(lambda: setting.funds.available)
    assert setting.funds.lamports == 10**9
    await setting.supervisor.stop(60)


async def test_dispatch__process_ends__the_turn_has_no_time_left_and_what_is_in_flight_may_finish() -> None:
    setting, item = Setting(), tree()
    begun, seen = asyncio.Event(), asyncio.Event()

    async def in_flight(eligibility: EligibilityWindow) -> None:
        assert eligibility.sending_seconds() is not None
        begun.set()
        await setting.supervisor.stopping.wait()
        assert eligibility.sending_seconds() is None
        await asyncio.sleep(0.01)
        seen.set()

    setting.during = in_flight
    await setting.begin(item)
    setting.publish()
    await asyncio.wait_for(begun.wait(), 60)
    assert await setting.supervisor.stop(60)
    assert seen.is_set()
    assert len(setting.rounds) == 1
    assert setting.processor(item).closed == [setting.parts.close_s]


async def test_dispatch__work_does_not_end__is_cut_off_after_the_window_and_when_the_process_ends() -> None:
    setting, item = Setting(after_window_s=0.01, drain_s=0.01), tree()
    first, second, *_ = windows(HALF, item)

    async def endless(_: EligibilityWindow) -> None:
        await asyncio.Event().wait()

    setting.during = endless
    await setting.begin(item)
    setting.publish(HALF)
    await setting.go(first.first)
    await setting.go(first.last + 1)
    await until(lambda: setting.clock.slot() > first.last)
    await setting.go(second.first)
    await until(lambda: len(setting.processor(item).worked) == 2)
    assert setting.rounds == []
    assert await setting.supervisor.stop(60)
    assert setting.processor(item).closed == [setting.parts.close_s]


async def test_roll_over__window_begins_and_tree_has_changed__is_checked_and_its_failure_ends_nothing() -> None:
    checked: list[int] = []

    async def check(_: TreeMetadata, eligibility: EligibilityWindow) -> ForesterError | None:
        checked.append(eligibility.slot())
        return EndpointUnreachable("the node is unreachable") if len(checked) == 1 else None

    setting, item = Setting(roll_over=check), tree()
    setting.scripts[item.address] = [ProcessingResult(3, 1, more=True), ProcessingResult()]
    await setting.begin(item)
    setting.publish()
    await until(lambda: len(setting.rounds) == 2)
    assert len(checked) == 2, "at first, and when elements were moved"
    setting.tasks.account_changed(item.queue)
    await until(lambda: len(checked) == 3)
    await setting.go(1320)
    assert len(checked) == 3
    await setting.supervisor.stop(60)
