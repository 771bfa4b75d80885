"""View of the epochs for the status; no I/O."""

from bisect import bisect_right
from dataclasses import dataclass, fields
from functools import lru_cache
from operator import itemgetter

from forester.chain.registry_accounts import ProtocolConfig
from forester.epoch.phases import BeforeGenesis, EpochPhases, ProtocolTimes
from forester.scheduling.tree_schedule import chosen_part
from forester.units import SLOT_SECONDS


def protocol_times(config: ProtocolConfig) -> ProtocolTimes:
    """Return the times of the configuration."""
    return ProtocolTimes(**{field.name: getattr(config, field.name) for field in fields(ProtocolTimes)})


@dataclass(frozen=True)
class EpochView:
    """Epochs at a slot; ``active`` is None before the first active phase."""

    slot: int
    times: ProtocolTimes
    registering: int
    active: int | None

    @classmethod
    def at(cls, times: ProtocolTimes, slot: int) -> "EpochView":
        """Return the view at ``slot``; before genesis, epoch 0 is treated as the one that registers."""
        registering = times.registering_epoch(slot) if slot >= times.genesis_slot else 0
        try:
            active: int | None = times.active_epoch(slot)
        except BeforeGenesis:
            active = None
        return cls(slot, times, registering, active)

    @property
    def phases(self) -> EpochPhases:
        """Phases of the active epoch, of the first one before it is active."""
        return self.times.phases(self.active or 0)

    @property
    def active_progress(self) -> int:
        """Slots of the active phase that have passed."""
        return 0 if self.active is None else self.slot - self.phases.active.first

    @property
    def slots_until_next_epoch(self) -> int:
        """Slots until the next active phase begins."""
        return (
            self.phases.active.first - self.slot if self.active is None else self.phases.report_work.first - self.slot
        )

    @property
    def slots_until_next_registration(self) -> int:
        """Slots until the next epoch opens for registration."""
        if self.slot < self.times.genesis_slot:
            return self.times.genesis_slot - self.slot
        return self.times.active_phase_length - (self.slot - self.times.genesis_slot) % self.times.active_phase_length

    @property
    def registration_is_open(self) -> bool:
        """Return whether the registration phase of the latest epoch is open."""
        return self.slot in self.times.phases(self.registering).registration

    @property
    def light_slots(self) -> int:
        """Whole light slots of an active phase."""
        return self.times.active_phase_length // self.times.slot_length

    @property
    def light_slot(self) -> int | None:
        """The current light slot; None before the first active phase."""
        return None if self.active is None else self.active_progress // self.times.slot_length


def hours(slots: int) -> int:
    """Return the whole hours of slots of nominal length."""
    return int(slots * SLOT_SECONDS / 3600)


def duration(slots: int) -> str:
    """Return slots of nominal length in words: whole hours, with the minutes of a time under an hour."""
    minutes = int(slots * SLOT_SECONDS / 60)
    return f"{hours(slots)} hours" if minutes >= 60 else f"{minutes} minutes"


_SCHEDULES = 1024
"""Trees of two epochs that the dashboard reads every second; some 35 kB each where an epoch has thousands of slots."""


@lru_cache(maxsize=_SCHEDULES)
def owners(
    shares: tuple[tuple[int, int], ...], total_weight: int, key: bytes, epoch: int, light_slots: int
) -> tuple[int | None, ...]:
    """Return the owner of each light slot of a key as a position in ``shares``, or None.

    ``shares`` has the first part and the weight of each forester. Cached: it costs thousands of hashes and only changes
    with the epoch and its registrations.
    """
    if total_weight < 1:
        return (None,) * light_slots
    held = sorted((first, first + weight, position) for position, (first, weight) in enumerate(shares) if weight)
    parts = (chosen_part(key, epoch, light_slot, total_weight) for light_slot in range(light_slots))
    return tuple(_holder(held, part) for part in parts)


def _holder(held: list[tuple[int, int, int]], part: int) -> int | None:
    """Return the position of the share that a part belongs to; ``held`` has ranges of parts, in order."""
    index = bisect_right(held, part, key=itemgetter(0)) - 1
    return held[index][2] if index >= 0 and part < held[index][1] else None
