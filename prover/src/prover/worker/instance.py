"""The part of one instance that serves the queue: jobs, heartbeats, sweeps, metrics."""

import asyncio
import os
import secrets
import socket
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from prover.keys.catalogue.selection import CircuitSelection
from prover.observability.metrics import Metrics
from prover.proving.service import ProvingService
from prover.queue.circuit_queues import CircuitQueue
from prover.queue.connection import RedisConnection
from prover.queue.store import JobStore
from prover.queue.tasks import end_tasks
from prover.settings import QueueSettings
from prover.worker.attempts import Attempts
from prover.worker.job_slots import JobSlots
from prover.worker.monitor import QueueMonitor, count_removed_wake_ups
from prover.worker.queue_workers import QueueWorkers
from prover.worker.running import RunningJobs, StopCause
from prover.worker.supervisor import keep_running
from prover.worker.timers import Timers
from shared.process.logs import get_logger

_log = get_logger(__name__)

_LAST_REPORTS_S = 10.0
"""Time for cancelled proofs to stop and report to Redis; after it their leases are left to end."""


class QueueInstance:
    """One process that serves the queue. ``leave``, ``drain`` and ``close`` end it in this order."""

    def __init__(self, connection: RedisConnection, store: JobStore, settings: QueueSettings, metrics: Metrics) -> None:
        self._connection = connection
        self._store = store
        self._settings = settings
        self._metrics = metrics
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._running = RunningJobs(store, metrics)
        self._workers: QueueWorkers | None = None
        self._polling: list[asyncio.Task[None]] = []
        self._background: list[asyncio.Task[None]] = []
        self._attempts: Attempts | None = None
        self._executor: ThreadPoolExecutor | None = None

    def start(self) -> None:
        """Start heartbeats, sweeps and metrics; Redis need not be reachable yet."""
        monitor = QueueMonitor(self._store, self._owner, self._metrics)
        timers = Timers(self._connection, self._store, self._owner, self._settings, self._metrics)
        self._background = [
            _supervised("monitor", monitor.run),
            _supervised("heartbeats", partial(self._running.beat, self._settings.heartbeat_s)),
            _supervised("timers", timers.run),
        ]

    def work(self, service: ProvingService, selection: CircuitSelection, slots: int, total_slots: int) -> None:
        """Prove jobs of the selected circuits: at most ``slots`` of each circuit and ``total_slots`` together."""
        queues = queues_of(selection)
        self._executor = ThreadPoolExecutor(total_slots, thread_name_prefix="job")
        self._attempts = Attempts(
            self._store,
            service,
            selection,
            self._metrics,
            self._running,
            self._executor,
            self._settings.job_deadline_s,
        )
        self._workers = QueueWorkers(
            self._connection,
            self._store,
            self._owner,
            claimable(selection),
            JobSlots(queues, slots, total_slots),
            self._attempts,
            partial(count_removed_wake_ups, self._metrics),
        )
        for queue in queues:
            run = partial(self._workers.run, queue, self._settings.poll_s)
            restarted = self._metrics.worker_restarts.labels(queue.queue_name).inc
            self._polling.append(_supervised(queue.queue_name, run, restarted))
        queue_names = [queue.queue_name for queue in queues]
        _log.info("workers_started", queues=queue_names, slots=slots, total_slots=total_slots, owner=self._owner)

    def leave(self) -> None:
        """Start no more jobs."""
        if self._workers is not None:
            self._workers.leave()
        if self._attempts is not None:
            self._attempts.leave()

    async def drain(self, deadline_s: float) -> None:
        """Wait up to ``deadline_s`` seconds for running jobs, then cancel and requeue the rest."""
        self.leave()
        await end_tasks(self._polling)
        if self._workers is None or self._attempts is None or await self._workers.settle(deadline_s):
            return
        self._running.stop_all(StopCause.DRAINED)
        if not await self._workers.settle(_LAST_REPORTS_S):
            self._attempts.give_up()
            await self._workers.settle(_LAST_REPORTS_S)

    async def close(self) -> None:
        """End all tasks; running jobs are cancelled and requeued."""
        await self.drain(0)
        await end_tasks(self._background)
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)


def queues_of(selection: CircuitSelection) -> list[CircuitQueue]:
    """Return the queues that may have jobs of a selected circuit."""
    if selection.circuits is None:
        return list(CircuitQueue)
    wanted = {CircuitQueue.of(circuit.kind) for circuit in selection.circuits}
    return [queue for queue in CircuitQueue if queue.without_network in wanted]


def claimable(selection: CircuitSelection) -> frozenset[str] | None:
    """Return the names of circuits whose jobs are claimed, None for all; jobs of no known circuit can only fail."""
    return None if selection.circuits is None else frozenset(circuit.name for circuit in selection.circuits) | {""}


def _supervised(
    name: str, work: Callable[[], Coroutine[Any, Any, None]], on_failure: Callable[[], None] = lambda: None
) -> asyncio.Task[None]:
    return asyncio.create_task(keep_running(name, work, on_failure), name=name)
