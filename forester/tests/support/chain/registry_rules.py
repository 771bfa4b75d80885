"""The registry's rules for one epoch and several foresters, in memory."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace

from solders.pubkey import Pubkey

from forester.chain.program_errors import ForesterRefusal
from forester.chain.registry_accounts import ForesterEpochAccount, ProtocolConfig
from forester.epoch.decisions import DONE, Action, ActionResult, EpochOnChain
from forester.epoch.phases import EpochPhases, ProtocolTimes

TIMES = ProtocolTimes(
    genesis_slot=200,
    slot_length=10,
    registration_phase_length=100,
    active_phase_length=1000,
    report_work_phase_length=100,
)
PHASES = TIMES.phases(1)
CONFIG = ProtocolConfig(
    **asdict(TIMES),
    min_weight=1,
    network_fee=1,
    cpi_context_size=1,
    finalize_counter_limit=100,
    address_network_fee=1,
)


def registration(
    index: int,
    weight: int,
    total: int | None,
    finalized: int,
    *,
    reported: bool = False,
    config: ProtocolConfig = CONFIG,
) -> ForesterEpochAccount:
    """Return our account of the epoch."""
    nobody = Pubkey.default()
    return ForesterEpochAccount(nobody, 0, 1, weight, 0, reported, index, 0, total, config, finalized)


@dataclass
class Chain:
    """Accounts of one epoch; actions are accepted and refused as the program does."""

    enforce_registration_end: bool = True
    config: ProtocolConfig = CONFIG
    weight: int = 0
    accounts: dict[str, ForesterEpochAccount] = field(default_factory=dict)
    phases: EpochPhases = PHASES

    def seen(self, who: str, slot: int) -> EpochOnChain:
        return EpochOnChain(slot, self.accounts.get(who), self.weight if self.accounts else None)

    def execute(self, who: str, action: Action, slot: int) -> ActionResult:
        code = self._refusal(who, action, slot)
        if code is not None:
            return ActionResult(done=False, code=code)
        if action is Action.REGISTER:
            self.accounts[who] = registration(self.weight, 1, None, 0, config=self.config)
            self.weight += 1
            return DONE
        old = self.accounts[who]
        self.accounts[who] = replace(
            old,
            total_epoch_weight=self.weight if action is Action.FINALIZE else old.total_epoch_weight,
            finalize_counter=old.finalize_counter + (action is Action.FINALIZE),
            has_reported_work=old.has_reported_work or action is Action.REPORT,
        )
        return DONE

    def _refusal(self, who: str, action: Action, slot: int) -> int | None:
        if action is Action.REGISTER:
            allowed = self.phases.registration if self.enforce_registration_end else self.phases.registrable
            if slot not in allowed:
                return ForesterRefusal.NOT_IN_REGISTRATION_PERIOD
            return ForesterRefusal.FORESTER_ALREADY_REGISTERED if who in self.accounts else None
        if action is Action.FINALIZE:
            if slot not in self.phases.active:
                return ForesterRefusal.INVALID_EPOCH
            full = self.accounts[who].finalize_counter >= self.config.finalize_counter_limit
            return ForesterRefusal.FINALIZE_COUNTER_EXCEEDED if full else None
        if slot not in self.phases.report_work:
            return ForesterRefusal.NOT_IN_REPORT_WORK_PHASE
        return ForesterRefusal.FORESTER_ALREADY_REPORTED_WORK if self.accounts[who].has_reported_work else None
