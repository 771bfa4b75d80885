"""The part of a server that shares jobs through Redis: built from settings, drained when the process stops."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Self

from prover.http.server.metrics_server import MetricsServer
from prover.http.state import ServerState
from prover.observability.metrics import Metrics
from prover.queue.connection import RedisConnection
from prover.queue.store import JobStore
from prover.settings import Settings
from prover.worker.instance import QueueInstance
from prover.worker.monitor import count_event
from shared.process.listening import shown_address
from shared.process.logs import get_logger
from shared.process.shutdown import Shutdown

_log = get_logger(__name__)


class QueuePart:
    """The connection of one process to the queue, with its job store and its workers."""

    def __init__(self, connection: RedisConnection, store: JobStore, settings: Settings, metrics: Metrics) -> None:
        self.store = store
        self._connection = connection
        self._settings = settings
        self._instance = QueueInstance(connection, store, settings.queue, metrics)

    @classmethod
    def open(cls, url: str, settings: Settings, metrics: Metrics) -> Self:
        """Return the part for these settings, not yet connected. Raises SettingsInvalid for a malformed address."""
        queue = settings.queue
        connection = RedisConnection.open(url, max_connections=queue.connection_limit, timeout_s=queue.timeout_s)
        store = JobStore(connection, queue, partial(count_event, metrics))
        return cls(connection, store, settings, metrics)

    def start(self, state: ServerState) -> None:
        """Start; Redis need not be reachable yet."""
        queue, proving, keys = self._settings.queue, self._settings.proving, self._settings.keys
        _log.info("queue", redis=self._connection.address, workers=queue.workers, api=queue.http)
        for weakness in self._connection.weaknesses:
            _log.warning("redis_unprotected", detail=weakness.detail, remedy=weakness.remedy)
        self._instance.start()
        if queue.workers:
            # One slot stays free for requests whose clients wait.
            total_slots = max(1, proving.permits - 1) if queue.http else proving.permits
            self._instance.work(state.service, state.selection, queue.slots_of(keys.total_memory_gib), total_slots)

    async def drain_on(self, shutdown: Shutdown) -> None:
        """Wait for a stop, start no more jobs, and wait for running ones until the deadline."""
        await shutdown.wait()
        self._instance.leave()
        http = self._settings.http
        await self._instance.drain(http.serving_after_stop_s + http.drain_deadline_s)

    async def close(self) -> None:
        """End all tasks and close the connections."""
        await self._instance.close()
        await self.store.close()
        await self._connection.close()


async def serve_queue_only(
    state: ServerState, metrics_server: MetricsServer, shutdown: Shutdown, begin: Callable[[], None]
) -> None:
    """Call ``begin`` and stay ready without an API until ``shutdown`` is requested."""
    begin()
    state.listening = True
    _log.info("listening", api=None, metrics=shown_address(*metrics_server.address), keys=len(state.keys.installed()))
    await shutdown.wait()
    await state.announce_stop()


async def together(serving: asyncio.Future[None], draining: asyncio.Future[None]) -> None:
    """Wait for both; a failure of one cancels the other."""
    try:
        await asyncio.gather(serving, draining)
    finally:
        for task in (serving, draining):
            task.cancel()
        await asyncio.gather(serving, draining, return_exceptions=True)
