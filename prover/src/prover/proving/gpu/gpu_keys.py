"""Keys on a GPU and their eviction when its memory is short. The caller holds the lock of the GPU."""

from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count

from prover.kernel.device import DeviceKey
from prover.kernel.engine import LoadedKey


@dataclass(eq=False)
class GpuSlot:
    """A key on the GPU or being copied to it. Sizes are those of the key and of one proof with it, in bytes."""

    key: LoadedKey
    bytes: int
    proof_bytes: int
    copy: Future[DeviceKey] = field(default_factory=Future)
    users: int = 0
    last_use: int = 0
    retired: bool = False
    """True if new requests do not get it, so that it ends with its last user."""

    def end(self) -> None:
        """Release the copy, if it was made."""
        if self.copy.done() and self.copy.exception() is None:
            self.copy.result().close()


class GpuKeys:
    """Slots of a GPU. Slots that a method returns have no users; the caller ends them, and then calls ``ended``.

    A slot is in one of three states: new requests get it, or it is retiring and has users, or it has none and is being
    ended. Its bytes count in all three.

    Memory is kept for the first slot that has waited too long. Another slot passes it only if it fits into the memory
    that is free now, and next to the first one once the slots that leave have left, and idle ones are evicted. Only the
    first one evicts. Sizes are those at the time of the request: tables may make a copy larger, up to ``growth``.
    """

    def __init__(self) -> None:
        self._slots: dict[LoadedKey, GpuSlot] = {}
        self._retiring: set[GpuSlot] = set()
        self._ending: set[GpuSlot] = set()
        """Slots whose copies are being freed without the lock."""
        self.first_waiting: GpuSlot | None = None
        """First slot that has waited too long for memory; it is in none of the three states."""
        self._uses = count(1)

    def find(self, key: LoadedKey) -> GpuSlot | None:
        """Return the slot of a key."""
        return self._slots.get(key)

    def occupancy(self) -> tuple[int, int]:
        """Return the number of keys on the GPU, and their bytes."""
        slots = self._all()
        return len(slots), sum(slot.bytes for slot in slots)

    def add(self, new: GpuSlot, budget: int) -> list[GpuSlot] | None:
        """Add a slot; return the idle ones that it evicts, least recently used first.

        Returns None and adds nothing when the others leave no room in ``budget`` bytes for it and one proof.
        """
        victims = self._victims(new, budget)
        if victims is None:
            return None
        stay = [slot for slot in self._all() if slot not in victims]
        if _excess([new, *stay], budget) > 0:  # until those that end have ended
            return None
        for victim in victims:
            self.retire(victim)
        self._slots[new.key] = new
        return victims

    def fits_after_frees(self, new: GpuSlot, budget: int) -> bool:
        """Return True if a slot can be added once the slots that are being freed have ended."""
        return self._victims(new, budget) is not None

    def _victims(self, new: GpuSlot, budget: int) -> list[GpuSlot] | None:
        """Return the idle slots to evict for a slot, not counting those that end; None if that leaves no room."""
        stay = [*self._slots.values(), *self._retiring]
        first = self.first_waiting
        if first is not None and first is not new:
            staying = (slot for slot in self._slots.values() if slot.users)  # the first one may evict the others
            fits = _excess([new, *stay], budget) <= 0 and _excess([new, first, *staying], budget) <= 0
            return [] if fits else None
        idle = sorted((slot for slot in self._slots.values() if not slot.users), key=lambda slot: slot.last_use)
        victims: list[GpuSlot] = []
        while _excess([new, *stay], budget) > 0:
            if not idle:
                return None
            victims.append(idle.pop(0))
            stay.remove(victims[-1])
        return victims

    def growth(self, slot: GpuSlot, size: int, budget: int) -> int:
        """Return the bytes of ``size`` that the copy of a slot may take: what others leave, but at least the slot's."""
        first = [] if self.first_waiting is None else [self.first_waiting]
        others = [other for other in (*self._all(), *first) if other is not slot]
        return max(slot.bytes, min(size, slot.bytes - _excess([slot, *others], budget)))

    def use(self, slot: GpuSlot) -> None:
        """Count a user."""
        slot.users += 1
        slot.last_use = next(self._uses)

    def leave(self, slot: GpuSlot) -> bool:
        """Stop counting a user; return True if the slot must end now."""
        slot.users -= 1
        if slot.users or not slot.retired:
            return False
        self._retiring.discard(slot)
        self._ending.add(slot)
        return True

    def ended(self, slot: GpuSlot) -> None:
        """Count the memory of a slot that ended as free."""
        self._ending.discard(slot)

    def retire(self, slot: GpuSlot) -> bool:
        """Give the slot to no new users; return True if it must end now."""
        if self._slots.get(slot.key) is slot:
            del self._slots[slot.key]
        slot.retired = True
        (self._retiring if slot.users else self._ending).add(slot)
        return not slot.users

    def retire_all(self) -> list[GpuSlot]:
        """Retire all slots."""
        return [slot for slot in list(self._slots.values()) if self.retire(slot)]

    def retire_idle(self) -> list[GpuSlot]:
        """Retire the slots that have no users."""
        return [slot for slot in list(self._slots.values()) if not slot.users and self.retire(slot)]

    def retire_busy(self, new: GpuSlot, budget: int) -> None:
        """Retire slots in use, the least recently used first, until ``new`` fits once all retired ones have ended."""
        busy = sorted((slot for slot in self._slots.values() if slot.users), key=lambda slot: slot.last_use)
        while busy and _excess([new, *busy], budget) > 0:
            self.retire(busy.pop(0))

    def _all(self) -> list[GpuSlot]:
        return [*self._slots.values(), *self._retiring, *self._ending]


def _excess(slots: list[GpuSlot], budget: int) -> int:
    """Return the bytes by which keys, and the largest proof with one of them, exceed a budget."""
    return sum(slot.bytes for slot in slots) + max(slot.proof_bytes for slot in slots) - budget
