"""Foresters that share one tree, slot by slot: proofs take their time, views lag, and some foresters die."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from forester.epoch.phases import CONFIRMATION_SLOTS, ProtocolTimes
from forester.pipeline_v2.proof_times import FIRST_PROOF_S
from forester.scheduling.proof_assignment import ProofAssignment, needed_slots
from forester.scheduling.tree_schedule import Share, TreeSchedule
from forester.units import SLOT_SECONDS

MOST_AHEAD = 4
STAGING_S = 0.8
VIEW_SLOTS = 3
"""So old is what a forester knows of the tree."""
_REMEMBERED = 8
_NOISE = 0.25
"""Of the logarithm of a proof's time."""


@dataclass
class Setting:
    """``seconds`` of a proof by forester, slots between batches, ``dead`` foresters with the slot of their end."""

    weights: Sequence[int]
    seconds: Sequence[float]
    slot_length: int = 10
    active: int = 2000
    epochs: int = 2
    batch_every: float = 40.0
    dead: dict[int, int] = field(default_factory=dict)


@dataclass
class Result:
    """``made`` proofs, ``again`` of them for a batch that had one, ``left`` batches at the end."""

    made: int = 0
    again: int = 0
    left: int = 0
    landed_by: dict[int, int] = field(default_factory=dict)


@dataclass
class _Forester:
    seconds: float
    schedules: list[TreeSchedule]
    handover: ProofAssignment
    ends: float
    took: list[float] = field(default_factory=list)
    made_at: dict[int, int] = field(default_factory=dict)
    """The slot in which the proof of a batch is there."""
    sending: tuple[int, int, int] | None = None
    """First batch, the one after the last, the slot in which they land."""
    landed: int = 0

    def need(self) -> int:
        return needed_slots(max(self.took[-_REMEMBERED:], default=FIRST_PROOF_S), STAGING_S)


def simulate(setting: Setting, seed: int) -> Result:
    """Let batches come for six tenths of the time; all times in slots."""
    chance = random.Random(seed)
    key, total = seed.to_bytes(32, "big"), sum(setting.weights)
    times = ProtocolTimes(0, setting.slot_length, 100, setting.active, 100)
    phases = [times.phases(epoch) for epoch in range(setting.epochs)]
    foresters = [
        _Forester(
            seconds,
            [TreeSchedule.make(item, key, share, item.active.first) for item in phases],
            ProofAssignment(key, bytes([number])),
            setting.dead.get(number, math.inf),
        )
        for number, (seconds, share) in enumerate(zip(setting.seconds, _shares(setting.weights, total), strict=True))
    ]
    first, last = phases[0].active.first, phases[-1].active.last
    traffic_ends, next_batch = first + 0.6 * (last - first), float(first)
    sequence = filled = 1
    seen: list[tuple[int, int]] = []
    begun: dict[int, int] = {}
    result = Result()
    for slot in range(first, last + 1):
        while next_batch <= slot < traffic_ends:
            filled, next_batch = filled + 1, next_batch + chance.expovariate(1 / setting.batch_every)
        seen.append((sequence, filled))
        view = seen[max(0, len(seen) - 1 - VIEW_SLOTS)]
        for number, forester in enumerate(foresters):
            if slot - first >= forester.ends:
                continue
            schedule = forester.schedules[(slot - first) // setting.active]
            if forester.sending is not None and slot >= forester.sending[2]:
                if forester.sending[0] == sequence:
                    count = forester.sending[1] - sequence
                    result.landed_by[number] = result.landed_by.get(number, 0) + count
                    sequence = forester.landed = forester.sending[1]
                forester.sending = None
            _send(forester, schedule, max(view[0], forester.landed), slot, chance)
            batch = _begin(forester, schedule, (max(view[0], forester.landed), view[1]), slot, chance)
            if batch is not None:
                result.made += 1
                begun[batch] = begun.get(batch, 0) + 1
    result.again, result.left = result.made - len(begun), filled - sequence
    return result


def _shares(weights: Sequence[int], total: int) -> list[Share]:
    return [Share(sum(weights[:place]), weight, total) for place, weight in enumerate(weights)]


def _send(forester: _Forester, schedule: TreeSchedule, sequence: int, slot: int, chance: random.Random) -> None:
    window = schedule.next_window(slot)
    if (
        forester.sending is not None
        or window is None
        or slot not in window
        or window.remaining(slot) < CONFIRMATION_SLOTS
    ):
        return
    after = sequence
    while after - sequence < MOST_AHEAD and forester.made_at.get(after, slot + 1) <= slot:
        after += 1
    if after > sequence:
        forester.sending = sequence, after, slot + chance.randint(2, CONFIRMATION_SLOTS)


def _begin(
    forester: _Forester, schedule: TreeSchedule, view: tuple[int, int], slot: int, chance: random.Random
) -> int | None:
    """Return the batch of which a proof is begun."""
    sequence, filled = view
    forester.made_at = {batch: at for batch, at in forester.made_at.items() if batch >= sequence}
    need = forester.need()
    forester.handover.observe(
        slot, sequence, filled - sequence, landed=forester.landed, need_slots=need, schedule=schedule
    )
    batch = sequence
    while batch in forester.made_at:
        batch += 1
    ours = forester.handover.may_begin(slot, need, schedule.phases.active, schedule)
    if not ours or batch >= min(filled, sequence + MOST_AHEAD):
        return None
    took = forester.seconds * math.exp(chance.gauss(0, _NOISE))
    forester.took.append(took)
    forester.made_at[batch] = slot + math.ceil((took + STAGING_S) / SLOT_SECONDS)
    return batch
