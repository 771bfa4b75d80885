"""Whether a proof of a tree is ours to begin; no I/O.

A proof is begun in a term of ours (``epoch.terms``) if it will be made and can be sent before the term ends: whoever
holds the next term begins with what is then left. Nobody needs to know how fast the others are, nor whether they live:
a dead holder costs its term. A tree that nobody else has moved through several terms is taken over by somebody who then
goes on until somebody else moves it.
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
"""A proof may take so much longer than usual."""

GRACE_SLOTS = CONFIRMATION_SLOTS
"""So long after a handover the last transaction of the holder before may show up."""

_ABANDONED_TERMS = 4
_SPREAD_TERMS = 12
"""A tree that nobody else has moved is abandoned when work has lain in so many terms of others together, and up to so
many more lest two foresters take over at once."""

_LONGEST_LOOK_SLOTS = 75
"""Between two looks that are further apart nobody knows what happened."""


def needed_slots(usual_s: float, staging_s: float) -> int:
    """The time of a proof and of what comes before it."""
    return math.ceil((usual_s * _PROOF_MARGIN + staging_s) / SLOT_SECONDS)


def term_slots(need_slots: int, active_slots: int) -> int:
    """The least length of terms for proofs that take so long: the usual one, doubled until a proof fits."""
    length = MINIMUM_TERM_SLOTS
    while length <= min(GRACE_SLOTS + need_slots + CONFIRMATION_SLOTS, active_slots):
        length *= 2
    return length


def may_begin(slot: int, need_slots: int, held: Sequence[SlotRange], active_slots: int) -> bool:
    """Whether a proof that takes so long may be begun at a slot: it can be sent before the run of terms ends.

    A proof that takes longer than half of an epoch is begun in its first half: it may still fit when it is made.
    """
    place = bisect_left(held, slot, key=lambda run: run.last)
    if place == len(held) or slot < held[place].first + GRACE_SLOTS:
        return False
    return slot + min(need_slots + CONFIRMATION_SLOTS, active_slots // 2) <= held[place].last


class ProofAssignment:
    """What one forester knows of the others who may prove for a tree: nothing but whether the tree moves.

    ``forester`` tells it from the others: several would not take over an abandoned tree at once.
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
        """Take in where the tree stands, and the sequence number up to which our transactions moved it.

        ``need_slots`` is the usual time of a proof: slow provers are given more time before one takes over.
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
        """Whether a proof may be begun at a slot. ``window`` is our next, all that counts if the tree is not shared."""
        if schedule is None:
            return may_begin(slot, need_slots, [SlotRange(slot - GRACE_SLOTS, window.last)], window.length)
        active = schedule.phases.active
        held = [active] if self._abandoned else self._terms(schedule, term_slots(need_slots, active.length))
        return may_begin(slot, need_slots, held, active.length)

    def _holds(self, slot: int, schedule: TreeSchedule) -> bool:
        held = self._terms(schedule, MINIMUM_TERM_SLOTS)
        place = bisect_left(held, slot, key=lambda run: run.last)
        return place < len(held) and slot in held[place]

    def _terms(self, schedule: TreeSchedule, least_slots: int) -> tuple[SlotRange, ...]:
        if self._held is None or self._held[0] is not schedule or self._held[1] != least_slots:
            terms = terms_held_by(schedule.phases, frozenset(schedule.owned), least_slots)
            self._held = schedule, least_slots, terms
        return self._held[2]
