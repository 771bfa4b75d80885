"""The current slot without a call: readings of the node, extrapolated between them.

Source: forester/docs/reference/behaviour.md, "Slot clock".

The estimate never runs backwards. It runs ahead of the last reading only as far as readings may be apart, so its error
is bounded while the node is silent, and ends with the next reading. If several readings agree that the chain is far
behind it (a first reading was wrong, a development cluster was reset), the estimate and all that was derived from it
are useless: that is reported, and the process has to start again.

Witnesses are readings of the node that answers all calls. Slots of a WebSocket count only near the last witness: those
of a different cluster must not move the estimate.
"""

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp

from forester.chain import subscriptions
from forester.chain.rpc_client import RpcClient
from forester.chain.subscriptions import SlotSeen
from forester.errors import EndpointError
from forester.units import SLOT_SECONDS
from shared.process.logs import get_logger
from shared.process.rate_limits import LogThrottle

_log = get_logger(__name__)

IMPLAUSIBLE_SLOTS = 1000
"""A witness this far ahead of what the elapsed time explains is accepted when the next one agrees.

A node that is less behind lags: the estimate waits for it. One that is farther behind, and does not catch up, is
accepted after a while.
"""

SUBSCRIPTION_AHEAD_SLOTS = 800
"""A WebSocket may be this far ahead of the last witness: near enough that the next one is not far behind it."""

RETREAT_READINGS = 5
"""This many consistent readings far behind, over STUCK_S, show the true position of the chain."""

FASTEST_SLOT_S = 0.2
"""Faster than any slot of the design: a node that catches up after a pause must not make the estimate race."""

_CATCHING_UP = 1.2
"""A node that advances this many times as fast as the chain did, or faster, is catching up."""

_NODES_APART = 50
"""Nodes behind one address answer alternately: their slots differ by at most this."""

_BURST_SLOTS = 8
"""Slots that may come at once after a short silence of the node or of the network."""

_JUMPS_BELIEVED = 3
"""This many consecutive jumps are no jumps: the chain is that fast."""

STUCK_S = 60.0
"""A slot that stays current for this long shows that the node or the chain is stuck."""

_WINDOW_S = 60.0
_MINIMUM_SPACING_S = 1.0
_UNCONFIRMED_AGAIN_S = 0.5
_REJECTED_LOGGED_S = 600.0


@dataclass(frozen=True)
class _ReadingsBehind:
    """Consecutive readings far behind: ``since`` and ``began`` of the first, ``at`` and ``slot`` of the highest."""

    since: float
    began: int
    at: float
    slot: int
    readings: int = 1

    def is_continued_by(self, now: float, slot: int) -> bool:
        """Return whether a reading continues the same chain."""
        return self.slot - _NODES_APART <= slot <= _highest_plausible((self.at, self.slot), now)

    def after(self, now: float, slot: int) -> "_ReadingsBehind":
        """Return the readings with one more, which continues them."""
        at, highest = (now, slot) if slot > self.slot else (self.at, self.slot)
        return _ReadingsBehind(self.since, self.began, at, highest, self.readings + 1)

    def is_chain(self, per_second: float) -> bool:
        """Return whether the readings show a chain that moves, not a node that is stuck or catches up."""
        maximum = _BURST_SLOTS + _CATCHING_UP * per_second * (self.at - self.since)
        return 0 < self.slot - self.began <= maximum


class SlotClock:
    """The estimate of the slot. ``silence_s`` is the longest usual time between two readings."""

    def __init__(self, *, silence_s: float, now: Callable[[], float] = time.monotonic) -> None:
        self.went_back = asyncio.Event()
        """Set, permanently, once readings have agreed for long that the chain is far behind the estimate."""
        self.went_back_by = 0
        self._silence_s = silence_s
        self._now = now
        self._reading: tuple[float, int] | None = None
        self._witness: tuple[float, int] | None = None
        """Time and slot of the last witness that was not far from the estimate."""

        self._already_logged = 0
        self._advanced_at: float | None = None
        self._unconfirmed: int | None = None
        self._dropped: tuple[float, int] | None = None
        self._retreat: _ReadingsBehind | None = None
        self._measured: deque[tuple[float, int]] = deque()
        self._jumps = 0
        self.slots_per_second = 1 / SLOT_SECONDS
        """The measured pace; 0 while the chain is stuck."""

        self._waiting: dict[int, tuple[int, asyncio.Future[None]]] = {}
        self._numbers = itertools.count()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_set(self) -> bool:
        """Return whether a slot was ever read."""
        return self._reading is not None

    @property
    def reading_age_s(self) -> float | None:
        """Seconds since the last reading; None before the first."""
        return None if self._reading is None else self._now() - self._reading[0]

    @property
    def stuck_s(self) -> float:
        """Seconds since a reading was the first of its slot; 0 before the first reading."""
        return 0.0 if self._advanced_at is None else self._now() - self._advanced_at

    @property
    def behind(self) -> int:
        """Slots by which the node's last reading was behind an earlier one; 0 if it was not, or is long ago."""
        if self._dropped is None or self._now() - self._dropped[0] > STUCK_S:
            return 0
        return self._dropped[1]

    def slot(self) -> int:
        """Return the current slot; RuntimeError before the first reading."""
        if self._reading is None:
            raise RuntimeError("no slot has been read yet")
        at, slot = self._reading
        ahead = min(self._now() - at, 2 * self._silence_s)
        self._already_logged = max(self._already_logged, slot + int(ahead * self.slots_per_second))
        return self._already_logged

    def read(self, slot: int, *, witness: bool = True) -> bool:
        """Record a reading; return False if it needs another one to be accepted.

        Only a ``witness`` is evidence about the chain, not only about the node: it may be the first reading, confirm a
        jump forward, and count when it is far behind.
        """
        now = self._now()
        if not witness and not self._near_witness(now, slot):
            return False
        if self._reading is not None and slot < self._reading[1]:
            self._dropped = (now, self._reading[1] - slot)
            return not witness or self._drop(now, slot, self._reading[1])
        self._dropped = None
        if witness and not self._confirm(now, slot):
            return False
        self._measure(now, slot)
        if self._reading is None or slot > self._reading[1]:
            self._advanced_at = now
        self._reading = (now, slot)
        self._release()
        return True

    async def reach(self, slot: int) -> None:
        """Wait until the estimate is ``slot`` or more."""
        if self.is_set and self.slot() >= slot:
            return
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        number = next(self._numbers)
        self._waiting[number] = (slot, reached)
        self._arm()
        try:
            await reached
        finally:
            self._waiting.pop(number, None)

    def _near_witness(self, now: float, slot: int) -> bool:
        if self._witness is None or slot < self._witness[1] - IMPLAUSIBLE_SLOTS:
            return False
        return slot <= _highest_plausible(self._witness, now, SUBSCRIPTION_AHEAD_SLOTS)

    def _confirm(self, now: float, slot: int) -> bool:
        """Accept a witness that is not behind; return False if it needs another one."""
        self._retreat = None
        plausible = self._reading is None or slot <= _highest_plausible(self._reading, now)
        if not plausible and (self._unconfirmed is None or slot < self._unconfirmed):
            self._unconfirmed = slot
            return False
        self._unconfirmed = None
        self._witness = (now, slot)
        return True

    def _drop(self, now: float, slot: int, before: int) -> bool:
        """Drop a witness; return False if it needs others to be accepted."""
        self._unconfirmed = None
        behind = before - slot
        if behind <= IMPLAUSIBLE_SLOTS:
            self._retreat = None
            self._witness = (now, slot)
            return True
        known = self._retreat
        fits = known is not None and known.is_continued_by(now, slot)
        self._retreat = retreat = (
            known.after(now, slot) if known is not None and fits else _ReadingsBehind(now, slot, now, slot)
        )
        if retreat.readings < RETREAT_READINGS:
            return False
        # Long enough to measure the pace, and for every other source of the slot to contradict. A node that is stuck
        # far behind is replaced by the fallback.
        enough = retreat.at - retreat.since >= max(STUCK_S, 2 * self._silence_s)
        if enough and retreat.is_chain(self.slots_per_second or 1 / SLOT_SECONDS) and not self.went_back.is_set():
            _log.error("slot_regressed", slot=slot, behind=behind, readings=retreat.readings)
            self.went_back_by = behind
            self.went_back.set()
        return True

    def _measure(self, now: float, slot: int) -> None:
        self._jumps = self._jumps + 1 if self._is_jump(now, slot) else 0
        if 0 < self._jumps < _JUMPS_BELIEVED:
            # The pace of a node that caught up is not the chain's: an estimate from it would run ahead of the chain.
            self._measured.clear()
        if self._measured and now - self._measured[-1][0] < _MINIMUM_SPACING_S:
            return
        self._measured.append((now, slot))
        while now - self._measured[0][0] > max(_WINDOW_S, 4 * self._silence_s):
            self._measured.popleft()
        began, first = self._measured[0]
        if now - began >= _MINIMUM_SPACING_S:
            self.slots_per_second = min((slot - first) / (now - began), 1 / FASTEST_SLOT_S)

    def _is_jump(self, now: float, slot: int) -> bool:
        if self._reading is None:
            return False
        at, before = self._reading
        return slot - before > (now - at) / FASTEST_SLOT_S + _BURST_SLOTS

    def _release(self) -> None:
        slot = self.slot()
        for wanted, reached in self._waiting.values():
            if wanted <= slot and not reached.done():
                reached.set_result(None)
        self._arm()

    def _arm(self) -> None:
        """Check again when extrapolation should have reached the first slot that is waited for."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        wanted = min((slot for slot, reached in self._waiting.values() if not reached.done()), default=None)
        if wanted is None or self._reading is None or self.slots_per_second <= 0:
            return
        at, slot = self._reading
        after_reading = (wanted - slot) / self.slots_per_second
        if after_reading > 2 * self._silence_s:
            return
        delay = max(at + after_reading - self._now(), 0.0) + 0.001
        self._timer = asyncio.get_running_loop().call_later(delay, self._release)


def _highest_plausible(reading: tuple[float, int], now: float, ahead: int = IMPLAUSIBLE_SLOTS) -> float:
    """Return the slot that is ``ahead`` of what the time since a reading explains."""
    at, slot = reading
    return slot + ahead + (now - at) / FASTEST_SLOT_S


async def poll_slots(clock: SlotClock, rpc: RpcClient, interval_s: float) -> None:
    """Read the slot every ``interval_s`` seconds forever; failures are logged and retried at the same pace.

    After STUCK_S with the same slot the pool fails over to the fallback, if there is one.
    """
    while True:
        pause_s = interval_s
        try:
            if not clock.read(await rpc.slot("processed")):
                pause_s = min(_UNCONFIRMED_AGAIN_S, interval_s)
            if clock.stuck_s > STUCK_S:
                rpc.leave_stuck_node()
        except EndpointError as error:
            _log.warning("slot_unknown", error=error.detail)
        await asyncio.sleep(pause_s)


async def follow_slots(clock: SlotClock, session: aiohttp.ClientSession, url: str) -> None:
    """Record every slot that a WebSocket reports, forever."""
    rejected = LogThrottle(_REJECTED_LOGGED_S)
    async for event in subscriptions.events(session, url, [subscriptions.slots()]):
        if not isinstance(event, SlotSeen) or clock.read(event.slot, witness=False):
            continue
        if clock.is_set and rejected.due():
            detail = "it is of a different cluster than --rpc-url, or one of the two nodes lags by minutes"
            _log.warning("subscribed_slot_rejected", slot=event.slot, estimate=clock.slot(), detail=detail)
