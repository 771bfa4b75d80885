"""What a tree's processor is given when the tree is ours, and what it gives back; no I/O."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from forester.epoch.phases import SlotRange, confirmation_seconds
from forester.errors import ForesterError
from forester.scheduling.tree_schedule import TreeSchedule


@dataclass(frozen=True)
class EligibilityWindow:
    """The slots ``window`` of ``epoch`` in which a tree is ours; ``slot`` tells the current slot without I/O.

    ``schedule`` says how the tree is shared in the whole epoch, None if it is not shared.
    """

    epoch: int
    window: SlotRange
    slot: Callable[[], int]
    schedule: TreeSchedule | None = None

    def remaining_slots(self) -> int:
        """Slots of the window after the current one."""
        return self.window.remaining(self.slot())

    def sending_seconds(self) -> float | None:
        """Time until a transaction must be confirmed; None if it should not be sent any more."""
        return confirmation_seconds(self.remaining_slots())


@dataclass(frozen=True)
class ProcessingResult:
    """What a processor achieved in one call.

    ``elements`` and ``transactions`` are those that the chain has confirmed, ``more`` says that further work waits
    already, ``failure`` is what ended the round early (a refusal, a service that failed), None if nothing did.
    """

    elements: int = 0
    transactions: int = 0
    more: bool = False
    failure: ForesterError | None = None


class TreeProcessor(Protocol):
    """Moves one tree. The dispatcher calls one method at a time, and may cancel any: nothing paid for is lost."""

    async def work(self, turn: EligibilityWindow) -> ProcessingResult:
        """Do what is ready, sending only while ``turn.sending_seconds()`` allows it. Raises nothing but bugs."""

    async def prepare(self, turn: EligibilityWindow) -> None:
        """Do before the window begins what can be done without sending: proofs are made and kept."""

    async def close(self, within_s: float) -> None:
        """Let proofs under way finish and be kept, for so long at most, then stop."""
