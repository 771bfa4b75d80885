"""Rounds of work in our eligibility windows: their windows and failures, for trees and compressible accounts alike."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from forester.chain.programs.addresses import REGISTRY
from forester.daemon.clock import SlotClock
from forester.daemon.funds import Funds
from forester.daemon.live_epochs import LiveEpoch, LiveShares
from forester.daemon.supervisor import RESTARTS
from forester.errors import ForesterError, InsufficientFunds, TransactionRefused, UnexpectedFailure
from forester.scheduling.eligibility_window import EligibilityWindow
from forester.scheduling.tree_schedule import TreeSchedule
from shared.process.logs import get_logger
from shared.process.retries import Backoff, jittered

_log = get_logger(__name__)


@dataclass(frozen=True, kw_only=True)
class RoundParts:
    """Services and limits that the rounds of all keys share."""

    clock: SlotClock
    shares: LiveShares
    funds: Funds
    stopping: asyncio.Event
    poll_s: float
    defect: Callable[[int, str], None] = lambda *_: None
    """Called with the consecutive failures of a key and the reason after one that is a defect of ours."""
    backoff: Backoff = RESTARTS
    look_s: float = 1.0
    """Interval of checks while a tree processor still pauses after a failure."""


class EligibleRounds:
    """The eligibility windows of one key, and the consecutive failures of the rounds in them."""

    def __init__(self, key: bytes, parts: RoundParts) -> None:
        self._key = key
        self._parts = parts
        self._made: tuple[LiveEpoch, TreeSchedule] | None = None
        self._failures = 0
        self._failure: ForesterError | None = None

    async def next_window(self, live: LiveEpoch) -> EligibilityWindow | None:
        """Return the window that is open or opens next in an epoch; None if there is none."""
        if self._made is None or self._made[0] != live:
            # Tens of thousands of hashes in long epochs.
            first = live.phases.active.first
            self._made = live, await asyncio.to_thread(TreeSchedule.make, live.phases, self._key, live.share, first)
        schedule = self._made[1]
        window = schedule.next_window(self._parts.clock.slot())  # slots passed while the schedule was made
        if window is None:
            return None
        return EligibilityWindow(live.phases.epoch, window, lambda: self._slot_of(window.last), schedule)

    def succeeded(self) -> None:
        """Record a round without a failure."""
        self._failures, self._failure = 0, None

    def failed(self, epoch: int, failure: ForesterError) -> float:
        """Report the failure of a round; return the seconds until the next one."""
        parts = self._parts
        if failure is self._failure:
            # The tree processor has tried nothing and pauses itself: a second pause would make a minute together.
            return parts.look_s
        self._failure = failure
        self._failures += 1
        pause_s = jittered(parts.backoff, self._failures)
        facts = {"failures": self._failures, "again_in_s": round(pause_s, 3), "epoch": epoch}
        _log.warning("round_failed", error=failure.detail, **facts)
        if isinstance(failure, UnexpectedFailure):
            parts.defect(self._failures, failure.detail)
        elif isinstance(failure, InsufficientFunds):
            parts.funds.notice()
        elif isinstance(failure, TransactionRefused) and failure.program in (None, str(REGISTRY)):
            parts.shares.refused(epoch, failure)  # only the registry refuses for a wrong share
        return pause_s

    def _slot_of(self, last: int) -> int:
        """Return the slot for a window; once the process must end, no window has any time left."""
        return last + 1 if self._parts.stopping.is_set() else self._parts.clock.slot()
