"""Trees with their dispatchers: scripted tree processors, and a clock that is moved by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from chain_accounts import TreeAccount
from registry_rules import PHASES
from solders.pubkey import Pubkey

from forester.chain.rpc_client import RpcClient
from forester.chain.tree_metadata import TreeKind, TreeMetadata, decode_tree_metadata
from forester.daemon.clock import SlotClock
from forester.daemon.funds import Funds
from forester.daemon.live_epochs import LiveEpoch, LiveShares
from forester.daemon.supervisor import Supervisor
from forester.daemon.trees.dispatch import DispatchParts, TreeDispatcher
from forester.daemon.trees.tasks import TreeTasks
from forester.epoch.phases import SlotRange
from forester.errors import TransactionRefused
from forester.observability.metrics import Metrics
from forester.scheduling.eligibility_window import EligibilityWindow, ProcessingResult
from forester.scheduling.tree_schedule import Share, TreeSchedule
from shared.process.retries import Backoff

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


async def begin_slow_round(setting: Setting, item: TreeMetadata) -> asyncio.Event:
    """Begin a tree whose round is under way until the returned event is set."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_: EligibilityWindow) -> None:
        begun.set()
        await go_on.wait()

    setting.during = slow
    await setting.begin(item)
    setting.publish()
    await asyncio.wait_for(begun.wait(), 60)
    return go_on
