"""Input and result of a tree processor in an eligibility window; no I/O."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from forester.epoch.phases import SlotRange, confirmation_seconds
from forester.errors import ForesterError
from forester.scheduling.tree_schedule import TreeSchedule


@dataclass(frozen=True)
class EligibilityWindow:
    """Slots ``window`` of ``epoch`` in which we are eligible for a tree; ``slot`` returns the current slot without I/O.

    ``schedule`` is our share of the tree in the whole epoch, None if the tree is not shared.
    """

    epoch: int
    window: SlotRange
    slot: Callable[[], int]
    schedule: TreeSchedule | None = None

    def remaining_slots(self) -> int:
        """Return the slots of the window after the current one."""
        return self.window.remaining(self.slot())

    def sending_seconds(self) -> float | None:
        """Return the seconds until a transaction must be confirmed; None if it should not be sent any more."""
        return confirmation_seconds(self.remaining_slots())


@dataclass(frozen=True)
class ProcessingResult:
    """Result of one call of a tree processor.

    ``elements`` and ``transactions`` are those that the chain has confirmed. ``more`` is true if further work already
    waits. ``failure`` ended the round early (a refusal, a failed service), None if it did not end early.
    """

    elements: int = 0
    transactions: int = 0
    more: bool = False
    failure: ForesterError | None = None


class TreeProcessor(Protocol):
    """Work on one tree. The dispatcher calls one method at a time, and may cancel any without loss of proofs."""

    async def work(self, eligibility: EligibilityWindow) -> ProcessingResult:
        """Process ready work, sending only while ``eligibility.sending_seconds()`` allows it; raises nothing."""

    async def prepare(self, eligibility: EligibilityWindow) -> None:
        """Prepare before the window begins without sending: proofs are made and stored."""

    async def close(self, within_s: float) -> None:
        """Let proofs under way finish and be stored, for ``within_s`` seconds at most, then stop."""
