"""The timers of the queue, run by the one instance that holds the role of the sweeper."""

import asyncio
import time

from prover.errors import QueueUnavailable
from prover.observability.metrics import Metrics
from prover.queue.jobs import SweepKind
from prover.queue.store import JobStore
from prover.settings import QueueSettings
from shared.logs import get_logger

_log = get_logger(__name__)

ROLE = "sweeper"


class Sweeper:
    """Periodic sweeps of the queue while this instance holds the role."""

    def __init__(self, store: JobStore, owner: str, settings: QueueSettings, metrics: Metrics) -> None:
        self._store = store
        self._owner = owner
        self._metrics = metrics
        self._lease_s = settings.lease_s
        self._heartbeat_s = settings.heartbeat_s
        self._periods = {
            SweepKind.STUCK: settings.sweep_stuck_s,
            SweepKind.OLD_REQUESTS: settings.sweep_requests_s,
            SweepKind.FAILED: settings.sweep_failures_s,
            SweepKind.RESULTS: settings.sweep_results_s,
        }
        self._due: dict[SweepKind, float] = {}
        self._leads = False

    async def run(self) -> None:
        """Acquire the role and sweep until cancelled."""
        pause_s = min(self._heartbeat_s, *self._periods.values())
        while True:
            try:
                await self._sweep_due()
            except QueueUnavailable as error:
                self._note(leads=False)
                _log.debug("sweep_failed", error=error.detail)
            await asyncio.sleep(pause_s)

    async def step_down(self) -> None:
        """Release the role, so that the next instance need not wait for the end of its lease."""
        if self._leads:
            self._note(leads=False)
            try:
                await self._store.step_down(ROLE, self._owner)
            except QueueUnavailable as error:
                _log.debug("sweep_failed", error=error.detail)

    async def _sweep_due(self) -> None:
        self._note(leads=await self._store.lead(ROLE, self._owner, self._lease_s))
        if not self._leads:
            return
        for kind, period_s in self._periods.items():
            if self._leads and time.monotonic() >= self._due[kind]:
                self._due[kind] = time.monotonic() + period_s
                await self._sweep(kind)

    async def _sweep(self, kind: SweepKind) -> None:
        swept = await self._store.sweep(kind, ROLE, self._owner)
        if swept is None:
            self._note(leads=False)
            return
        self._metrics.count_sweep(kind.value, swept)
        if swept:
            _log.info("queue_swept", kind=kind.value, jobs=swept)

    def _note(self, *, leads: bool) -> None:
        if leads and not self._leads:
            self._due = dict.fromkeys(self._periods, 0.0)  # the previous sweeper may have been gone for a while
            _log.info("sweeper_elected")
        self._leads = leads
        self._metrics.sweeps_here.set(leads)
