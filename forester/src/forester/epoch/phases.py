"""Slots of the phases of an epoch, and the time that a light slot leaves; no I/O.

Source: forester/docs/reference/programs.md, "Epoch phases"; forester/docs/reference/behaviour.md, "Time in a light
slot". Active phases tile the time after the first registration: the registration of epoch e + 1 lies inside the active
phase of e, the report of e at the beginning of that of e + 1. All ranges of slots are inclusive at both ends.
"""

import enum
from dataclasses import dataclass

from forester.units import SLOT_SECONDS

CONFIRMATION_SLOTS = 4
"""With fewer slots left a transaction is not sent, as it is unlikely to be confirmed in time."""

V1_RESERVE_SECONDS = 2.0
V1_MINIMUM_SECONDS = 1.6
"""A V1 batch keeps the reserve for its confirmations, and is not begun with less than this beyond it."""


class BeforeGenesis(ValueError):
    """No epoch has begun at a slot."""


class Phase(enum.Enum):
    """Phase of an epoch at a slot."""

    WAITING = "waiting"
    REGISTRATION = "registration"
    ACTIVE = "active"
    REPORT_WORK = "report_work"
    POST = "post"


@dataclass(frozen=True, slots=True)
class SlotRange:
    """Slots ``first`` to ``last``, both included."""

    first: int
    last: int

    def __contains__(self, slot: int) -> bool:
        return self.first <= slot <= self.last

    @property
    def length(self) -> int:
        """Number of slots; a phase of length zero has none."""
        return max(0, self.last - self.first + 1)

    def remaining(self, slot: int) -> int:
        """Return the slots after ``slot`` that belong to the range; all of them before it begins."""
        return max(0, self.last - max(slot, self.first - 1))


@dataclass(frozen=True)
class ProtocolTimes:
    """The part of the protocol configuration that sets times; all lengths in slots.

    The decoder of the configuration refuses values with which no epoch could be computed.
    """

    genesis_slot: int
    slot_length: int
    registration_phase_length: int
    active_phase_length: int
    report_work_phase_length: int

    def registering_epoch(self, slot: int) -> int:
        """Return the latest epoch that has been opened for registration; BeforeGenesis if there is none."""
        if slot < self.genesis_slot:
            raise BeforeGenesis(f"slot {slot} is before the genesis slot {self.genesis_slot}")
        return (slot - self.genesis_slot) // self.active_phase_length

    def active_epoch(self, slot: int) -> int:
        """Return the epoch whose active phase contains the slot; BeforeGenesis before the first."""
        first = self.genesis_slot + self.registration_phase_length
        if slot < first:
            raise BeforeGenesis(f"slot {slot} is before the first active slot {first}")
        return (slot - first) // self.active_phase_length

    def live_epochs(self, slot: int) -> range:
        """Return the epochs that allow an action at a slot, from the first whose report phase has not ended."""
        if slot < self.genesis_slot:
            return range(0)
        # The first epoch with post_first > slot.
        opening = self.registration_phase_length + self.active_phase_length + self.report_work_phase_length
        ended = (slot - self.genesis_slot - opening) // self.active_phase_length
        return range(max(0, ended + 1), self.registering_epoch(slot) + 1)

    def phases(self, epoch: int) -> "EpochPhases":
        """Return the phases of an epoch."""
        opened = self.genesis_slot + epoch * self.active_phase_length
        active = opened + self.registration_phase_length
        report = active + self.active_phase_length
        return EpochPhases(
            epoch=epoch,
            slot_length=self.slot_length,
            registration=SlotRange(opened, active - 1),
            registrable=SlotRange(opened, opened + self.active_phase_length - 1),
            active=SlotRange(active, report - 1),
            report_work=SlotRange(report, report + self.report_work_phase_length - 1),
        )


@dataclass(frozen=True)
class EpochPhases:
    """Phases of one epoch.

    ``registrable`` is the time in which the programs treat the epoch as the latest one: releases that do not enforce
    the end of the registration phase accept registrations in all of it.
    """

    epoch: int
    slot_length: int
    registration: SlotRange
    registrable: SlotRange
    active: SlotRange
    report_work: SlotRange

    @property
    def post_first(self) -> int:
        """The first slot after the report phase."""
        return self.report_work.last + 1

    @property
    def light_slots(self) -> int:
        """Number of light slots; the last is shorter when the active phase is no multiple of their length."""
        return -(-self.active.length // self.slot_length)

    def phase_at(self, slot: int) -> Phase:
        """Return the phase of the epoch at a slot."""
        if slot < self.registration.first:
            return Phase.WAITING
        if slot in self.registration:
            return Phase.REGISTRATION
        if slot in self.active:
            return Phase.ACTIVE
        return Phase.REPORT_WORK if slot in self.report_work else Phase.POST

    def light_slot_at(self, slot: int) -> int:
        """Return the light slot of a slot of the active phase; ValueError outside it."""
        if slot not in self.active:
            raise ValueError(f"slot {slot} is not in the active phase {self.active.first} to {self.active.last}")
        return (slot - self.active.first) // self.slot_length

    def light_slot_range(self, light_slot: int) -> SlotRange:
        """Return the slots of a light slot; ValueError for one that the epoch does not have."""
        if not 0 <= light_slot < self.light_slots:
            raise ValueError(f"epoch {self.epoch} has light slots 0 to {self.light_slots - 1}, not {light_slot}")
        first = self.active.first + light_slot * self.slot_length
        return SlotRange(first, min(first + self.slot_length - 1, self.active.last))


def v1_batch_seconds(remaining_slots: int) -> float | None:
    """Return the seconds that a V1 batch may take in the remaining slots; None if it should not begin."""
    seconds = remaining_slots * SLOT_SECONDS - V1_RESERVE_SECONDS
    # Slots are 0.4 s: rounding keeps nine slots, exactly 1.6 s, from falling below the bound.
    seconds = round(seconds, 6)
    return seconds if seconds >= V1_MINIMUM_SECONDS else None


def confirmation_seconds(remaining_slots: int) -> float | None:
    """Return the seconds until a transaction must be confirmed; None if it should not be sent any more."""
    return round(remaining_slots * SLOT_SECONDS, 6) if remaining_slots >= CONFIRMATION_SLOTS else None
