"""Dispatch of work to each tree separately, in the eligibility windows of its schedule.

Source: forester/docs/reference/behaviour.md, "Separate trees".

A tree that fails is retried after 0.2 to 30 s, which does not affect other trees. Between rounds without work it waits
until one of its accounts changes.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from forester.chain.tree_metadata import TreeMetadata
from forester.daemon.rounds import EligibleRounds, RoundParts
from forester.errors import ForesterError
from forester.scheduling.eligibility_window import EligibilityWindow, ProcessingResult, TreeProcessor
from forester.waiting import Wait, first_of
from shared.process.logs import bind, get_logger

_log = get_logger(__name__)

LOOKAHEAD_SLOTS = 75
"""Half a minute: a V1 tree prepares this long before our window; scheduling terms assign the proofs of a V2 tree."""

AFTER_WINDOW_S = 30.0
"""Work under way at the end of a window may finish, unless the next window comes sooner: proofs are stored."""

DRAIN_S = 10.0
CLOSE_S = 10.0
"""Seconds at the end of the process for transactions in flight, then for proofs under way."""

_PREPARE_AGAIN_S = 2.0
_IDLE_S = 0.2
_ROLL_OVER_S = 600.0

Progress = Callable[[TreeMetadata, EligibilityWindow, ProcessingResult, float], None]
"""Called after every round, with its seconds."""


RollOver = Callable[[TreeMetadata, EligibilityWindow], Awaitable[ForesterError | None]]
"""Replaces a tree if it is full; returns the failure that prevented it."""


@runtime_checkable
class _CachingProcessor(Protocol):
    """A tree processor that caches a part of its queue."""

    def queue_changed(self) -> None:
        """Record that the queue has changed."""


@dataclass(frozen=True, kw_only=True)
class DispatchParts(RoundParts):
    """Services and limits that the dispatchers of all trees share."""

    make_processor: Callable[[TreeMetadata], TreeProcessor]
    progress: Progress = lambda *_: None
    roll_over: RollOver | None = None
    drain_s: float = DRAIN_S
    close_s: float = CLOSE_S
    after_window_s: float = AFTER_WINDOW_S


class TreeDispatcher:
    """Dispatcher of one tree. ``run`` may be called again after a crash: it creates a new tree processor."""

    def __init__(self, tree: TreeMetadata, parts: DispatchParts) -> None:
        self.tree = tree
        self._parts = parts
        self._queue_changed = asyncio.Event()
        self._plan_changed = asyncio.Event()
        self._retired = asyncio.Event()
        self._processor: TreeProcessor | None = None
        self._rounds = EligibleRounds(bytes(tree.eligibility_key), parts)
        self._roll_over_at = 0.0

    def queue_changed(self) -> None:
        """Record that the tree or its queue has changed: there may be work."""
        self._queue_changed.set()
        self._roll_over_at = 0.0
        if isinstance(self._processor, _CachingProcessor):
            self._processor.queue_changed()

    def plan_changed(self) -> None:
        """Record that shares or funds have changed, or that the process must end."""
        self._plan_changed.set()

    def retire(self) -> None:
        """Record that the tree is no longer processed: no work begins after what is under way."""
        self._retired.set()

    @property
    def is_retired(self) -> bool:
        """Return whether the tree is no longer processed."""
        return self._retired.is_set()

    async def run(self) -> None:
        """Process the tree in its windows until it is retired, or the process must end."""
        with bind(tree=str(self.tree.address), kind=self.tree.kind.label):
            processor = self._processor = self._parts.make_processor(self.tree)
            close_s = 0.0
            try:
                while not (self._parts.stopping.is_set() or self._retired.is_set()):
                    await self._once(processor)
                close_s = self._parts.close_s
            finally:
                await processor.close(close_s)

    async def _once(self, processor: TreeProcessor) -> None:
        parts = self._parts
        self._plan_changed.clear()
        live = parts.shares.at(parts.clock.slot()) if parts.funds.available else None
        if live is None:
            await self._wait()
            return
        eligibility = await self._rounds.next_window(live)
        if eligibility is None:
            await self._wait(until_slot=live.phases.active.last + 1)
        elif parts.clock.slot() < eligibility.window.first:
            await self._before(processor, eligibility)
        else:
            await self._within(processor, eligibility)

    async def _before(self, processor: TreeProcessor, eligibility: EligibilityWindow) -> None:
        """Prepare the window, of a V1 tree only shortly before it; again when the queue may have changed."""
        parts = self._parts
        nears = 0 if self.tree.kind.is_batched else eligibility.window.first - LOOKAHEAD_SLOTS
        if parts.clock.slot() < nears:
            await self._wait(until_slot=nears)
            return
        self._queue_changed.clear()
        began = time.monotonic()
        opens = parts.clock.reach(eligibility.window.first)
        ends = (self._plan_changed.wait(), parts.stopping.wait(), self._retired.wait())
        await first_of(processor.prepare(eligibility), opens, *ends)
        again_s = max(_PREPARE_AGAIN_S - (time.monotonic() - began), 0.0)
        await self._wait(again_s, until_slot=eligibility.window.first)
        await self._wait(parts.poll_s, until_slot=eligibility.window.first, or_queue=True)

    async def _within(self, processor: TreeProcessor, eligibility: EligibilityWindow) -> None:
        await self._check_roll_over(eligibility)
        self._queue_changed.clear()
        began = time.monotonic()
        done = await self._work(processor, eligibility)
        seconds = time.monotonic() - began
        if done is None:
            return
        if done.elements:
            self._roll_over_at = 0.0
        self._parts.progress(self.tree, eligibility, done, seconds)
        if done.failure is not None:
            await self._wait(self._rounds.failed(eligibility.epoch, done.failure))
            return
        self._rounds.succeeded()
        if done.more:
            # Without progress, the waiting work cannot be done now.
            await self._wait(0 if done.elements else _IDLE_S, until_slot=eligibility.window.last + 1)
            return
        await self._wait(self._parts.poll_s, until_slot=eligibility.window.last + 1, or_queue=True)

    async def _work(self, processor: TreeProcessor, eligibility: EligibilityWindow) -> ProcessingResult | None:
        """Return the result of one round; None if it was cancelled after its window or at the end of the process."""
        work = asyncio.ensure_future(processor.work(eligibility))
        try:
            await first_of(asyncio.wait([work]), self._round_end(eligibility))
        finally:
            if not work.done():
                _log.info("processing_cut_short", window_last=eligibility.window.last)
                work.cancel()
                await asyncio.wait([work])
        return None if work.cancelled() else work.result()

    async def _round_end(self, eligibility: EligibilityWindow) -> None:
        """Wait until a round must end: some time after its window, or when the next one begins."""
        clock, parts = self._parts.clock, self._parts
        await first_of(clock.reach(eligibility.window.last + 1), parts.stopping.wait())
        if not parts.stopping.is_set():
            waits: list[Wait] = [parts.stopping.wait()]
            schedule = eligibility.schedule
            following = None if schedule is None else schedule.next_window(eligibility.window.last + 1)
            if following is not None:
                waits.append(clock.reach(following.first))
            await first_of(*waits, timeout_s=parts.after_window_s)
        if parts.stopping.is_set():
            await asyncio.sleep(parts.drain_s)

    async def _check_roll_over(self, eligibility: EligibilityWindow) -> None:
        """Check whether the tree is full, after a change or a long time without one."""
        roll_over = self._parts.roll_over
        if roll_over is None or time.monotonic() < self._roll_over_at:
            return
        self._roll_over_at = time.monotonic() + _ROLL_OVER_S
        failure = await roll_over(self.tree, eligibility)
        if failure is not None:
            _log.warning("rollover_failed", error=failure.detail, epoch=eligibility.epoch)

    async def _wait(
        self, seconds: float | None = None, *, until_slot: int | None = None, or_queue: bool = False
    ) -> None:
        """Wait for a new plan, the end of the tree or the process, or one of the given waits."""
        waits: list[Wait] = [self._plan_changed.wait(), self._parts.stopping.wait(), self._retired.wait()]
        if until_slot is not None:
            waits.append(self._parts.clock.reach(until_slot))
        if or_queue:
            waits.append(self._queue_changed.wait())
        await first_of(*waits, timeout_s=seconds)
