"""Decisions of one epoch from the state of the chain; no I/O.

``observe`` records a reading of the chain, ``decide`` returns the next action, ``after`` records its outcome. Decisions
follow the chain's state (registration, finalised weight, report) as it was just read, so a restart in any phase
continues from the chain. Progress holds the rest: failed attempts, successes that the chain does not show, and actions
that the programs no longer accept.
Source: forester/docs/reference/behaviour.md, "Epoch life" and "Weight changes".
"""

import enum
from dataclasses import dataclass, replace

from forester.chain.program_errors import ForesterRefusal
from forester.chain.registry_accounts import ForesterEpochAccount
from forester.epoch.phases import CONFIRMATION_SLOTS, EpochPhases, Phase

ALERT_AFTER_ATTEMPTS = 5
MAXIMUM_BACKOFF_SLOTS = 64
SETTLING_SLOTS = 8
"""Slots after a success in which a lagging node may show it, before the same action is repeated."""

REFINALIZE_SLOTS = 75
"""Half a minute between finalisations because of a changed weight, unless work was refused."""

OTHER_AUTHORITY = (
    "the forester registered with the key {}, which alone may act in this epoch; "
    "run a forester with that key until the report, or wait for the next epoch"
)
"""Reason of a registration that is not ours, with its authority."""

_MISCONFIGURED = {
    ForesterRefusal.INVALID_FORESTER,
    ForesterRefusal.WEIGHT_INSUFFICIENT,
    ForesterRefusal.FORESTER_UNDEFINED,
}
_REFUSED_SHARE = {ForesterRefusal.FORESTER_NOT_ELIGIBLE, ForesterRefusal.REGISTRATION_NOT_FINALIZED}


class EpochState(enum.Enum):
    """Our state in an epoch."""

    DETECTED = "detected"
    REGISTERING = "registering"
    REGISTERED = "registered"
    FINALIZING = "finalizing"
    ACTIVE = "active"
    WAIT_REPORT = "wait_report"
    REPORTING = "reporting"
    DONE = "done"
    MISSED = "missed"
    """The epoch passes without us; nothing is sent for it unless the chain shows otherwise."""

    @property
    def is_over(self) -> bool:
        """Return whether nothing is left to do."""
        return self in (EpochState.DONE, EpochState.MISSED)


class Action(enum.Enum):
    """Next action of an epoch's runner."""

    WAIT = "wait"
    """Come back at ``until_slot``, or when an account of the epoch changes."""
    REGISTER = "register"
    FINALIZE = "finalize"
    WORK = "work"
    """Forest with the finalised share until ``until_slot`` or until the share changes."""
    REPORT = "report"
    STOP = "stop"
    """The epoch has passed; earlier, one wrong answer of a node would end work that is still possible."""


@dataclass(frozen=True)
class EpochOnChain:
    """State of an epoch on the chain, at about ``slot``.

    ``registered_weight`` is that of the epoch's account, None if the account does not exist. The configuration that was
    copied at our ``registration`` holds for the epoch, even if the protocol's has changed; so does its authority.
    ``other_authority`` is that authority if it is not our key, empty otherwise.
    """

    slot: int
    registration: ForesterEpochAccount | None
    registered_weight: int | None
    other_authority: str = ""


@dataclass(frozen=True)
class Progress:
    """Knowledge that is not on the chain; initially empty."""

    failures: int = 0
    unseen: int = 0
    """Consecutive successes that the chain does not show."""
    seen: tuple[int, int | None] | None = None
    """Finalisations and total weight of our registration, as last read: a success changes them."""
    retry_slot: int = 0
    finalized_slot: int | None = None
    share_refused: bool = False
    closed: frozenset[Action] = frozenset()
    """Actions that the programs refuse for the rest of the epoch, and a report once it is made."""
    problem: str = ""
    """Reason of the last failure, or of the repetition of a success; empty otherwise."""
    misconfigured: bool = False


@dataclass(frozen=True)
class Decision:
    """A decision. ``alert`` is the reason for an alert, empty if there is none (or no longer)."""

    state: EpochState
    action: Action
    until_slot: int | None = None
    alert: str = ""


@dataclass(frozen=True)
class ActionResult:
    """Result of an action: done, refused by the program with ``code``, or failed before it arrived, as in ``text``."""

    done: bool
    code: int | None = None
    text: str = ""


DONE = ActionResult(done=True)


def observe(progress: Progress, seen: EpochOnChain) -> Progress:
    """Return the progress after a reading of the chain: one that shows a success ends the count of those unseen."""
    registration = seen.registration
    now = None if registration is None else (registration.finalize_counter, registration.total_epoch_weight)
    if now == progress.seen:
        return progress
    if not progress.unseen:
        return replace(progress, seen=now)
    return replace(
        progress,
        failures=0,
        unseen=0,
        seen=now,
        retry_slot=min(progress.retry_slot, seen.slot + SETTLING_SLOTS),
        problem="",
        misconfigured=False,
    )


def decide(phases: EpochPhases, progress: Progress, seen: EpochOnChain) -> Decision:
    """Choose the next action of an epoch."""
    registration = seen.registration
    if registration is not None and registration.has_reported_work:
        return _over(EpochState.DONE, phases, seen)
    if seen.other_authority:
        return _over(EpochState.MISSED, phases, seen, OTHER_AUTHORITY.format(seen.other_authority))
    if seen.slot >= phases.post_first:
        if Action.REPORT in progress.closed:
            return _over(EpochState.DONE, phases, seen, _alert_reason(progress))
        alert = _alert_reason(progress) if registration is None else progress.problem
        return _over(EpochState.MISSED, phases, seen, alert)
    if registration is None:
        return _decide_registration(phases, progress, seen)
    phase = phases.phase_at(seen.slot)
    if phase in (Phase.WAITING, Phase.REGISTRATION):
        return Decision(EpochState.REGISTERED, Action.WAIT, phases.active.first)
    if phase is Phase.ACTIVE:
        return _decide_active(phases, progress, seen, registration)
    return _decide_report(phases, progress, seen, registration)


def _over(state: EpochState, phases: EpochPhases, seen: EpochOnChain, alert: str = "") -> Decision:
    """Do nothing more, but read the chain again until the epoch has passed."""
    if seen.slot >= phases.post_first:
        return Decision(state, Action.STOP, alert=alert)
    return Decision(state, Action.WAIT, phases.post_first, alert)


def _decide_registration(phases: EpochPhases, progress: Progress, seen: EpochOnChain) -> Decision:
    alert = _alert_reason(progress)
    if seen.slot > phases.registrable.last or Action.REGISTER in progress.closed:
        return _over(EpochState.MISSED, phases, seen, alert)
    if seen.slot < phases.registration.first:
        return Decision(EpochState.DETECTED, Action.WAIT, phases.registration.first)
    return _attempt(EpochState.REGISTERING, Action.REGISTER, progress, seen.slot, alert)


def _decide_active(
    phases: EpochPhases, progress: Progress, seen: EpochOnChain, registration: ForesterEpochAccount
) -> Decision:
    alert = _alert_reason(progress)
    if phases.active.remaining(seen.slot) < CONFIRMATION_SLOTS:
        return Decision(EpochState.WAIT_REPORT, Action.WAIT, phases.report_work.first, alert)
    unfinalized = registration.total_epoch_weight is None
    if unfinalized or _weight_moved(progress, seen, registration):
        exhausted = (
            registration.finalize_counter >= registration.config.finalize_counter_limit
            or Action.FINALIZE in progress.closed
        )
        if not exhausted:
            return _attempt(EpochState.FINALIZING, Action.FINALIZE, progress, seen.slot, alert)
        alert = alert or "the protocol allows no further finalisation of the epoch"
        if unfinalized:
            return Decision(EpochState.WAIT_REPORT, Action.WAIT, phases.report_work.first, alert)
    return Decision(EpochState.ACTIVE, Action.WORK, phases.active.last, alert)


def _weight_moved(progress: Progress, seen: EpochOnChain, registration: ForesterEpochAccount) -> bool:
    if seen.registered_weight is None or seen.registered_weight == registration.total_epoch_weight:
        return False
    rested = progress.finalized_slot is None or seen.slot >= progress.finalized_slot + REFINALIZE_SLOTS
    return rested or progress.share_refused


def _decide_report(
    phases: EpochPhases, progress: Progress, seen: EpochOnChain, registration: ForesterEpochAccount
) -> Decision:
    alert = _alert_reason(progress)
    if registration.total_epoch_weight is None:
        # Without a finalised share no work was accepted.
        return _over(EpochState.MISSED, phases, seen, alert)
    if Action.REPORT in progress.closed:
        return _over(EpochState.DONE, phases, seen, alert)
    return _attempt(EpochState.REPORTING, Action.REPORT, progress, seen.slot, alert)


def _attempt(state: EpochState, action: Action, progress: Progress, slot: int, alert: str) -> Decision:
    if slot < progress.retry_slot:
        return Decision(state, Action.WAIT, progress.retry_slot, alert)
    return Decision(state, action, alert=alert)


def _alert_reason(progress: Progress) -> str:
    if progress.misconfigured or max(progress.failures, progress.unseen) >= ALERT_AFTER_ATTEMPTS:
        return progress.problem
    return ""


def after(phases: EpochPhases, progress: Progress, action: Action, outcome: ActionResult, slot: int) -> Progress:
    """Return the progress after an action at ``slot``; the chain is read again before the next decision.

    A refusal of an action that is already done counts as done. A success that the chain does not show is repeated with
    growing pauses: a node may hide our account.
    """
    if outcome.done or outcome.code in _DONE_ALREADY.get(action, ()):
        unseen = 1 if action is Action.REPORT else progress.unseen + 1  # a report is not repeated
        return Progress(
            unseen=unseen,
            seen=progress.seen,
            retry_slot=slot + min(SETTLING_SLOTS * 2 ** min(unseen - 1, 16), MAXIMUM_BACKOFF_SLOTS),
            finalized_slot=slot if action is Action.FINALIZE else progress.finalized_slot,
            closed=progress.closed | {Action.REPORT} if action is Action.REPORT else progress.closed,
            problem=_NOT_SHOWN.format(action=action.value) if unseen >= ALERT_AFTER_ATTEMPTS else "",
        )
    if action is Action.WORK:
        return replace(progress, share_refused=progress.share_refused or outcome.code in _REFUSED_SHARE)
    failures = progress.failures + 1
    closed = progress.closed | {action} if _refused_permanently(phases, action, outcome.code, slot) else progress.closed
    return replace(
        progress,
        failures=failures,
        retry_slot=slot + min(2 ** min(failures, 16), MAXIMUM_BACKOFF_SLOTS),
        closed=closed,
        problem=f"{action.value} failed: {outcome.text}",
        misconfigured=outcome.code in _MISCONFIGURED,
    )


_NOT_SHOWN = (
    "{action} succeeded repeatedly, but the node does not show it in our account of the epoch; "
    "set RPC_URL to another node, for example to that of FALLBACK_RPC_URL"
)

_DONE_ALREADY: dict[Action, tuple[ForesterRefusal, ...]] = {
    Action.REGISTER: (ForesterRefusal.FORESTER_ALREADY_REGISTERED,),
    Action.REPORT: (ForesterRefusal.FORESTER_ALREADY_REPORTED_WORK,),
}


def _refused_permanently(phases: EpochPhases, action: Action, code: int | None, slot: int) -> bool:
    match action, code:
        case Action.REGISTER, ForesterRefusal.NOT_IN_REGISTRATION_PERIOD:
            # Before that our clock may run ahead of the chain.
            return slot > phases.registration.last
        case Action.FINALIZE, ForesterRefusal.FINALIZE_COUNTER_EXCEEDED:
            return True
        case Action.REPORT, ForesterRefusal.NOT_IN_REPORT_WORK_PHASE:
            return True
        case _:
            return False
