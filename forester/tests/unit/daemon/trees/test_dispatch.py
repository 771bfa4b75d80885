"""Dispatch of trees: scripted tree processors, a clock that is moved by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest
from chain_accounts import TreeAccount
from registry_rules import PHASES
from solders.pubkey import Pubkey

from forester.chain.programs.addresses import REGISTRY
from forester.chain.rpc_client import RpcClient
from forester.chain.tree_metadata import TreeKind, TreeMetadata, decode_tree_metadata
from forester.daemon import funds as funds_module
from forester.daemon.clock import SlotClock
from forester.daemon.funds import Funds
from forester.daemon.live_epochs import LiveEpoch, LiveShares
from forester.daemon.supervisor import Supervisor
from forester.daemon.trees import dispatch as dispatch_module
from forester.daemon.trees.dispatch import LOOKAHEAD_SLOTS, DispatchParts, TreeDispatcher
from forester.daemon.trees.tasks import TreeTasks
from forester.epoch.phases import SlotRange
from forester.errors import EndpointUnreachable, ForesterError, InsufficientFunds, TransactionRefused, failure_of
from forester.observability.metrics import Metrics
from forester.scheduling.eligibility_window import EligibilityWindow, ProcessingResult
from forester.scheduling.tree_schedule import Share, TreeSchedule
from shared.retries import Backoff

QUICK = Backoff(0.001, 0.002)
ALONE = LiveEpoch(PHASES, Share(0, 1, 1))
HALF = LiveEpoch(PHASES, Share(0, 1, 2))


def tree(number: int = 1, kind: TreeKind = TreeKind.STATE_V2) -> TreeMetadata:
    account = TreeAccount(kind, number)
    return decode_tree_metadata(account.address, account.accounts()[0].data)


@dataclass
class Processor:
    """Plays rounds, then says that there is nothing; remembers the turns and slots that it was given."""

    clock: SlotClock
    script: list[ProcessingResult | Exception] = field(default_factory=list)
    worked: list[int] = field(default_factory=list)
    prepared: list[int] = field(default_factory=list)
    turns: list[EligibilityWindow] = field(default_factory=list)
    closed: list[float] = field(default_factory=list)
    during: Callable[[EligibilityWindow], Any] | None = None

    async def work(self, eligibility: EligibilityWindow) -> ProcessingResult:
        self.turns.append(eligibility)
        self.worked.append(self.clock.slot())
        if self.during is not None:
            await self.during(eligibility)
        done = self.script.pop(0) if self.script else ProcessingResult()
        if isinstance(done, Exception):
            raise done
        return done

    async def prepare(self, eligibility: EligibilityWindow) -> None:
        self.turns.append(eligibility)
        self.prepared.append(self.clock.slot())

    async def close(self, within_s: float) -> None:
        self.closed.append(within_s)


@dataclass
class Purse(RpcClient):
    """The payer's balance, and whether a transaction failed for lack of it."""

    lamports: int = 10**9
    short_of_funds: bool = False

    async def balance(self, address: Pubkey) -> int:
        assert address == Pubkey.default()
        return self.lamports

    def funds_restored(self) -> None:
        self.short_of_funds = False


class Setting:
    """Trees with their dispatchers, and all that they read."""

    def __init__(self, slot: int = 1300, **options: Any) -> None:
        self.clock = SlotClock(silence_s=1, now=lambda: 0.0)
        self.clock.read(slot)
        self.supervisor = Supervisor(backoff=QUICK)
        self.purse = Purse()
        self.rounds: list[ProcessingResult] = []
        self.funds = Funds(
            *(self.purse, Pubkey.default(), self.purse, Metrics(), self._changed), balance_s=600, while_short_s=0.001
        )
        self.shares = LiveShares(self._changed)
        self.refused: list[TransactionRefused] = []
        self.processors: dict[Pubkey, list[Processor]] = {}
        self.scripts: dict[Pubkey, list[ProcessingResult | Exception]] = {}
        self.during: Callable[[EligibilityWindow], Any] | None = None
        self.parts = DispatchParts(
            clock=self.clock,
            shares=self.shares,
            funds=self.funds,
            make_processor=self._processor,
            stopping=self.supervisor.stopping,
            poll_s=600,
            progress=lambda _tree, _turn, done, _seconds: self.rounds.append(done),
            backoff=QUICK,
            **options,
        )
        self.tasks = TreeTasks(self.supervisor, lambda item: TreeDispatcher(item, self.parts))

    def _changed(self) -> None:
        self.tasks.plan_changed()

    def _processor(self, item: TreeMetadata) -> Processor:
        made = Processor(self.clock, self.scripts.setdefault(item.address, []), during=self.during)
        self.processors.setdefault(item.address, []).append(made)
        return made

    def publish(self, live: LiveEpoch | None = ALONE) -> None:
        self.shares.publish(PHASES.epoch, live, self.refused.append)

    def processor(self, item: TreeMetadata) -> Processor:
        return self.processors[item.address][-1]

    async def begin(self, *items: TreeMetadata) -> None:
        self.tasks.set_trees({item.address: item for item in items})
        await quiet()

    async def go(self, slot: int, step: int = 1) -> None:
        while self.clock.slot() < slot:
            self.clock.read(min(self.clock.slot() + step, slot))
            await quiet()


async def quiet() -> None:
    """Wait until all has happened that can: schedules are made in a thread."""
    for _ in range(4):
        await asyncio.sleep(0.001)
        for _ in range(20):
            await asyncio.sleep(0)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.002)


def windows(live: LiveEpoch, item: TreeMetadata) -> tuple[SlotRange, ...]:
    return TreeSchedule.make(PHASES, bytes(item.eligibility_key), live.share, PHASES.active.first).windows


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
    monkeypatch.setattr(dispatch_module._log, "warning", lambda event, **_: reported.append(event), raising=False)
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


async def test_trees__one_is_gone__its_dispatcher_ends_and_the_others_stay() -> None:
    setting, one, two = Setting(), tree(1), tree(2)
    await setting.begin(one, two)
    assert setting.supervisor.names == {f"tree {one.address}", f"tree {two.address}"}
    await setting.begin(two)
    await until(lambda: setting.supervisor.names == {f"tree {two.address}"})
    assert setting.processor(one).closed == [setting.parts.close_s]
    setting.tasks.set_trees({})
    setting.tasks.set_trees({item.address: item for item in (one, two)})
    await until(lambda: len(setting.processors[one.address]) == 2)
    await until(lambda: len(setting.processors[two.address]) == 2)
    await until(lambda: len(setting.supervisor.names) == 2)
    assert len(setting.processors[one.address]) == 2, "a tree that returns at once is processed again"
    await setting.supervisor.stop(60)


async def test_trees__one_is_gone_while_it_works__its_round_ends_first() -> None:
    setting, item = Setting(), tree()
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_: EligibilityWindow) -> None:
        begun.set()
        await go_on.wait()

    setting.during = slow
    await setting.begin(item)
    setting.publish()
    await asyncio.wait_for(begun.wait(), 60)
    setting.tasks.set_trees({})
    await quiet()
    assert setting.rounds == []
    go_on.set()
    await until(lambda: setting.supervisor.names == frozenset())
    assert len(setting.rounds) == 1
    assert setting.processor(item).closed == [setting.parts.close_s]


@pytest.mark.parametrize(
    ("changed", "made"),
    [
        ({"associated": Pubkey(bytes([77]) * 32)}, 2),
        ({"rolledover_slot": 5, "successor": Pubkey(bytes([78]) * 32)}, 1),
    ],
    ids=["queue", "rolled over"],
)
async def test_trees__metadata_of_one_differs__is_dispatched_again_unless_it_was_only_rolled_over(
    changed: dict[str, Any], made: int
) -> None:
    setting, item = Setting(), tree(kind=TreeKind.STATE_V1)
    other = replace(item, metadata=replace(item.metadata, **changed))
    await setting.begin(item)
    await setting.begin(other)
    await until(lambda: len(setting.supervisor.names) == 1)
    processors = setting.processors[item.address]
    assert [bool(processor.closed) for processor in processors] == [True, False][2 - made :]
    assert setting.tasks._by_account.keys() == {other.address, other.queue}
    await setting.supervisor.stop(60)


async def test_trees__kind_differs_while_the_tree_is_worked_on__both_rounds_run_under_different_names() -> None:
    setting, item = Setting(), tree()
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_: EligibilityWindow) -> None:
        begun.set()
        await go_on.wait()

    setting.during = slow
    await setting.begin(item)
    setting.publish()
    await asyncio.wait_for(begun.wait(), 60)
    await setting.begin(replace(item, kind=TreeKind.STATE_V1))
    assert setting.supervisor.names == {f"tree {item.address}", f"tree {item.address} again"}
    go_on.set()
    await until(lambda: setting.supervisor.names == {f"tree {item.address} again"})
    await setting.supervisor.stop(60)


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
