"""The life of an epoch: driven by a chain in memory that accepts and refuses as the registry program does."""

from dataclasses import replace

import pytest
from registry_rules import CONFIG, PHASES, Chain, registration

from forester.chain.program_errors import ForesterRefusal
from forester.chain.registry_accounts import ForesterEpochAccount
from forester.epoch.decisions import (
    ALERT_AFTER_ATTEMPTS,
    DONE,
    MAXIMUM_BACKOFF_SLOTS,
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

REGISTERED = registration(0, 1, None, 0)
FINALIZED = registration(0, 1, 1, 1)


def seen(slot: int, registration: ForesterEpochAccount | None = None, weight: int | None = 1) -> EpochOnChain:
    return EpochOnChain(slot, registration, weight)


def live(chain: Chain, who: str, first: int, last: int) -> tuple[list[Action], Decision]:
    """Run one forester from slot to slot; what it sent, and its last decision."""
    sent: list[Action] = []
    progress, slot = Progress(), first
    decision = decide(PHASES, progress, chain.seen(who, slot))
    while slot <= last:
        progress = observe(progress, chain.seen(who, slot))
        decision = decide(PHASES, progress, chain.seen(who, slot))
        if decision.action is Action.STOP:
            break
        if decision.action in (Action.WAIT, Action.WORK):
            assert decision.until_slot is not None
            slot = max(slot + 1, decision.until_slot)
            continue
        sent.append(decision.action)
        progress = after(PHASES, progress, decision.action, chain.execute(who, decision.action, slot), slot)
        slot += 1
    return sent, decision


@pytest.mark.parametrize("start", [0, 1199, 1200, 1299])
def test_epoch__lived_from_before_the_active_phase__registers_finalises_and_reports_once(start: int) -> None:
    sent, decision = live(Chain(), "a", start, 3000)
    assert sent == [Action.REGISTER, Action.FINALIZE, Action.REPORT]
    assert (decision.state, decision.action, decision.alert) == (EpochState.DONE, Action.STOP, "")


@pytest.mark.parametrize(
    ("stop", "restart", "sent_after"),
    [
        (1250, 1260, [Action.FINALIZE, Action.REPORT]),
        (1299, 1500, [Action.FINALIZE, Action.REPORT]),
        (1400, 1500, [Action.REPORT]),
        (2299, 2300, [Action.REPORT]),
        (2350, 2360, []),
        (2350, 5000, []),
    ],
)
def test_epoch__restart_in_each_phase__continues_where_the_chain_is(
    stop: int, restart: int, sent_after: list[Action]
) -> None:
    chain = Chain()
    live(chain, "a", 1200, stop)
    sent, decision = live(chain, "a", restart, 3000)
    assert sent == sent_after
    assert decision.state is EpochState.DONE


@pytest.mark.parametrize("start", [2200, 2300, 2350, 2400, 9000])
def test_epoch__started_too_late_to_register__is_missed_without_a_transaction_or_an_alert(start: int) -> None:
    sent, decision = live(Chain(), "a", start, 9001)
    assert sent == []
    assert decision == Decision(EpochState.MISSED, Action.STOP)


def test_epoch__started_in_the_active_phase__registers_where_the_program_still_accepts_it() -> None:
    sent, decision = live(Chain(enforce_registration_end=False), "a", 1500, 3000)
    assert sent == [Action.REGISTER, Action.FINALIZE, Action.REPORT]
    sent, decision = live(Chain(), "a", 1500, 3000)
    assert sent == [Action.REGISTER], "a refusal after the end of the phase is final"
    assert decision.state is EpochState.MISSED


def test_epoch__three_foresters_one_after_another__end_up_with_the_same_total_weight() -> None:
    chain = Chain(enforce_registration_end=False)
    progress = {"a": Progress(), "b": Progress(), "c": Progress()}
    begins = {"a": 1200, "b": 1295, "c": 1400}
    for slot in range(1200, 1700):
        for who, begin in begins.items():
            if slot < begin:
                continue
            progress[who] = observe(progress[who], chain.seen(who, slot))
            decision = decide(PHASES, progress[who], chain.seen(who, slot))
            if decision.action not in (Action.WAIT, Action.WORK):
                outcome = chain.execute(who, decision.action, slot)
                progress[who] = after(PHASES, progress[who], decision.action, outcome, slot)
    assert {account.total_epoch_weight for account in chain.accounts.values()} == {3}
    assert [chain.accounts[who].forester_index for who in "abc"] == [0, 1, 2]
    assert [chain.accounts[who].finalize_counter for who in "abc"] == [2, 2, 1], "no needless finalisation"


def test_weight__changed_soon_after_a_finalisation__waits_unless_work_was_refused() -> None:
    progress = after(PHASES, Progress(), Action.FINALIZE, DONE, 1300)
    moved = seen(1320, FINALIZED, weight=2)
    assert decide(PHASES, progress, moved).action is Action.WORK
    refused = after(
        PHASES, progress, Action.WORK, ActionResult(done=False, code=ForesterRefusal.FORESTER_NOT_ELIGIBLE), 1320
    )
    assert decide(PHASES, refused, moved).action is Action.FINALIZE
    assert decide(PHASES, refused, seen(1320, FINALIZED, weight=1)).action is Action.WORK, "the weight is the same"
    assert decide(PHASES, progress, seen(1375, FINALIZED, weight=2)).action is Action.FINALIZE


def test_weight__finalised_by_a_racing_call__is_not_finalised_again() -> None:
    progress = after(PHASES, Progress(), Action.FINALIZE, DONE, 1300)
    stale = decide(PHASES, progress, seen(1301, REGISTERED))
    assert (stale.action, stale.until_slot) == (Action.WAIT, 1308), "a lagging node is given time"
    assert decide(PHASES, progress, seen(1302, FINALIZED)).action is Action.WORK


def test_finalise__counter_used_up__works_on_with_the_old_weight_and_alerts() -> None:
    exhausted = registration(0, 1, 1, 1, config=replace(CONFIG, finalize_counter_limit=1))
    decision = decide(PHASES, Progress(), seen(1400, exhausted, weight=2))
    assert decision.action is Action.WORK
    assert "no further finalisation" in decision.alert
    refused = after(
        PHASES,
        Progress(),
        Action.FINALIZE,
        ActionResult(done=False, code=ForesterRefusal.FINALIZE_COUNTER_EXCEEDED),
        1400,
    )
    assert decide(PHASES, refused, seen(1500, FINALIZED, weight=2)).action is Action.WORK
    never = decide(PHASES, refused, seen(1500, REGISTERED))
    assert (never.state, never.action) == (EpochState.WAIT_REPORT, Action.WAIT)


def test_active_phase__last_slots__leave_no_time_for_a_transaction() -> None:
    assert decide(PHASES, Progress(), seen(2295, FINALIZED)).action is Action.WORK
    decision = decide(PHASES, Progress(), seen(2296, FINALIZED))
    assert (decision.state, decision.action, decision.until_slot) == (EpochState.WAIT_REPORT, Action.WAIT, 2300)


@pytest.mark.parametrize(
    "code", [ForesterRefusal.FORESTER_ALREADY_REPORTED_WORK, ForesterRefusal.NOT_IN_REPORT_WORK_PHASE]
)
def test_report__refused_as_made_or_too_late__is_over(code: ForesterRefusal) -> None:
    progress = after(PHASES, Progress(), Action.REPORT, ActionResult(done=False, code=code), 2310)
    assert decide(PHASES, progress, seen(2311, FINALIZED)).state is EpochState.DONE


def test_report__refused_as_too_early__is_tried_again_until_the_phase_ends() -> None:
    progress, slot, attempts = Progress(), 2300, 0
    while (decision := decide(PHASES, progress, seen(slot, FINALIZED))).action is not Action.STOP:
        if decision.action is Action.WAIT:
            slot = decision.until_slot or slot
            continue
        attempts += 1
        outcome = ActionResult(done=False, code=ForesterRefusal.NOT_IN_ACTIVE_PHASE, text="too early")
        progress = after(PHASES, progress, Action.REPORT, outcome, slot)
    assert attempts >= 5
    assert decision.state is EpochState.MISSED
    assert "report failed: too early" in decision.alert


def test_report__never_finalised__has_nothing_to_report() -> None:
    assert decide(PHASES, Progress(), seen(2310, REGISTERED)).state is EpochState.MISSED


def test_attempts__failing_on_the_way__back_off_alert_and_recover() -> None:
    progress, slot, waits = Progress(), 1200, []
    for attempt in range(1, 9):
        assert decide(PHASES, progress, seen(slot)).action is Action.REGISTER
        progress = after(PHASES, progress, Action.REGISTER, ActionResult(done=False, text="connection refused"), slot)
        waiting = decide(PHASES, progress, seen(slot))
        assert waiting.until_slot is not None
        waits.append(waiting.until_slot - slot)
        assert bool(waiting.alert) == (attempt >= ALERT_AFTER_ATTEMPTS)
        slot = waiting.until_slot
    assert waits == [2, 4, 8, 16, 32, *[MAXIMUM_BACKOFF_SLOTS] * 3]
    assert after(PHASES, progress, Action.REGISTER, DONE, slot).problem == "", "the alert is resolved"


@pytest.mark.parametrize("code", [ForesterRefusal.INVALID_FORESTER, ForesterRefusal.WEIGHT_INSUFFICIENT])
def test_registration__refused_for_its_configuration__alerts_at_once_and_tries_on(code: ForesterRefusal) -> None:
    outcome = ActionResult(done=False, code=code, text=code.name)
    progress = after(PHASES, Progress(), Action.REGISTER, outcome, 1200)
    decision = decide(PHASES, progress, seen(1201))
    assert (decision.action, decision.until_slot) == (Action.WAIT, 1202)
    assert decision.alert == f"register failed: {code.name}"
    assert decide(PHASES, progress, seen(1202)).action is Action.REGISTER


@pytest.mark.parametrize("slot", [1250, 1300, 1700, 2300])
def test_registration__of_another_key__is_missed_and_alerts_until_the_chain_shows_ours(slot: int) -> None:
    foreign = replace(seen(slot, FINALIZED), other_authority="OldKey")
    decision = decide(PHASES, Progress(), foreign)
    assert (decision.state, decision.action) == (EpochState.MISSED, Action.WAIT)
    assert "registered with the key OldKey" in decision.alert
    assert decide(PHASES, Progress(), replace(foreign, other_authority="")).alert == ""
    reported = replace(foreign, registration=registration(0, 1, 1, 1, reported=True))
    assert decide(PHASES, Progress(), reported).state is EpochState.DONE
    assert decide(PHASES, Progress(), replace(foreign, slot=PHASES.post_first)).action is Action.STOP


@pytest.mark.parametrize("code", [ForesterRefusal.INVALID_FORESTER, ForesterRefusal.FORESTER_UNDEFINED])
def test_work__refused_with_a_code_that_other_programs_use__changes_and_alerts_nothing(code: ForesterRefusal) -> None:
    registered = Progress(finalized_slot=1300)
    assert (
        after(PHASES, registered, Action.WORK, ActionResult(done=False, code=code, text=code.name), 1400) == registered
    )
    assert decide(PHASES, registered, seen(1401, FINALIZED)).alert == ""


def test_registration__account_there_already__is_treated_as_done() -> None:
    outcome = ActionResult(done=False, code=ForesterRefusal.FORESTER_ALREADY_REGISTERED)
    progress = after(PHASES, Progress(), Action.REGISTER, outcome, 1250)
    assert progress.failures == 0
    assert decide(PHASES, progress, seen(1251, REGISTERED)).state is EpochState.REGISTERED


@pytest.mark.parametrize(
    ("action", "outcome", "hiding", "showing"),
    [
        (
            Action.REGISTER,
            ActionResult(done=False, code=ForesterRefusal.FORESTER_ALREADY_REGISTERED, text="in use"),
            None,
            REGISTERED,
        ),
        (Action.REGISTER, DONE, None, REGISTERED),
        (Action.FINALIZE, DONE, REGISTERED, FINALIZED),
    ],
    ids=["already registered", "registered", "finalised"],
)
def test_success__never_shown_by_the_node__backs_off_alerts_and_recovers(
    action: Action, outcome: ActionResult, hiding: ForesterEpochAccount | None, showing: ForesterEpochAccount
) -> None:
    progress, slot, pauses, alerts = Progress(), 1300, [], []
    for _ in range(10):
        progress = observe(progress, seen(slot, hiding))
        assert decide(PHASES, progress, seen(slot, hiding)).action is action
        progress = observe(after(PHASES, progress, action, outcome, slot), seen(slot, hiding))
        waiting = decide(PHASES, progress, seen(slot, hiding))
        assert waiting.until_slot is not None
        pauses.append(waiting.until_slot - slot)
        alerts.append(waiting.alert)
        slot = waiting.until_slot
    assert pauses == [8, 16, 32, *[MAXIMUM_BACKOFF_SLOTS] * 7]
    assert [bool(alert) for alert in alerts] == [False] * (ALERT_AFTER_ATTEMPTS - 1) + [True] * 6
    assert "does not show it in our account of the epoch" in alerts[-1]
    assert "FALLBACK_RPC_URL" in alerts[-1]
    shown = observe(progress, seen(slot - 60, showing))
    assert decide(PHASES, shown, seen(slot - 60, showing)).alert == ""
    assert (shown.unseen, shown.retry_slot) == (0, slot - 52), "the next action need not wait for the long pause"
    again = after(PHASES, observe(shown, seen(slot, hiding)), action, outcome, slot)
    assert observe(again, seen(slot, showing)).unseen == 0, "a node that shows it only now and then"


def test_epoch__weight_moves_many_times__pauses_as_after_each_first_success_and_alerts_nothing() -> None:
    chain, progress, slot = Chain(enforce_registration_end=False), Progress(), 1290
    for number in range(9):
        for action in (Action.REGISTER, Action.FINALIZE) if number == 0 else (Action.FINALIZE,):
            slot = max(slot + 80, 1300)
            progress = observe(progress, chain.seen("a", slot))
            decision = decide(PHASES, progress, chain.seen("a", slot))
            assert (decision.action, decision.alert) == (action, "")
            progress = after(PHASES, progress, action, chain.execute("a", action, slot), slot)
            assert progress.retry_slot == slot + 8
        chain.execute(f"other {number}", Action.REGISTER, slot)
