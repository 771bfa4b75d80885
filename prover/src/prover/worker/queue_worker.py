"""arq workers: each listens to the wake-ups of one circuit queue and starts a job for each while slots are free.

arq only wakes. The store chooses the job at that moment, and a separate task proves it: a lost connection of arq does
not disturb proofs in progress.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, cast

from arq.constants import in_progress_key_prefix, job_key_prefix, retry_key_prefix
from arq.worker import Retry, Worker, func
from redis.exceptions import ResponseError

from prover.errors import QueueUnavailable
from prover.queue import wake_ups
from prover.queue.circuit_queues import CircuitQueue
from prover.queue.connection import RedisConnection
from prover.queue.jobs import Claim
from prover.queue.store import JobStore
from prover.worker.job_slots import JobSlots
from prover.worker.supervisor import end_tasks
from shared.logs import get_logger

_log = get_logger(__name__)

_CLAIM_TIMEOUT_S = 10
"""Seconds; a wake-up whose worker died is usable again ten seconds later."""
_HEALTH_PERIOD_S = 60
_UNAVAILABLE_PAUSE_S = 1.0
_WITHOUT_LIMIT = 2**31

logging.getLogger("arq").setLevel(logging.CRITICAL)  # it logs every wake-up, and malformed ones with a traceback


class QueueWorker(Worker):
    """A worker of arq without results and without the keys that arq would put into other slots of a cluster."""

    def __init__(self, *arguments: Any, on_removed: Callable[[int], None], **options: Any) -> None:
        """Accept arq's arguments; ``on_removed`` is called with the number of removed malformed wake-ups."""
        super().__init__(*arguments, **options)
        self._slot_freed = asyncio.Event()
        self._on_removed = on_removed

    def allow(self, *, picking: bool) -> None:
        """Set whether wake-ups are processed; if so, poll for them at once."""
        self.allow_pick_jobs = picking
        if picking:
            self._slot_freed.set()

    async def main(self) -> None:
        """Poll for wake-ups until cancelled, every ``poll_delay`` seconds and whenever a slot is free.

        The method of arq first sends INFO to Redis, which not every user may do.
        """
        while True:
            self._slot_freed.clear()
            try:
                await self._poll_iteration()
            except ResponseError as error:
                if not _is_foreign(error):
                    raise
                await self._remove_foreign_queue()
            with suppress(TimeoutError):
                async with asyncio.timeout(self.poll_delay_s):
                    await self._slot_freed.wait()

    async def finish_job(
        self,
        job_id: str,
        finish: bool,
        result_data: bytes | None,  # noqa: ARG002
        result_timeout_s: float | None,  # noqa: ARG002
        keep_result_forever: bool,  # noqa: ARG002
        incr_score: int | None,  # noqa: ARG002
        keep_in_progress: float | None,  # noqa: ARG002
    ) -> None:
        """Remove a wake-up, or make it available again at once when it is not ``finish``ed."""
        if finish:
            await self._remove(job_id)
        else:
            await self.pool.delete(in_progress_key_prefix + job_id)

    async def start_jobs(self, job_ids: list[bytes]) -> None:
        """Process wake-ups after the removal of those that no script wrote: arq fails on their names."""
        foreign = [name for name in job_ids if not wake_ups.is_name(name, self.queue_name)]
        if job_ids:
            # The scripts write positive scores; arq would ignore others for ever, or fail on them.
            removed = await self.pool.zremrangebyscore(self.queue_name, "-inf", 0)
            if foreign:
                removed += await self.pool.zrem(self.queue_name, *foreign)
            self._note_removed(removed)
        await super().start_jobs([name for name in job_ids if name not in foreign])

    async def run_job(self, job_id: str, score: int) -> None:
        """Process a wake-up; remove one whose keys are of a type that arq does not write."""
        try:
            await super().run_job(job_id, score)
        except ResponseError as error:
            if not _is_foreign(error):
                raise
            await self.finish_failed_job(job_id, None)

    async def finish_failed_job(self, job_id: str, result_data: bytes | None) -> None:  # noqa: ARG002
        """Remove a wake-up that cannot be parsed."""
        await self._remove(job_id)
        self._note_removed(1)

    async def _remove_foreign_queue(self) -> None:
        """Remove a value under the queue's name that is not a queue; the next sweep adds wake-ups for waiting jobs."""
        if await self.pool.type(self.queue_name) not in (b"zset", b"none"):
            self._note_removed(await self.pool.delete(self.queue_name))

    def _note_removed(self, count: int) -> None:
        if count:
            self._on_removed(count)

    async def _remove(self, job_id: str) -> None:
        async with self.pool.pipeline(transaction=True) as pipe:
            pipe.delete(*(prefix + job_id for prefix in (retry_key_prefix, in_progress_key_prefix, job_key_prefix)))
            pipe.zrem(self.queue_name, job_id)
            await pipe.execute()

    async def abandon(self) -> None:
        """Cancel all tasks; their wake-ups become available again."""
        await end_tasks([task for task in (self.main_task, *self.tasks.values()) if task is not None], again_s=0.2)


class QueueListener:
    """Listener that starts jobs of one circuit queue until ``leave`` is called."""

    def __init__(
        self,
        queue: CircuitQueue,
        store: JobStore,
        owner: str,
        circuits: frozenset[str] | None,
        slots: JobSlots,
        begin: Callable[[Claim], Coroutine[Any, Any, None]],
        on_removed: Callable[[int], None],
    ) -> None:
        """``begin`` makes an attempt at a job; jobs of ``circuits`` may be claimed, of all circuits if it is None.

        ``on_removed`` is called with the number of removed malformed wake-ups.
        """
        self.queue = queue
        self._store = store
        self._owner = owner
        self._circuits = circuits
        self._slots = slots
        self._begin = begin
        self._on_removed = on_removed
        self._worker: QueueWorker | None = None
        self._leaving = False
        self._tasks: set[asyncio.Task[Any]] = set()
        slots.watch(self._allow)

    async def listen(self, connection: RedisConnection, slots: int, poll_s: float) -> None:
        """Listen until cancelled; raises the errors of the Redis client."""
        self._worker = worker = QueueWorker(
            [func(cast("Any", self._wake), name=wake_ups.FUNCTION)],
            on_removed=self._note_removed,
            queue_name=connection.keys.wake_queue(self.queue),
            redis_pool=connection.redis,
            handle_signals=False,
            job_serializer=wake_ups.encode,
            job_deserializer=wake_ups.decode,
            max_jobs=slots,
            job_timeout=_CLAIM_TIMEOUT_S,
            max_tries=_WITHOUT_LIMIT,
            keep_result=0,
            poll_delay=poll_s,
            health_check_interval=_HEALTH_PERIOD_S,
            log_results=False,
        )
        self._allow()
        worker.main_task = asyncio.create_task(worker.main(), name=worker.queue_name)
        try:
            await asyncio.wait({worker.main_task})
            worker.main_task.result()
        finally:
            await worker.abandon()

    def leave(self) -> None:
        """Start no more jobs."""
        self._leaving = True
        self._allow()

    async def settle(self) -> None:
        """Wait until every started job has ended."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _wake(self, _: dict[Any, Any], __: str) -> None:
        """Start a job, if there is one, for a wake-up of arq."""
        if self._leaving or not self._slots.acquire(self.queue):
            raise Retry  # another worker may use the wake-up
        # arq may time out before the answer of Redis brings a job.
        if not await asyncio.shield(self._spawn(self._claim())):
            raise Retry

    async def _claim(self) -> bool:
        """Claim a job and start it; False when Redis did not answer."""
        claim: Claim | None = None
        try:
            claim = await self._store.claim(self.queue, self._owner, self._circuits)
        except QueueUnavailable:
            await asyncio.sleep(_UNAVAILABLE_PAUSE_S)  # Redis may still return wake-ups: one whose memory is full does
            return False
        finally:
            if claim is None:
                self._slots.release(self.queue)
        if claim is not None:
            self._spawn(self._work(claim))
        return True

    async def _work(self, claim: Claim) -> None:
        try:
            await self._begin(claim)
        finally:
            self._slots.release(self.queue)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _note_removed(self, count: int) -> None:
        self._on_removed(count)
        _log.warning("wake_ups_removed", queue=self.queue.queue_name, entries=count, detail="no instance wrote them")

    def _allow(self) -> None:
        if self._worker is not None:
            self._worker.allow(picking=not self._leaving and self._slots.is_free(self.queue))


def _is_foreign(error: ResponseError) -> bool:
    """Return whether a command met a value of a type that neither arq nor the scripts write."""
    return "WRONGTYPE" in str(error) or "not an integer" in str(error)
