"""Epochs lived by the daemon's runners: a clock that is moved by hand, a chain in memory with the registry's rules."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from registry_rules import CONFIG, PHASES, Chain, registration
from solders.instruction import Instruction
from solders.pubkey import Pubkey

from forester.chain import registry_accounts
from forester.chain.program_errors import ForesterRefusal
from forester.chain.programs.addresses import REGISTRY
from forester.chain.registry_accounts import ProtocolConfig, ProtocolConfigAccount
from forester.chain.rpc_client import Account, RpcClient
from forester.daemon import epochs
from forester.daemon.clock import SlotClock
from forester.daemon.epochs import EpochKeeper, EpochParts, EpochRunner
from forester.daemon.live_epochs import LiveEpoch, LiveShares
from forester.daemon.supervisor import Supervisor
from forester.epoch.decisions import ALERT_AFTER_ATTEMPTS, Action, EpochOnChain, EpochState
from forester.errors import EndpointUnreachable, TransactionRefused
from forester.observability.metrics import Metrics
from forester.scheduling.tree_schedule import Share, TreeSchedule
from forester.transactions.confirm import Fate, Outcome
from forester.transactions.sender import Sender

IN_FLIGHT_S = 45.0
EPOCH = 1


def whose(who: str) -> Pubkey:
    return Pubkey(who.encode().ljust(32, b"-"))


def running(supervisor: Supervisor) -> set[str]:
    """Return the names of the epochs' tasks."""
    return {name for name in supervisor.names if name.startswith("epoch ")}


@dataclass
class World:
    """Environment of all foresters: the chain, the time, and faults of the node."""

    chain: Chain = field(default_factory=Chain)
    slot: int = 0
    sent: list[tuple[str, Action]] = field(default_factory=list)
    unreadable: int = 0
    unsendable: int = 0
    clocks: list[SlotClock] = field(default_factory=list)
    config: ProtocolConfig = CONFIG
    read: set[int] = field(default_factory=set)
    lies: list[EpochOnChain] = field(default_factory=list)
    """What the node answers to the next reads of our epoch."""
    acted: asyncio.Event = field(default_factory=asyncio.Event)

    async def seen(self, _: object, derivation: Pubkey, epoch: int, slot: int, *, authority: Pubkey) -> EpochOnChain:
        self.read.add(epoch)
        if self.unreadable:
            self.unreadable -= 1
            raise EndpointUnreachable("the node is unreachable")
        if epoch != EPOCH:
            return EpochOnChain(slot, None, None)
        if self.lies:
            return self.lies.pop(0)
        who = bytes(derivation).decode().rstrip("-")
        return self.chain.seen(who, slot)

    async def go(self, slot: int, step: int = 5) -> None:
        """Let the slots pass, and everybody act in each of them."""
        while self.slot < slot:
            self.slot = min(self.slot + step, slot)
            for clock in self.clocks:
                clock.read(self.slot)
                clock.read(self.slot)
            await quiet()


async def quiet() -> None:
    for _ in range(60):
        await asyncio.sleep(0)


@dataclass
class SenderOfOne:
    world: World
    who: str

    async def send(self, work: Sequence[Instruction], **facts: Any) -> Outcome:
        if self.world.unsendable:
            self.world.unsendable -= 1
            raise EndpointUnreachable("the node is unreachable")
        (instruction,) = work
        assert instruction.program_id == REGISTRY
        action = Action(facts["purpose"])
        assert facts["within_s"] > 2 * IN_FLIGHT_S, "also if a slot is free only when all others have been unknown"
        self.world.sent.append((self.who, action))
        self.world.acted.set()
        outcome = self.world.chain.execute(self.who, action, self.world.slot)
        if outcome.done:
            return Outcome(Fate.CONFIRMED, self.world.slot)
        program = str(REGISTRY)
        return Outcome(Fate.REFUSED, error=TransactionRefused("refused", program=program, code=outcome.code))


class Forester:
    """One forester of the world, living one epoch."""

    def __init__(self, world: World, who: str = "a") -> None:
        self.world = world
        self.published: list[LiveEpoch | None] = []
        self.alerts: list[tuple[int, str]] = []
        self.shares = LiveShares(self._changed)
        clock = SlotClock(silence_s=1, now=lambda: 0.0)
        clock.read(world.slot)
        world.clocks.append(clock)
        self.stopping = asyncio.Event()
        self.parts = EpochParts(
            rpc=cast(RpcClient, None),
            sender=cast(Sender, SenderOfOne(world, who)),
            clock=clock,
            shares=self.shares,
            metrics=Metrics(),
            authority=whose(who),
            derivation=whose(who),
            report_alert=lambda *facts: self.alerts.append(facts),
            in_flight_s=IN_FLIGHT_S,
            reread_s=600,
        )
        self.runner = EpochRunner(self.parts, EPOCH, CONFIG, self.stopping)

    def _changed(self) -> None:
        self.published.append(self.shares.at(self.world.slot))

    @property
    def live(self) -> LiveEpoch:
        found = self.shares.at(self.world.slot)
        assert found is not None
        return found

    async def begin(self) -> asyncio.Task[None]:
        task = asyncio.create_task(self.runner.run())
        await quiet()
        return task


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(epochs, "read_epoch", made.seen)
    return made


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (1000, [Action.REGISTER, Action.FINALIZE, Action.REPORT]),
        (1250, [Action.REGISTER, Action.FINALIZE, Action.REPORT]),
        (1300, [Action.REGISTER]),
        (2300, []),
    ],
)
async def test_epoch__begun_at_any_time__does_what_is_still_possible(
    world: World, start: int, expected: list[Action]
) -> None:
    world.slot = start
    forester = Forester(world)
    task = await forester.begin()
    await world.go(2400)
    await asyncio.wait_for(task, 60)
    assert [action for _, action in world.sent] == expected
    complete = len(expected) == 3
    assert forester.runner.state is (EpochState.DONE if complete else EpochState.MISSED)
    assert forester.shares.at(1500) is None, "withdrawn at the end"
    assert forester.published == ([LiveEpoch(PHASES, Share(0, 1, 1)), None] if complete else [])


@pytest.mark.parametrize("stop", [1150, 1250, 1299, 1300, 1700, 2299, 2300])
async def test_epoch__process_restarted_in_each_phase__continues_and_does_nothing_twice(
    world: World, stop: int
) -> None:
    world.slot = 1100
    first = Forester(world)
    task = await first.begin()
    await world.go(stop)
    first.stopping.set()
    await asyncio.wait_for(task, 60)
    second = Forester(world)
    task = await second.begin()
    if 1300 <= stop < 2296:
        assert second.live.share == Share(0, 1, 1)
    await world.go(2400)
    await asyncio.wait_for(task, 60)
    assert [action for _, action in world.sent] == [Action.REGISTER, Action.FINALIZE, Action.REPORT]


async def test_epoch__three_foresters_register_one_after_another__share_all_light_slots(
    world: World,
) -> None:
    world.slot = 1150
    foresters, tasks = [], []
    for who, slot in (("a", 1200), ("b", 1230), ("c", 1298)):
        await world.go(slot)
        foresters.append(Forester(world, who))
        tasks.append(await foresters[-1].begin())
    await world.go(1320)
    schedules = [TreeSchedule.make(PHASES, bytes(32), item.live.share, 1300) for item in foresters]
    assert [item.live.share for item in foresters] == [Share(0, 1, 3), Share(1, 1, 3), Share(2, 1, 3)]
    assert sorted(slot for item in schedules for slot in item.owned) == list(range(100))
    assert [action for _, action in world.sent].count(Action.FINALIZE) == 3, "no needless finalisation"
    await world.go(2400)
    await asyncio.wait_for(asyncio.gather(*tasks), 60)
    assert {item.runner.state for item in foresters} == {EpochState.DONE}


async def test_epoch__weight_grows_while_active__is_finalised_again_and_the_share_reported(world: World) -> None:
    world.slot, world.chain = 1250, Chain(enforce_registration_end=False)
    forester = Forester(world)
    task = await forester.begin()
    await world.go(1400)
    late = Forester(world, "late")
    other = await late.begin()
    forester.runner.wake()  # as the subscription to the epoch's account does
    await world.go(1420)
    assert forester.live.share == Share(0, 1, 2)
    assert late.live.share == Share(1, 1, 2)
    for item in (task, other):
        item.cancel()
    await asyncio.wait([task, other])


async def test_epoch__work_is_refused__reads_the_chain_at_once_and_finalises_if_the_weight_moved(world: World) -> None:
    world.slot, world.chain = 1250, Chain(enforce_registration_end=False)
    forester = Forester(world)
    task = await forester.begin()
    await world.go(1310)
    world.chain.execute("late", Action.REGISTER, 1311)
    await world.go(1325)
    assert forester.live.share == Share(0, 1, 1), "no notification of the new weight"
    refusal = TransactionRefused("x", program=str(REGISTRY), code=ForesterRefusal.FORESTER_NOT_ELIGIBLE)
    forester.shares.refused(EPOCH, refusal)
    await world.go(1326)
    assert forester.live.share == Share(0, 1, 2)
    finalised = world.sent.count(("a", Action.FINALIZE))
    forester.shares.refused(EPOCH, refusal)
    await world.go(1400)
    assert world.sent.count(("a", Action.FINALIZE)) == finalised, "the weight is the same"
    forester.shares.refused(77, refusal)
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.parametrize(
    "lie",
    [
        EpochOnChain(1500, registration(0, 1, 1, 1, reported=True), 1),
        EpochOnChain(2290, None, 1),
        EpochOnChain(2300, registration(0, 1, None, 0), 1),
    ],
    ids=["reported", "never registered", "never finalised"],
)
async def test_epoch__node_says_once_that_it_is_over__works_on_after_the_next_answer_and_reports(
    world: World, lie: EpochOnChain
) -> None:
    world.slot = 1250
    forester = Forester(world)
    task = await forester.begin()
    await world.go(lie.slot - 1)
    world.lies = [lie]
    forester.runner.wake()
    await world.go(lie.slot)
    assert forester.runner.state.is_over
    assert forester.shares.at(lie.slot) is None
    forester.runner.wake()  # instead of the wait of REREAD_S
    await quiet()
    assert forester.runner.state is (EpochState.ACTIVE if lie.slot < 2296 else EpochState.DONE)
    await world.go(2400)
    await asyncio.wait_for(task, 60)
    assert [action for _, action in world.sent] == [Action.REGISTER, Action.FINALIZE, Action.REPORT]


async def test_epoch__registered_with_a_key_that_was_replaced__sends_nothing_alerts_and_names_it(world: World) -> None:
    lie = EpochOnChain(1310, registration(0, 1, 1, 1), 1, other_authority="OldKey")
    world.slot, world.lies = 1310, [lie]
    forester = Forester(world)
    task = await forester.begin()
    assert (world.sent, forester.shares.at(1310), forester.runner.registered) == ([], None, False)
    assert forester.runner.state is EpochState.MISSED
    ((epoch, reason),) = forester.alerts
    assert (epoch, "the key OldKey, which alone may act in this epoch" in reason) == (EPOCH, True)
    world.lies = [replace(lie, other_authority="")]
    forester.runner.wake()
    await quiet()
    assert forester.live.share == Share(0, 1, 1)
    assert forester.alerts[1:] == [(EPOCH, "")]
    task.cancel()
    await asyncio.wait([task])


async def test_work__refused_for_its_signer__alerts_once_the_epoch_names_another_key(world: World) -> None:
    world.slot = 1250
    forester = Forester(world)
    task = await forester.begin()
    await world.go(1310)
    refusal = TransactionRefused("wrong signer", program=str(REGISTRY), code=ForesterRefusal.INVALID_FORESTER)
    forester.shares.refused(EPOCH, refusal)
    await world.go(1315)
    assert forester.alerts == [(EPOCH, "")], "other programs use the same code"
    world.lies = [EpochOnChain(1315, registration(0, 1, 1, 1), 1, other_authority="OldKey")]
    forester.shares.refused(EPOCH, refusal)
    await quiet()
    assert ["OldKey" in reason for _, reason in forester.alerts] == [False, True]
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.parametrize(
    "code", [ForesterRefusal.NOT_IN_REPORT_WORK_PHASE, ForesterRefusal.FORESTER_ALREADY_REPORTED_WORK]
)
async def test_report__refused_as_late_or_made__ends_the_epoch(
    world: World, code: ForesterRefusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.slot = 1250
    forester = Forester(world)
    task = await forester.begin()
    await world.go(2290)
    monkeypatch.setattr(Chain, "_refusal", lambda *_: code)
    await world.go(2400)
    await asyncio.wait_for(task, 60)
    assert world.sent.count(("a", Action.REPORT)) == 1
    assert forester.runner.state is EpochState.DONE
    assert forester.alerts[-1] == (EPOCH, "")
    assert not any(reason for _, reason in forester.alerts)


async def test_registration__fails_again_and_again__alerts_once_and_takes_it_back(world: World) -> None:
    world.slot, world.unsendable = 1199, ALERT_AFTER_ATTEMPTS
    forester = Forester(world)
    task = await forester.begin()
    await world.go(1290)
    assert [action for _, action in world.sent] == [Action.REGISTER]
    assert [(epoch, bool(reason)) for epoch, reason in forester.alerts] == [(EPOCH, True), (EPOCH, False)]
    assert "the node is unreachable" in forester.alerts[0][1]
    task.cancel()
    await asyncio.wait([task])


async def test_registration__hidden_by_the_node__is_repeated_rarely_alerts_and_takes_it_back(world: World) -> None:
    world.slot, world.chain = 1200, Chain(enforce_registration_end=False)
    world.lies = [EpochOnChain(1200, None, None)] * 10
    forester = Forester(world)
    task = await forester.begin()
    for slot in range(1201, 1401):
        world.lies = [EpochOnChain(slot, None, None)] * 10
        await world.go(slot)
    assert [action for _, action in world.sent] == [Action.REGISTER] * 6, "at 1200, 1208, 1224, 1256, 1320, 1384"
    assert [(epoch, bool(reason)) for epoch, reason in forester.alerts] == [(EPOCH, True)]
    world.lies = []
    await world.go(1460)
    assert [action for _, action in world.sent[6:]] == [Action.FINALIZE]
    assert forester.alerts[-1] == (EPOCH, "")
    task.cancel()
    await asyncio.wait([task])


async def test_epoch__node_cannot_be_read__is_asked_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs, "jittered", lambda *_: 0.001)
    world.slot, world.unreadable = 1250, 5
    forester = Forester(world)
    task = await forester.begin()
    await asyncio.wait_for(world.acted.wait(), 60)
    assert world.unreadable == 0
    task.cancel()
    await asyncio.wait([task])


class Rules(RpcClient):
    """A node that knows the protocol's rules."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def existing_account(
        self, address: Pubkey, what: str, *, start: int = 0, length: int | None = None
    ) -> Account:
        assert (what, start, length) == ("the protocol configuration", 0, None)
        return Account(address, REGISTRY, 1, b"")


@pytest.fixture
def rules(world: World, monkeypatch: pytest.MonkeyPatch) -> Rules:
    monkeypatch.setattr(
        registry_accounts, "decode_protocol_config", lambda _: ProtocolConfigAccount(Pubkey.default(), world.config)
    )
    return Rules(world)


async def keeping(world: World, rules: Rules) -> tuple[Forester, Supervisor, EpochKeeper]:
    """Return a forester whose keeper runs its epochs."""
    forester, supervisor = Forester(world), Supervisor()
    keeper = EpochKeeper(replace(forester.parts, rpc=rules), supervisor)
    supervisor.start("epochs", keeper.run)
    await quiet()
    return forester, supervisor, keeper


async def test_keeper__wrong_copy_of_the_rules_once__works_on_after_the_next_answer(world: World, rules: Rules) -> None:
    world.slot = 1250
    _, supervisor, keeper = await keeping(world, rules)
    await world.go(1500)
    short = replace(CONFIG, active_phase_length=100)
    world.lies = [EpochOnChain(1500, registration(0, 1, 1, 1, config=short), 1)]
    keeper.wake()
    await quiet()
    assert keeper.states[EPOCH] is EpochState.MISSED
    keeper.wake()  # instead of the wait of REREAD_S
    await quiet()
    assert keeper.states[EPOCH] is EpochState.ACTIVE
    await world.go(2310)
    assert [action for _, action in world.sent if action is Action.REPORT] == [Action.REPORT]
    assert await supervisor.stop(60)


async def test_keeper__wrong_configuration_once__ends_no_epoch_and_begins_none_for_long(
    world: World, rules: Rules
) -> None:
    world.slot, world.unsendable = 1210, 10**6
    _, supervisor, keeper = await keeping(world, rules)
    for length in range(50, 300, 10):
        world.config = replace(CONFIG, active_phase_length=length)
        keeper.wake()
        await quiet()
    assert "epoch 1" not in supervisor.names, "it has passed by this configuration"
    world.config, world.unsendable = CONFIG, 0
    keeper.wake()
    await quiet()
    assert running(supervisor) == {"epoch 0", "epoch 1"}
    assert keeper.states.keys() == {0, 1}
    await world.go(1290)
    assert [action for _, action in world.sent] == [Action.REGISTER]
    assert await supervisor.stop(60)


async def test_keeper__registered_by_the_node_for_epochs_of_many_configurations__runs_few_until_it_is_honest(
    world: World, rules: Rules, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def registered(_: object, __: Pubkey, epoch: int, slot: int, *, authority: Pubkey) -> EpochOnChain:
        del authority
        return EpochOnChain(slot, replace(registration(0, 1, 1, 1), epoch=epoch), 1)

    world.slot = 1210
    _, supervisor, keeper = await keeping(world, rules)
    monkeypatch.setattr(epochs, "read_epoch", registered)
    for length in range(100, 1, -1):
        world.config = replace(CONFIG, active_phase_length=length)
        keeper.wake()
        await quiet()
    assert len(running(supervisor)) == 36
    monkeypatch.setattr(epochs, "read_epoch", world.seen)
    world.config = CONFIG
    for _ in range(2):
        keeper.wake()
        await quiet()
    assert running(supervisor) == {"epoch 0", "epoch 1"}
    assert await supervisor.stop(60)


async def test_keeper__epochs_overlap__lives_them_side_by_side_and_takes_over_new_rules(
    world: World, rules: Rules
) -> None:
    world.slot = 1250
    forester, supervisor, keeper = await keeping(world, rules)
    parts = forester.parts
    assert keeper.states == {0: EpochState.MISSED, 1: EpochState.REGISTERED}
    await world.go(1305)
    assert forester.live.share == Share(0, 1, 1)
    await world.go(2201, step=7)
    at_2200 = keeper.states
    assert at_2200[1] is EpochState.ACTIVE
    assert at_2200[2] is not EpochState.MISSED, "registration of the next epoch, while this one is active"
    assert parts.metrics.epoch_detected._value.get() == 2
    assert b"forester_epoch_registered 2.0" in parts.metrics.exposition() or at_2200[2] is EpochState.REGISTERING
    world.config = replace(CONFIG, report_work_phase_length=50)
    world.read.clear()
    keeper.wake()
    await quiet()
    assert keeper.config == world.config
    assert world.read == {1, 2}
    assert forester.live.phases.report_work.length == 100, "a registration has a copy of the rules"
    assert keeper._runners[2]._config == world.config, "not registered yet"
    assert b"forester_epoch_reported 0.0" in parts.metrics.exposition()
    await world.go(2310)
    assert keeper.states[1] is EpochState.DONE
    assert b"forester_epoch_reported 1.0" in parts.metrics.exposition()
    assert await supervisor.stop(60)
    assert forester.shares.at(1500) is None
