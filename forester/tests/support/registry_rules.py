"""The registry's rules for one epoch and several foresters, in memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from forester.epoch.machine import DONE, Action, EpochOnChain, Outcome, Registration, RegistryCode
from forester.epoch.phases import EpochPhases, ProtocolTimes

TIMES = ProtocolTimes(
    genesis_slot=200,
    slot_length=10,
    registration_phase_length=100,
    active_phase_length=1000,
    report_work_phase_length=100,
)
PHASES = TIMES.phases(1)


@dataclass
class Chain:
    """Accounts of one epoch; actions are accepted and refused as the program does."""

    enforce_registration_end: bool = True
    limit: int = 100
    weight: int = 0
    accounts: dict[str, Registration] = field(default_factory=dict)
    phases: EpochPhases = PHASES

    def seen(self, who: str, slot: int) -> EpochOnChain:
        return EpochOnChain(slot, self.accounts.get(who), self.weight if self.accounts else None, self.limit)

    def execute(self, who: str, action: Action, slot: int) -> Outcome:
        code = self._refusal(who, action, slot)
        if code is not None:
            return Outcome(done=False, code=code)
        if action is Action.REGISTER:
            self.accounts[who] = Registration(self.weight, 1, None, 0, has_reported=False)
            self.weight += 1
            return DONE
        old = self.accounts[who]
        self.accounts[who] = Registration(
            old.index,
            old.weight,
            self.weight if action is Action.FINALIZE else old.total_weight,
            old.finalize_count + (action is Action.FINALIZE),
            has_reported=old.has_reported or action is Action.REPORT,
        )
        return DONE

    def _refusal(self, who: str, action: Action, slot: int) -> int | None:
        if action is Action.REGISTER:
            allowed = self.phases.registration if self.enforce_registration_end else self.phases.registrable
            if slot not in allowed:
                return RegistryCode.NOT_IN_REGISTRATION_PERIOD
            return RegistryCode.FORESTER_ALREADY_REGISTERED if who in self.accounts else None
        if action is Action.FINALIZE:
            if slot not in self.phases.active:
                return RegistryCode.INVALID_EPOCH
            full = self.accounts[who].finalize_count >= self.limit
            return RegistryCode.FINALIZE_COUNTER_EXCEEDED if full else None
        if slot not in self.phases.report_work:
            return RegistryCode.NOT_IN_REPORT_WORK_PHASE
        return RegistryCode.FORESTER_ALREADY_REPORTED_WORK if self.accounts[who].has_reported else None
