"""Pace of the chain, so that slots can be shown as times; no I/O."""

import time
from collections import deque
from collections.abc import Callable

from forester.network_status.state import NetworkState
from forester.units import SLOT_SECONDS

_KEPT = 20
_SLOWEST = 3600.0


class SlotPace:
    """Estimate of slots at times, from the states of the network. ``clock`` returns Unix seconds."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._readings: deque[tuple[float, int]] = deque(maxlen=_KEPT)

    def observe(self, state: NetworkState) -> None:
        """Record a state that was read just now."""
        now = self._clock()
        if self._readings and (state.slot < self._readings[-1][1] or now < self._readings[-1][0]):
            self._readings.clear()
        self._readings.append((now, state.slot))

    def frozen(self) -> "SlotPace":
        """Return a copy that further observations do not change."""
        copy = SlotPace(clock=self._clock)
        copy._readings.extend(self._readings)
        return copy

    @property
    def is_halted(self) -> bool:
        """Return whether the chain has not moved between the readings."""
        return len(self._readings) > 1 and self._readings[0][1] == self._readings[-1][1]

    @property
    def slot_s(self) -> float:
        """Seconds of a slot: measured, or by design before the second reading or while the chain is halted."""
        if not self._readings:
            return SLOT_SECONDS
        (began, first), (at, last) = self._readings[0], self._readings[-1]
        if last <= first or at <= began:
            return SLOT_SECONDS
        return min((at - began) / (last - first), _SLOWEST)

    def time_of(self, slot: int) -> float:
        """Return the Unix time of a slot; the pace must have been observed."""
        at, last = self._readings[-1]
        return at + (slot - last) * self.slot_s

    def slot_at(self, at: float) -> int:
        """Return the slot at a Unix time, of the last reading at least."""
        read_at, last = self._readings[-1]
        if self.is_halted:
            return last
        return last + max(0, int((at - read_at) / self.slot_s))
