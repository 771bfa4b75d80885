"""Scheduling terms: runs of light slots in which one forester proves a tree's batches; no I/O.

Transactions need an own light slot, proofs need time. If light slots are shorter than a proof takes, every forester
with one of the next slots would prove the same batch. So light slots are grouped into terms of 90 seconds or more,
which all foresters compute alike from the schedule: the owner of a term's last whole light slot holds it. It proves
from the first slot of the term on, sends in any light slot of its own, and has one before the term ends.
"""

from collections.abc import Collection

from forester.epoch.phases import EpochPhases, SlotRange

MINIMUM_TERM_SLOTS = 225
"""Minimum length of a term, 90 seconds: a proof of up to 40 s fits, even if the prover is busy."""


def terms_held_by(
    phases: EpochPhases, owned: Collection[int], minimum_slots: int = MINIMUM_TERM_SLOTS
) -> tuple[SlotRange, ...]:
    """Return the runs of consecutive terms that the owner of the light slots ``owned`` holds, in order.

    A run ends with a light slot of its own. Terms of twice the length end at every second of these ends.
    """
    length = -(-minimum_slots // phases.slot_length)
    whole = max(1, phases.active.length // phases.slot_length)
    count = max(1, whole // length)
    runs: list[SlotRange] = []
    for term in range(count):
        last = (term + 1) * length - 1 if term + 1 < count else whole - 1
        if last not in owned:
            continue
        first_slot, last_slot = phases.light_slot_range(term * length).first, phases.light_slot_range(last).last
        if runs and runs[-1].last + 1 == first_slot:
            first_slot = runs.pop().first
        runs.append(SlotRange(first_slot, last_slot))
    return tuple(runs)
