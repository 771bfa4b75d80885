"""Assignment of the proofs of a tree to foresters; no I/O.

A forester begins a proof in its own scheduling term (``scheduling_terms``) if the proof can be finished and sent before
the term ends: the holder of the next term begins with the remaining work. No forester needs to know how fast the others
are, or that they live: a dead holder costs its term. If no other forester has moved a tree through several terms, one
takes it over, and continues until another moves it.
"""

import hashlib
import math
from bisect import bisect_left
from collections.abc import Sequence

from forester.epoch.phases import CONFIRMATION_SLOTS, SlotRange
from forester.scheduling.scheduling_terms import MINIMUM_TERM_SLOTS, terms_held_by
from forester.scheduling.tree_schedule import TreeSchedule
from forester.units import SLOT_SECONDS

_PROOF_MARGIN = 1.25
"""Factor by which a proof may take longer than usual."""

GRACE_SLOTS = CONFIRMATION_SLOTS
"""Slots after a handover in which the last transaction of the previous holder may still land."""

_ABANDONED_TERMS = 4
_SPREAD_TERMS = 12
"""Terms of others, in total, in which work has waited before a tree counts as abandoned. The second number is the range
of a delay that differs between foresters, so that two do not take over at once."""

_LONGEST_LOOK_SLOTS = 75
"""Maximum slots between two observations that count as unmoved: events in a longer gap are unknown."""


def needed_slots(usual_s: float, staging_s: float) -> int:
    """Return the slots of a proof and of the staging before it."""
    return math.ceil((usual_s * _PROOF_MARGIN + staging_s) / SLOT_SECONDS)


def term_slots(need_slots: int, active_slots: int) -> int:
    """Return the minimum length of terms for proofs of ``need_slots``: the usual one, doubled until a proof fits."""
    length = MINIMUM_TERM_SLOTS
    while length <= min(GRACE_SLOTS + need_slots + CONFIRMATION_SLOTS, active_slots):
        length *= 2
    return length


def may_begin(slot: int, need_slots: int, held: Sequence[SlotRange], active_slots: int) -> bool:
    """Return whether a proof of ``need_slots`` may begin at a slot: it can be sent before the run of terms ends.

    A proof that takes longer than half of an epoch begins in its first half: it may still fit when finished.
    """
    index = bisect_left(held, slot, key=lambda run: run.last)
    if index == len(held) or slot < held[index].first + GRACE_SLOTS:
        return False
    return slot + min(need_slots + CONFIRMATION_SLOTS, active_slots // 2) <= held[index].last


class ProofAssignment:
    """Assignment of the proofs of one tree, from the schedule and from the movement of the tree.

    ``forester`` identifies ours, so that several do not take over an abandoned tree at once.
    """

    def __init__(self, tree: bytes, forester: bytes) -> None:
        lot = int.from_bytes(hashlib.sha256(tree + forester).digest()[:8], "big") / 2**64
        self._patience_terms = _ABANDONED_TERMS + _SPREAD_TERMS * lot
        self._seen: tuple[int, int, int] | None = None
        self._unmoved_slots = 0
        self._abandoned = False
        self._held: tuple[TreeSchedule, int, tuple[SlotRange, ...]] | None = None

    def observe(
        self,
        slot: int,
        sequence: int,
        provable: int,
        *,
        landed: int,
        need_slots: int,
        schedule: TreeSchedule | None,
    ) -> None:
        """Record the state of the tree, and the sequence number up to which our transactions moved it.

        ``need_slots`` is the usual time of a proof: slow provers have more time before a takeover.
        """
        before, self._seen = self._seen, (slot, sequence, provable)
        if schedule is None or before is None:
            return
        if sequence > max(before[1], landed):
            self._abandoned, self._unmoved_slots = False, 0
        elif sequence == before[1] and before[2] and not self._holds(slot, schedule):
            self._unmoved_slots += max(0, min(slot - before[0], _LONGEST_LOOK_SLOTS))
        if self._unmoved_slots >= self._patience_terms * max(MINIMUM_TERM_SLOTS, 2 * need_slots):
            self._abandoned = True

    def may_begin(self, slot: int, need_slots: int, window: SlotRange, schedule: TreeSchedule | None) -> bool:
        """Return whether a proof may begin at a slot. ``window`` is our next one, and decides for unshared trees."""
        if schedule is None:
            return may_begin(slot, need_slots, [SlotRange(slot - GRACE_SLOTS, window.last)], window.length)
        active = schedule.phases.active
        held = [active] if self._abandoned else self._terms(schedule, term_slots(need_slots, active.length))
        return may_begin(slot, need_slots, held, active.length)

    def _holds(self, slot: int, schedule: TreeSchedule) -> bool:
        held = self._terms(schedule, MINIMUM_TERM_SLOTS)
        index = bisect_left(held, slot, key=lambda run: run.last)
        return index < len(held) and slot in held[index]

    def _terms(self, schedule: TreeSchedule, minimum_slots: int) -> tuple[SlotRange, ...]:
        if self._held is None or self._held[0] is not schedule or self._held[1] != minimum_slots:
            terms = terms_held_by(schedule.phases, frozenset(schedule.owned), minimum_slots)
            self._held = schedule, minimum_slots, terms
        return self._held[2]
