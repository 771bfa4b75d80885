"""Active epochs with our shares: published by the epoch runners, read by the dispatchers."""

from collections.abc import Callable
from dataclasses import dataclass

from forester.epoch.phases import EpochPhases
from forester.errors import TransactionRefused
from forester.scheduling.tree_schedule import Share


@dataclass(frozen=True)
class LiveEpoch:
    """An active epoch with our finalised share of it."""

    phases: EpochPhases
    share: Share


Refusals = Callable[[TransactionRefused], None]


class LiveShares:
    """Shares by epoch. ``changed`` is called after every change."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._live: dict[int, LiveEpoch] = {}
        self._refusals: dict[int, Refusals] = {}

    def publish(self, epoch: int, live: LiveEpoch | None, refusals: Refusals | None = None) -> None:
        """Publish the share in an epoch, None if there is none; ``refusals`` is called for work refused in it."""
        if live is None:
            self._refusals.pop(epoch, None)
            if self._live.pop(epoch, None) is not None:
                self._changed()
            return
        if refusals is not None:
            self._refusals[epoch] = refusals
        if self._live.get(epoch) != live:
            self._live[epoch] = live
            self._changed()

    def at(self, slot: int) -> LiveEpoch | None:
        """Return the epoch that is active at a slot, or the next known one; None if we have a share of neither."""
        coming = [live for live in self._live.values() if slot <= live.phases.active.last]
        return min(coming, key=lambda live: live.phases.epoch, default=None)

    def refused(self, epoch: int, error: TransactionRefused) -> None:
        """Report that the programs refused work in an epoch."""
        hear = self._refusals.get(epoch)
        if hear is not None:
            hear(error)
