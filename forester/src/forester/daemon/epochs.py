"""Runs each epoch from its registration to its report, the current one and the next concurrently.

Source: forester/docs/reference/behaviour.md, "Epoch life".

``epoch.decisions`` decides from the state of the chain; this module reads the chain, waits, and sends transactions.
No failure ends an epoch: failures are retried until it is over.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from solders.pubkey import Pubkey

from forester.chain import bounds
from forester.chain.programs.addresses import forester_epoch_address
from forester.chain.registry_accounts import ProtocolConfig, read_protocol_config
from forester.chain.rent import maximum_rent
from forester.chain.rpc_client import RpcClient
from forester.daemon.clock import SlotClock
from forester.daemon.live_epochs import LiveEpoch, LiveShares
from forester.daemon.supervisor import RESTARTS, Supervisor
from forester.epoch.decisions import (
    DONE,
    Action,
    ActionResult,
    Decision,
    EpochOnChain,
    EpochState,
    Progress,
    after,
    decide,
    observe,
)
from forester.epoch.phases import EpochPhases
from forester.epoch.registration import instruction_of, outcome_of, read_epoch
from forester.errors import ForesterError, InsufficientFunds, TransactionRefused
from forester.network_status.epochs import protocol_times
from forester.observability.metrics import Metrics
from forester.scheduling.tree_schedule import Share
from forester.transactions.confirm import Fate
from forester.transactions.sender import Sender
from forester.waiting import Wait, first_of
from shared.process.logs import bind, get_logger
from shared.process.retries import jittered

_log = get_logger(__name__)

CONFIG_REFRESH_S = 600.0
REREAD_S = 30.0
"""Interval of reads of an epoch without notifications of changes."""

_SLOT_RETURN_S = 30.0
"""Maximum time for the last reads of a transaction, after its time in flight and before its slot is free."""
_ACTION_UNITS = 100_000
"""Several times the units of a registration, the most expensive action."""
_REGISTRATION_LAMPORTS = maximum_rent(265) + maximum_rent(184)
"""The payer pays the rent of our account of an epoch, and of the epoch's if it is the first to register."""

_OVER_REMEMBERED = 8

_MAXIMUM_RUNNERS = 2 * (bounds.MAXIMUM_OVERLAPPING_EPOCHS + 2)
"""Epochs that are run at once: those of the protocol configuration, and as many that were registered under others."""

ReportAlert = Callable[[int, str | None], None]
"""Called with an epoch and the reason for an alert; an empty reason ends the alerts of it and earlier ones, None its
own, as it was none."""

_WELL = (EpochState.ACTIVE, EpochState.DONE)


@dataclass(frozen=True)
class EpochParts:
    """Services for running an epoch. ``authority`` signs for the forester that ``derivation`` names.

    ``in_flight_s`` is the maximum time of a transaction in flight: an action waits so long for a slot, then has it.
    """

    rpc: RpcClient
    sender: Sender
    clock: SlotClock
    shares: LiveShares
    metrics: Metrics
    authority: Pubkey
    derivation: Pubkey
    report_alert: ReportAlert
    in_flight_s: float
    unpaid: Callable[[], None] = lambda: None
    """Called when an action could not be paid for."""
    reread_s: float = REREAD_S


class EpochRunner:
    """Runner of one epoch. ``run`` may be restarted at any time: progress is read from the chain."""

    def __init__(self, parts: EpochParts, epoch: int, config: ProtocolConfig, stopping: asyncio.Event) -> None:
        self.epoch = epoch
        self.state = EpochState.DETECTED
        self.registered = False
        self._parts = parts
        self._config = config
        self._stopping = stopping
        self._awake = asyncio.Event()
        self.ended = False
        """Whether ``end`` was called."""
        self._refused: TransactionRefused | None = None
        self._alert = ""

    def wake(self) -> None:
        """Read the chain again now."""
        self._awake.set()

    def end(self) -> None:
        """End after the action under way, and take back an alert: there is no such epoch yet."""
        self.ended = True
        self._awake.set()
        if self._alert:
            self._parts.report_alert(self.epoch, None)

    def adopt(self, config: ProtocolConfig) -> None:
        """Use a new protocol configuration, until we are registered: a registration has a copy of its own."""
        self._config = config
        self._awake.set()

    def refuse(self, error: TransactionRefused) -> None:
        """Record that work in this epoch was refused: the share may be outdated."""
        self._refused = error
        self._awake.set()

    async def run(self) -> None:
        """Run until the epoch is over, or a stop is requested."""
        with bind(epoch=self.epoch):
            try:
                await self._run_once()
            finally:
                self._parts.shares.publish(self.epoch, None)

    async def _run_once(self) -> None:
        progress, failures = Progress(), 0
        while not (self._stopping.is_set() or self.ended):
            self._awake.clear()
            try:
                seen = await self._read()
            except ForesterError as error:
                failures += 1
                _log.warning("epoch_unreadable", error=error.detail, failures=failures)
                await first_of(self._stopping.wait(), timeout_s=jittered(RESTARTS, failures))
                continue
            if self.ended:
                return
            failures = 0
            phases = self._phases(seen)
            progress = observe(self._with_refusal(phases, progress, seen.slot), seen)
            decision = decide(phases, progress, seen)
            self._report(phases, seen, decision)
            if decision.action is Action.STOP and seen.slot >= self._passed_at():
                return
            if decision.action in (Action.WAIT, Action.WORK, Action.STOP):
                await self._wait(decision)
            else:
                outcome = await self._act(decision.action)
                progress = after(phases, progress, decision.action, outcome, self._parts.clock.slot())

    async def _read(self) -> EpochOnChain:
        # The clock's slot: one of the node's may be wrong, or lag, and a wait for a slot would then never end.
        parts = self._parts
        slot = parts.clock.slot()
        return await read_epoch(parts.rpc, parts.derivation, self.epoch, slot, authority=parts.authority)

    def _passed_at(self) -> int:
        """Return the slot after the epoch by the protocol's configuration: our account's copy may be a wrong answer."""
        return protocol_times(self._config).phases(self.epoch).post_first

    def _phases(self, seen: EpochOnChain) -> EpochPhases:
        config = self._config if seen.registration is None else seen.registration.config
        return protocol_times(config).phases(self.epoch)

    def _with_refusal(self, phases: EpochPhases, progress: Progress, slot: int) -> Progress:
        refused, self._refused = self._refused, None
        if refused is None:
            return progress
        return after(phases, progress, Action.WORK, outcome_of(Action.WORK, refused), slot)

    def _report(self, phases: EpochPhases, seen: EpochOnChain, decision: Decision) -> None:
        changed = decision.state is not self.state
        if changed:
            self.state = decision.state
            _log.info("epoch_state", state=decision.state.value, slot=seen.slot)
        if decision.alert != self._alert or (changed and decision.state in _WELL):
            self._alert = decision.alert
            self._parts.report_alert(self.epoch, decision.alert)
        registration = seen.registration
        self.registered = registration is not None and not seen.other_authority
        live = None
        works = not decision.state.is_over and seen.slot in phases.active
        if works and registration is not None and registration.total_epoch_weight:
            share = Share(registration.forester_index, registration.weight, registration.total_epoch_weight)
            live = LiveEpoch(phases, share)
        self._parts.shares.publish(self.epoch, live, self.refuse)

    async def _wait(self, decision: Decision) -> None:
        until = decision.until_slot
        waits: list[Wait] = [self._stopping.wait(), self._awake.wait()]
        if until is not None:
            # The last slot of work is one of work.
            waits.append(self._parts.clock.reach(until + (decision.action is Action.WORK)))
        await first_of(*waits, timeout_s=self._parts.reread_s)

    async def _act(self, action: Action) -> ActionResult:
        parts = self._parts
        instruction = instruction_of(action, parts.authority, parts.derivation, self.epoch)
        try:
            sent = await parts.sender.send(
                [instruction],
                purpose=action.value,
                subject=bytes(forester_epoch_address(parts.derivation, self.epoch)),
                within_s=2 * parts.in_flight_s + _SLOT_RETURN_S,
                unit_limit=_ACTION_UNITS,
                program_lamports=_REGISTRATION_LAMPORTS if action is Action.REGISTER else 0,
            )
        except ForesterError as error:
            outcome = outcome_of(action, error)
        else:
            if isinstance(sent.error, InsufficientFunds):
                parts.unpaid()
            if sent.fate is Fate.CONFIRMED:
                outcome = DONE
            elif sent.error is not None:
                outcome = outcome_of(action, sent.error)
            else:
                outcome = ActionResult(done=False, text=f"not confirmed: {sent.fate.value}")
        _log.info("epoch_action", action=action.value, done=outcome.done, code=outcome.code, reason=outcome.text)
        return outcome


class EpochKeeper:
    """Starter of every epoch that allows an action; it keeps the protocol configuration up to date."""

    def __init__(self, parts: EpochParts, supervisor: Supervisor) -> None:
        self._parts = parts
        self._supervisor = supervisor
        self._awake = asyncio.Event()
        self._runners: dict[int, EpochRunner] = {}
        self.config: ProtocolConfig | None = None
        parts.metrics.epoch_registered.set_function(self._registered)
        parts.metrics.epoch_reported.set_function(self._reported)

    @property
    def states(self) -> dict[int, EpochState]:
        """Return the states of the latest epochs."""
        return {epoch: runner.state for epoch, runner in self._runners.items()}

    def _registered(self) -> float:
        return max((epoch for epoch, runner in self._runners.items() if runner.registered), default=0)

    def _reported(self) -> float:
        return max((epoch for epoch, state in self.states.items() if state is EpochState.DONE), default=0)

    def wake(self) -> None:
        """Record that epochs or the protocol configuration may have changed."""
        self._awake.set()
        for runner in self._runners.values():
            runner.wake()

    async def run(self) -> None:
        """Start epochs forever. Raises ForesterError without a configuration: the supervisor restarts it."""
        parts = self._parts
        while True:
            self._awake.clear()
            await self._refresh_config()
            assert self.config is not None  # noqa: S101 - read just now
            times, slot = protocol_times(self.config), parts.clock.slot()
            live = times.live_epochs(slot)
            self._end_unopened(live.stop)
            for epoch in live:
                self._begin(epoch, self.config)
            self._forget_before(live.start)
            following = live[-1] + 1 if live else 0
            if live:
                parts.metrics.epoch_detected.set(live[-1])
            opening = times.phases(following).registration.first
            await first_of(parts.clock.reach(opening), self._awake.wait(), timeout_s=CONFIG_REFRESH_S)

    async def _refresh_config(self) -> None:
        """Read the protocol configuration; epochs for which we are not registered follow the new one."""
        config = (await read_protocol_config(self._parts.rpc)).config
        if self.config is not None and config != self.config:
            _log.warning("protocol_config_changed", active_phase_length=config.active_phase_length)
            for runner in self._runners.values():
                runner.adopt(config)
        self.config = config

    def _end_unopened(self, first: int) -> None:
        """End the runners from an epoch on that a wrong or an earlier configuration began, but registered ones."""
        for epoch in [number for number, runner in self._runners.items() if number >= first and not runner.registered]:
            self._runners.pop(epoch).end()

    def _begin(self, epoch: int, config: ProtocolConfig) -> None:
        """Run an epoch, also one whose runner a wrong configuration has ended."""
        name = f"epoch {epoch}"
        running = [task for task in self._supervisor.names if task.startswith("epoch ")]
        if name in running or name in self._supervisor.dead:
            return
        if len(running) >= _MAXIMUM_RUNNERS:
            _log.error("epoch_not_run", epoch=epoch, running=len(running))
            return
        runner = EpochRunner(self._parts, epoch, config, self._supervisor.stopping)
        self._runners[epoch] = runner
        self._supervisor.start("epoch", partial(self._run, runner), name=name, drains=True)

    async def _run(self, runner: EpochRunner) -> None:
        try:
            await runner.run()
        finally:
            if runner.ended:
                self._awake.set()  # the right configuration may have come back meanwhile

    def _forget_before(self, first: int) -> None:
        for old in sorted(self._runners)[:-_OVER_REMEMBERED]:
            if old < first and self._runners[old].state.is_over:
                del self._runners[old]
