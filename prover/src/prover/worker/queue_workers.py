"""arq workers: each polls for the wake-ups of one circuit queue; its function claims jobs and proves them.

The store chooses the job. The tasks of arq outlive its loop: a lost connection does not disturb proofs in progress.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from arq.worker import Retry, Worker, func

from prover.errors import QueueUnavailable
from prover.queue import wake_ups
from prover.queue.circuit_queues import CircuitQueue
from prover.queue.connection import RedisConnection
from prover.queue.jobs import SweepKind
from prover.queue.store import JobStore
from prover.worker.arq_worker import arq_worker
from prover.worker.attempts import Attempts
from prover.worker.job_slots import JobSlots
from shared.process.logs import get_logger

_log = get_logger(__name__)

_UNAVAILABLE_PAUSE_S = 1.0
_WITHOUT_LIMIT = 2**31


class QueueWorkers:
    """The arq workers of an instance; all share its slots."""

    def __init__(
        self,
        connection: RedisConnection,
        store: JobStore,
        owner: str,
        circuits: frozenset[str] | None,
        slots: JobSlots,
        attempts: Attempts,
        on_malformed: Callable[[], None],
    ) -> None:
        """Jobs of ``circuits`` may be claimed, of all circuits if it is None.

        ``on_malformed`` is called for each wake-up that arq removes because no script can have written it.
        """
        self._connection = connection
        self._store = store
        self._owner = owner
        self._circuits = circuits
        self._slots = slots
        self._attempts = attempts
        self._on_malformed = on_malformed
        self._leaving = False
        self._workers: dict[CircuitQueue, Worker] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        slots.watch(self._allow)

    async def run(self, queue: CircuitQueue, poll_s: float) -> None:
        """Run the worker of a circuit queue until cancelled; raises errors of Redis. Its jobs continue afterwards."""
        await self._store.sweep(SweepKind.STUCK)  # removes entries on which arq fails
        worker = arq_worker(
            self._connection,
            self._connection.keys.wake_queue(queue),
            self._decode,
            functions=[func(cast("Any", partial(self._prove, queue)), name=wake_ups.FUNCTION)],
            max_jobs=self._slots.total,
            # Attempts have a deadline of their own. A wake-up whose worker died is usable again ten seconds later.
            job_timeout=None,
            max_tries=_WITHOUT_LIMIT,
            poll_delay=poll_s,
        )
        self._workers[queue] = worker
        self._allow()
        try:
            await worker.async_run()
        finally:
            for task in worker.tasks.values():
                self._tasks.add(task)
                task.add_done_callback(self._forget)

    def leave(self) -> None:
        """Start no more jobs."""
        self._leaving = True
        self._allow()

    async def settle(self, seconds: float) -> bool:
        """Wait for the jobs of workers that ended; return False if some still run after ``seconds``."""
        return not self._tasks or not (await asyncio.wait(self._tasks, timeout=seconds))[1]

    async def _prove(self, queue: CircuitQueue, context: dict[Any, Any], _: str) -> None:
        """Prove the job of a wake-up, then jobs of all queues, which take turns, until none waits."""
        if self._leaving or not self._slots.acquire(queue):
            raise Retry  # another worker may use the wake-up
        try:
            await self._prove_from(queue, context["job_id"])
        except QueueUnavailable:
            await asyncio.sleep(_UNAVAILABLE_PAUSE_S)  # Redis may still return wake-ups: one whose memory is full does
            raise Retry from None
        except Exception:
            _log.exception("unexpected_error")
            raise

    async def _prove_from(self, first: CircuitQueue, wake_up: str) -> None:
        queue: CircuitQueue | None = first
        idle: set[CircuitQueue] = set()
        while queue is not None:
            try:
                claim = await self._store.claim(queue, self._owner, self._circuits, wake_up)
                if claim is None:
                    idle.add(queue)
                else:
                    idle.clear()
                    await self._attempts.make(claim)
            finally:
                self._slots.release(queue)
            wake_up = ""
            queue = None if self._leaving else self._slots.acquire_next(idle)

    def _decode(self, data: bytes) -> dict[str, Any]:
        try:
            return wake_ups.decode(data)
        except ValueError:
            self._on_malformed()
            raise

    def _allow(self) -> None:
        for queue, worker in self._workers.items():
            worker.allow_pick_jobs = not self._leaving and self._slots.is_free(queue)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not log it
