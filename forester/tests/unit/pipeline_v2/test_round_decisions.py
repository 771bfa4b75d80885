"""Decisions of a round: a table of states, and rounds with faults and kills."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from round_simulation import RoundSimulation

from forester.epoch.phases import SlotRange
from forester.pipeline_v2.proof_ledger import ProofState
from forester.pipeline_v2.round_decisions import FAR_LOOK_S, LOOK_S, RoundAction, RoundState, Step, next_action

REQUESTED, PROVED, READY, SENT = ProofState.REQUESTED, ProofState.PROVED, ProofState.READY, ProofState.SENT


def in_window(*chain: ProofState, slot: int = 100, fitting: int | None = None, **changes: Any) -> RoundState:
    """Return a round of at most four batches in the slots 0 to 200; a transaction has room for one more proof."""
    ready = next((number for number, state in enumerate(chain) if not state.is_sendable), len(chain))
    state: dict[str, Any] = {"limit": 4, "provable": 4, "may_begin": True, "begins_soon": True} | changes
    under_way = sum(state.is_under_way for state in chain)
    fits = ready + 1 if fitting is None else fitting
    return RoundState(SlotRange(0, 200), slot, True, chain=chain, under_way=under_way, fitting=fits, **state)


def before_window(*chain: ProofState, slot: int = 0, **changes: Any) -> RoundState:
    """Return the preparation of a round of at most four batches in the slots 1000 to 1200."""
    state: dict[str, Any] = {"limit": 4, "provable": 40, "may_begin": True, "begins_soon": True} | changes
    under_way = sum(state.is_under_way for state in chain)
    return RoundState(SlotRange(1000, 1200), slot, False, chain=chain, under_way=under_way, **state)


def send(batches: int, seconds: float = 40.0) -> Step:
    return Step(RoundAction.SEND, batches, seconds)


WAIT, END = Step(RoundAction.WAIT, seconds=LOOK_S), Step(RoundAction.END)


@pytest.mark.parametrize(
    ("state", "step"),
    [
        (in_window(), Step(RoundAction.STAGE, 4)),
        (in_window(landed=1), Step(RoundAction.STAGE, 3)),
        (in_window(READY, fitting=1, staged=True), send(1)),
        (in_window(READY, READY), send(2)),
        (in_window(READY, READY, READY, REQUESTED, fitting=2), send(2)),
        (in_window(READY, REQUESTED, staged=True), WAIT),
        (in_window(READY, PROVED, staged=True), WAIT),
        (in_window(READY, REQUESTED, staged=True, gathered=True), send(1)),
        (in_window(READY, REQUESTED, staged=True, slot=190), send(1, 4.0)),
        (in_window(SENT, READY, REQUESTED, staged=True), send(1)),
        (in_window(SENT, SENT, READY, fitting=3), send(2)),
        (in_window(REQUESTED, READY, staged=True), WAIT),
        (in_window(REQUESTED, staged=True, landed=4), END),
        (in_window(READY, stopped=True), END),
        (in_window(READY, slot=198), END),
        (in_window(READY, slot=-1), END),
        (in_window(READY, slot=196), send(1, 1.6)),
        (in_window(staged=True), END),
        (in_window(has_room=False), Step(RoundAction.END, seconds=LOOK_S)),
        (in_window(has_room=False, provable=0), END),
        (in_window(has_room=False, staged=True), END),
        (in_window(REQUESTED, has_room=False), WAIT),
        (in_window(READY, REQUESTED, has_room=False, gathered=True), send(1)),
        (in_window(provable=0), END),
        (in_window(may_begin=False), WAIT),
        (in_window(may_begin=False, begins_soon=False), END),
        (in_window(may_begin=False, landed=1), END),
        (in_window(REQUESTED, may_begin=False), WAIT),
    ],
)
def test_next_action__in_a_window__is_the_one_of_the_table(state: RoundState, step: Step) -> None:
    assert next_action(state) == step


@pytest.mark.parametrize(
    ("state", "step"),
    [
        (before_window(), Step(RoundAction.STAGE, 4)),
        (before_window(READY, READY, READY), Step(RoundAction.STAGE, 7)),
        (before_window(*[READY] * 15), Step(RoundAction.STAGE, 16)),
        (before_window(*[READY] * 16), END),
        (before_window(READY, slot=990), Step(RoundAction.STAGE, 4)),
        (before_window(*[READY] * 4, slot=990), END),
        (before_window(READY, READY, provable=2), END),
        (before_window(provable=0), END),
        (before_window(may_begin=False), Step(RoundAction.READ, seconds=LOOK_S)),
        (before_window(may_begin=False, begins_soon=False), Step(RoundAction.READ, seconds=FAR_LOOK_S)),
        (before_window(paused=True), END),
        (before_window(REQUESTED, paused=True), WAIT),
        (before_window(REQUESTED, staged=True), WAIT),
        (before_window(REQUESTED, has_room=False), WAIT),
        (before_window(READY, PROVED, staged=True, may_begin=False), WAIT),
        (before_window(READY, staged=True), Step(RoundAction.READ)),
        (before_window(READY, staged=True, chain_before=1), END),
        (before_window(READY, staged=True, failed=True), END),
        (before_window(*[READY] * 16, staged=True), END),
    ],
)
def test_next_action__before_a_window__is_the_one_of_the_table(state: RoundState, step: Step) -> None:
    assert next_action(state) == step


@pytest.mark.parametrize("slots_left", [299, 300])
def test_next_action__two_minutes_left__proves_the_next_round_too(slots_left: int) -> None:
    window = SlotRange(0, 1000)
    state = RoundState(window, 1000 - slots_left, True, limit=4, provable=20, may_begin=True, begins_soon=True)
    assert next_action(state) == Step(RoundAction.STAGE, 4 if slots_left < 300 else 8)


def test_next_action__short_window__sends_alone_from_its_middle_on() -> None:
    earlier, later = (
        replace(in_window(READY, REQUESTED, staged=True, slot=slot), window=SlotRange(0, 16)) for slot in (7, 8)
    )
    assert next_action(earlier).action is not RoundAction.SEND
    assert next_action(later).action is RoundAction.SEND


@settings(deadline=None, max_examples=150)
@given(st.integers(1, 9), st.randoms(use_true_random=False))
def test_rounds__faults_and_kills_in_any_state__send_no_landed_proof_and_drain_all(
    batches: int, chance: random.Random
) -> None:
    """The simulation checks each step; here are the ends."""
    simulation = RoundSimulation(batches, chance)
    for _ in range(25):
        simulation.round()
    simulation.calm = True
    for _ in range(2 * batches + 2):
        simulation.round()
    assert simulation.head[0] == batches
    assert not [link for link, made in simulation.made.items() if made > 1 + simulation.lost[link]]


def test_rounds__simulation__reaches_kills_and_refusals() -> None:
    """The property above would hold for a simulation in which nothing happens."""
    kills, lost, landed = 0, 0, 0
    for seed in range(40):
        simulation = RoundSimulation(9, random.Random(seed))
        for _ in range(25):
            simulation.round()
        kills += simulation.kills
        lost += sum(simulation.lost.values())
        landed += len(simulation.landed)
    assert min(kills, lost, landed) > 20
