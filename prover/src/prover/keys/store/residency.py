"""Decisions on the keys in memory and on evictions, made under the lock of the key store."""

from collections.abc import Iterable
from concurrent.futures import Future
from itertools import count

from msgspec import Struct, field

from prover.kernel.engine import LoadedKey
from shared.requests.circuit_id import CircuitId


class Slot(Struct, eq=False):
    """The key of one circuit, loading or loaded; ``bytes`` are reserved for it or used by it, 0 while it waits."""

    circuit: CircuitId
    key: Future[LoadedKey] = field(default_factory=Future)
    users: int = 0
    pinned: bool = False
    """True if it stays until the store is closed."""
    last_use: int = 0
    bytes: int = 0
    need: int = 0
    """Bytes that it waits for."""
    in_preparation: bool = False
    """True while its prepared key is written, which then takes its place."""

    @property
    def is_evictable(self) -> bool:
        """True if the slot is loaded and not pinned."""
        return self.key.done() and not self.pinned

    @property
    def is_idle(self) -> bool:
        """True if the slot may be evicted now."""
        return self.is_evictable and not self.users


class Residency:
    """The slots of a store and their budget in bytes, None without one. Its owner's lock is held for every call.

    A slot is in one of three states: new requests get it, or it is retiring and has users, or it has none and is being
    destroyed. Its bytes count in all three.

    Memory is kept for the first slot that has waited too long. Another slot passes it only if it fits into the memory
    that is free now, and next to the need of the first one once the slots that leave have left, and idle ones are
    evicted. Only the first one evicts. So it waits only for slots that left before, and small keys do not wait for it.
    """

    def __init__(self, budget_bytes: int | None) -> None:
        self.budget_bytes = budget_bytes
        self._slots: dict[CircuitId, Slot] = {}
        self._retiring: set[Slot] = set()
        """Slots that new requests do not get, and whose keys are destroyed with their last user."""
        self._ending: set[Slot] = set()
        """Slots without users whose keys are being destroyed without the lock; their memory is not free yet."""
        self.first_waiting: Slot | None = None
        """First slot that has waited too long for memory."""
        self._uses = count(1)

    def find(self, circuit: CircuitId) -> Slot | None:
        """Return the slot of a circuit."""
        return self._slots.get(circuit)

    def add(self, circuit: CircuitId) -> Slot:
        """Add the slot of a circuit that has none."""
        slot = self._slots[circuit] = Slot(circuit)
        return slot

    def holds(self, slot: Slot) -> bool:
        """Return whether new requests get this slot."""
        return self._slots.get(slot.circuit) is slot

    def drop(self, slot: Slot) -> None:
        """Remove a slot whose load failed."""
        if self.holds(slot):
            del self._slots[slot.circuit]

    def clear(self) -> list[Slot]:
        """Remove all slots except those that are being destroyed, and return them."""
        slots = [*self._slots.values(), *self._retiring]
        self._slots.clear()
        self._retiring.clear()
        return slots

    def use(self, slot: Slot) -> None:
        """Count one user more."""
        slot.users += 1
        slot.last_use = next(self._uses)

    def leave(self, slot: Slot) -> bool:
        """Count one user less, and return whether the key must be destroyed now."""
        slot.users -= 1
        slot.last_use = next(self._uses)
        if slot.users or slot not in self._retiring:
            return False
        self._retiring.remove(slot)
        self._ending.add(slot)
        return True

    def ended(self, slot: Slot) -> None:
        """Count the memory of a destroyed key as free."""
        self._ending.discard(slot)

    def loaded(self) -> list[Slot]:
        """Return the slots with a loaded key that new requests get."""
        return [slot for slot in self._slots.values() if slot.key.done()]

    def loaded_bytes(self) -> int:
        """Return the memory of all keys in bytes, including those that leave."""
        return sum(slot.bytes for slot in self.loaded()) + self._leaving_bytes()

    def succeed(self, slot: Slot, key: LoadedKey) -> bool | None:
        """Give new requests another key of the slot's circuit; return whether the slot's key must be destroyed now.

        None if new requests do not get this slot any more, so that the other key has no use.
        """
        if not self.holds(slot):
            return None
        successor = Slot(slot.circuit, pinned=slot.pinned, last_use=slot.last_use, bytes=key.info.resident_bytes)
        successor.key.set_result(key)
        self._slots[slot.circuit] = successor
        (self._retiring if slot.users else self._ending).add(slot)
        return not slot.users

    def pinned_bytes(self, excluding: Slot) -> int:
        """Return the memory of the pinned keys in bytes that stays, without that of ``excluding``."""
        kept = (slot for slot in self._slots.values() if slot.pinned and not slot.in_preparation)
        return sum(slot.bytes for slot in kept if slot is not excluding)

    def excess_bytes(self) -> int:
        """Return the bytes by which all slots exceed the budget, 0 if they do not."""
        return max(self._excess_with(0), 0)

    def reserve(self, slot: Slot) -> bool:
        """Reserve what a slot needs if it is free now, and not kept for the first waiting slot.

        What ``make_room`` reserved stays reserved while keys are being destroyed.
        """
        held, slot.bytes = slot.bytes, 0
        fits = self._excess_with(slot.need) <= 0 and (held > 0 or self._leaves_room_for_first(slot))
        slot.bytes = slot.need if fits else held if self._ending else 0
        return fits

    def _leaves_room_for_first(self, slot: Slot) -> bool:
        """Return whether the first waiting slot fits next to a slot, without those that leave or that it may evict."""
        first = self.first_waiting
        if first is None or first is slot or self.budget_bytes is None:
            return True
        staying = _bytes_of(other for other in self._slots.values() if other is not first and not other.is_idle)
        return staying + first.need + slot.need <= self.budget_bytes

    def make_room(self, slot: Slot) -> list[Slot]:
        """Reserve what a slot needs, evict idle slots for it, and return them.

        Evicts and reserves nothing if the slot does not even fit without all idle ones and those that are being
        destroyed, or if another slot is the first waiting; nor for a slot that has a reservation, and only waits for
        keys that are being destroyed.
        """
        if slot.bytes or self.first_waiting not in (None, slot):
            return []
        if self._excess_with(slot.need) > _bytes_of(self._ending) + _bytes_of(self._idle()):
            return []
        slot.bytes = slot.need
        return self.evict_idle(slot)

    def wait_first(self, slot: Slot) -> list[Slot]:
        """Make a slot the first waiting one, if there is no other, and return the slots with users retired for it.

        A slot that does not fit next to pinned ones in preparation is not the first: it could keep others waiting for
        as long as these are prepared.
        """
        if self.first_waiting not in (None, slot):
            return []
        pinned = sum(other.bytes for other in self._slots.values() if other.pinned)
        is_kept_waiting = self.budget_bytes is not None and pinned + slot.need > self.budget_bytes
        self.first_waiting = None if is_kept_waiting else slot
        return [] if is_kept_waiting else self.retire_busy(slot)

    def stop_waiting(self, slot: Slot) -> None:
        """Keep no memory for a slot any more, except what it reserved."""
        if self.first_waiting is slot:
            self.first_waiting = None

    def evict_idle(self, newcomer: Slot) -> list[Slot]:
        """Remove slots without users, the least recently used first, until the others fit or none is left.

        Their memory counts until ``ended``. That of keys which are already being destroyed is not evicted twice.
        """
        victims = []
        for slot in self._idle():
            if self.excess_bytes() <= _bytes_of(self._ending):
                break
            if slot is newcomer:
                continue
            del self._slots[slot.circuit]
            self._ending.add(slot)
            victims.append(slot)
        return victims

    def retire_busy(self, waiting: Slot) -> list[Slot]:
        """Retire as many slots with users as a waiting one needs in addition to the idle ones; return them.

        Each is removed with its last user.
        """
        victims = []
        for slot in sorted(self._slots.values(), key=lambda slot: slot.last_use):
            if self._excess_with(waiting.need) <= self._leaving_bytes() + _bytes_of(self._idle()):
                break
            if slot.is_evictable and slot.users:
                del self._slots[slot.circuit]
                self._retiring.add(slot)
                victims.append(slot)
        return victims

    def _excess_with(self, need: int) -> int:
        """Return the bytes by which all slots and ``need`` exceed the budget, negative if they leave some."""
        if self.budget_bytes is None:
            return 0
        return _bytes_of(self._slots.values()) + self._leaving_bytes() + need - self.budget_bytes

    def _idle(self) -> list[Slot]:
        """Return the slots that may be evicted now, the least recently used first."""
        return sorted((slot for slot in self._slots.values() if slot.is_idle), key=lambda slot: slot.last_use)

    def _leaving_bytes(self) -> int:
        return _bytes_of(self._retiring) + _bytes_of(self._ending)


def _bytes_of(slots: Iterable[Slot]) -> int:
    return sum(slot.bytes for slot in slots)
