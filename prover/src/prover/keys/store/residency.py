"""Decisions on the keys in memory and on evictions, made under the lock of the key store."""

from concurrent.futures import Future
from itertools import count

from msgspec import Struct, field

from prover.kernel.engine import LoadedKey
from shared.requests.circuit_id import CircuitId


class Slot(Struct, eq=False):
    """The key of one circuit, loading or loaded; ``bytes`` are reserved for it or used by it."""

    circuit: CircuitId
    key: Future[LoadedKey] = field(default_factory=Future)
    users: int = 0
    pinned: bool = False
    """True if it stays until the store is closed."""
    last_use: int = 0
    bytes: int = 0
    in_preparation: bool = False
    """True while its prepared key is written, which then takes its place."""

    @property
    def is_evictable(self) -> bool:
        """True if the slot is loaded and not pinned."""
        return self.key.done() and not self.pinned


class Residency:
    """The slots of a store and their budget in bytes, None without one. Its owner's lock is held for every call.

    A slot is in one of three states: new requests get it, or it is retiring and has users, or it has none and is being
    destroyed. Its bytes count in all three.
    """

    def __init__(self, budget_bytes: int | None) -> None:
        self.budget_bytes = budget_bytes
        self._slots: dict[CircuitId, Slot] = {}
        self._retiring: set[Slot] = set()
        """Slots that new requests do not get, and whose keys are destroyed with their last user."""
        self._ending: set[Slot] = set()
        """Slots without users whose keys are being destroyed without the lock; their memory is not free yet."""
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
        if self.budget_bytes is None:
            return 0
        used = sum(slot.bytes for slot in self._slots.values()) + self._leaving_bytes()
        return max(used - self.budget_bytes, 0)

    def evict_idle(self, newcomer: Slot) -> list[Slot]:
        """Remove slots without users, the least recently used first, until the others fit or none is left.

        Their memory counts until ``ended``. That of keys which are already being destroyed is not evicted twice.
        """
        victims = []
        idle = [slot for slot in self._slots.values() if slot.is_evictable and not slot.users and slot is not newcomer]
        for slot in sorted(idle, key=lambda slot: slot.last_use):
            if self.excess_bytes() <= sum(ending.bytes for ending in self._ending):
                break
            del self._slots[slot.circuit]
            self._ending.add(slot)
            victims.append(slot)
        return victims

    def retire_busy(self) -> list[Slot]:
        """Retire as many slots with users as the others need to fit; each is removed with its last user."""
        victims = []
        for slot in sorted(self._slots.values(), key=lambda slot: slot.last_use):
            if self.excess_bytes() <= self._leaving_bytes():
                break
            if slot.is_evictable and slot.users:
                del self._slots[slot.circuit]
                self._retiring.add(slot)
                victims.append(slot)
        return victims

    def _leaving_bytes(self) -> int:
        return sum(slot.bytes for slot in (*self._retiring, *self._ending))
