"""Our light slots of a tree; no I/O.

Source: forester/docs/reference/programs.md, "Eligibility"; forester/docs/reference/behaviour.md, "Schedules".
A light slot belongs to the forester whose share of the registered weight contains the
hash of (key, epoch, light slot). The key is the tree of V2 trees, the queue of V1 trees, and zero for compression work.
Schedules are made of the finalised weight only: earlier, all but the last to register would compute wrong ones.
"""

import hashlib
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from forester.epoch.phases import EpochPhases, SlotRange

COMPRESSION_KEY = bytes(32)

_LIGHT_SLOTS = "H"
"""Type of numbers below MAXIMUM_LIGHT_SLOTS in arrays: each tree keeps up to so many numbers for an epoch."""


@dataclass(frozen=True)
class Share:
    """Our part of the registered weight: ``weight`` parts from ``index`` on, of ``total_weight``, which is not 0."""

    index: int
    weight: int
    total_weight: int

    def owns(self, part: int) -> bool:
        """Return whether a part belongs to the share."""
        return self.index <= part < self.index + self.weight


def chosen_part(key: bytes, epoch: int, light_slot: int, total_weight: int) -> int:
    """Return the part of the weight, 0 to ``total_weight`` - 1, to which a light slot of a key belongs."""
    digest = hashlib.sha256(key + epoch.to_bytes(8, "big") + light_slot.to_bytes(8, "big")).digest()
    return int.from_bytes(digest[:8], "big") % total_weight


@dataclass(frozen=True)
class TreeSchedule:
    """Our light slots of one tree in one epoch, from the one in which the schedule was made."""

    phases: EpochPhases
    owned: Sequence[int]

    @classmethod
    def make(cls, phases: EpochPhases, key: bytes, share: Share, from_slot: int) -> Self:
        """Return the schedule from ``from_slot`` on; empty after the active phase."""
        if from_slot > phases.active.last:
            return cls(phases, array(_LIGHT_SLOTS))
        first = phases.light_slot_at(max(from_slot, phases.active.first))
        return cls(
            phases,
            array(
                _LIGHT_SLOTS,
                (
                    light_slot
                    for light_slot in range(first, phases.light_slots)
                    if share.owns(chosen_part(key, phases.epoch, light_slot, share.total_weight))
                ),
            ),
        )

    @property
    def windows(self) -> tuple[SlotRange, ...]:
        """The runs of consecutive light slots, in order; V2 work continues to the end of a run."""
        return tuple(self._window(*run) for run in zip(*self._runs, strict=True))

    def next_window(self, slot: int) -> SlotRange | None:
        """Return the run that contains ``slot``, else the first one after it; None after the last."""
        active = self.phases.active
        if slot > active.last:
            return None
        firsts, lasts = self._runs
        index = bisect_left(lasts, self.phases.light_slot_at(max(slot, active.first)))
        return self._window(firsts[index], lasts[index]) if index < len(lasts) else None

    @cached_property
    def _runs(self) -> tuple["array[int]", "array[int]"]:
        """First and last light slots of the runs."""
        firsts, lasts = array(_LIGHT_SLOTS), array(_LIGHT_SLOTS)
        for light_slot in self.owned:
            if lasts and lasts[-1] + 1 == light_slot:
                lasts[-1] = light_slot
            else:
                firsts.append(light_slot)
                lasts.append(light_slot)
        return firsts, lasts

    def _window(self, first: int, last: int) -> SlotRange:
        return SlotRange(self.phases.light_slot_range(first).first, self.phases.light_slot_range(last).last)
