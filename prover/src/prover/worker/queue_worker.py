"""arq workers: each listens to the wake-ups of one lane and begins a job for each, as far as there are places.

arq only wakes. Which job is done is decided by the store at that moment, and the work goes on in a task of its own:
when arq stumbles over a lost connection, proofs in progress are not disturbed.
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
"""A wake-up whose worker died is usable again ten seconds after this."""
_HEALTH_PERIOD_S = 60
_UNAVAILABLE_PAUSE_S = 1.0
_WITHOUT_LIMIT = 2**31

logging.getLogger("arq").setLevel(logging.CRITICAL)  # it tells of every wake-up, with a traceback of malformed ones


class QueueWorker(Worker):
    """arq's worker, without results and without the keys of arq that would lie in other slots of a cluster."""

    def __init__(self, *arguments: Any, on_removed: Callable[[int], None], **options: Any) -> None:
        """Take arq's arguments; ``on_removed`` is called with the number of malformed wake-ups that were removed."""
        super().__init__(*arguments, **options)
        self._place_changed = asyncio.Event()
        self._on_removed = on_removed

    def allow(self, *, picking: bool) -> None:
        """Say whether wake-ups are wanted; if so, they are looked for at once."""
        self.allow_pick_jobs = picking
        if picking:
            self._place_changed.set()

    async def main(self) -> None:
        """Look for wake-ups until cancelled, every ``poll_delay`` and when there is a place.

        arq's own first asks Redis for INFO, which not every user may do.
        """
        while True:
            self._place_changed.clear()
            try:
                await self._poll_iteration()
            except ResponseError as error:
                if not _is_foreign(error):
                    raise
                await self._remove_foreign_queue()
            with suppress(TimeoutError):
                async with asyncio.timeout(self.poll_delay_s):
                    await self._place_changed.wait()

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
        """Remove a wake-up, or let it go back to the queue at once when it is not ``finish``ed."""
        if finish:
            await self._remove(job_id)
        else:
            await self.pool.delete(in_progress_key_prefix + job_id)

    async def start_jobs(self, job_ids: list[bytes]) -> None:
        """Begin the wake-ups of a list, once those that no script wrote are removed: arq stumbles over their names."""
        foreign = [name for name in job_ids if not wake_ups.is_name(name, self.queue_name)]
        if job_ids:
            # The scripts give positive scores; arq would pass over others for ever, or crash.
            removed = await self.pool.zremrangebyscore(self.queue_name, "-inf", 0)
            if foreign:
                removed += await self.pool.zrem(self.queue_name, *foreign)
            self._note_removed(removed)
        await super().start_jobs([name for name in job_ids if name not in foreign])

    async def run_job(self, job_id: str, score: int) -> None:
        """Do what a wake-up asks for; remove one whose keys are of a type that arq does not write."""
        try:
            await super().run_job(job_id, score)
        except ResponseError as error:
            if not _is_foreign(error):
                raise
            await self.finish_failed_job(job_id, None)

    async def finish_failed_job(self, job_id: str, result_data: bytes | None) -> None:  # noqa: ARG002
        """Remove a wake-up that cannot be read."""
        await self._remove(job_id)
        self._note_removed(1)

    async def _remove_foreign_queue(self) -> None:
        """Remove what has the name of the queue and is none; the next sweep makes wake-ups for the waiting jobs."""
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
        """Cancel what is going on; the wake-ups go back."""
        await end_tasks([task for task in (self.main_task, *self.tasks.values()) if task is not None], again_s=0.2)


class QueueListener:
    """Begins jobs of one lane until told to leave."""

    def __init__(
        self,
        lane: CircuitQueue,
        store: JobStore,
        owner: str,
        circuits: frozenset[str] | None,
        places: JobSlots,
        begin: Callable[[Claim], Coroutine[Any, Any, None]],
        on_removed: Callable[[int], None],
    ) -> None:
        """``begin`` makes an attempt at a job; ``circuits`` are the names of those that may be claimed.

        ``on_removed`` is called with the number of malformed wake-ups that were removed.
        """
        self.lane = lane
        self._store = store
        self._owner = owner
        self._circuits = circuits
        self._places = places
        self._begin = begin
        self._on_removed = on_removed
        self._worker: QueueWorker | None = None
        self._leaving = False
        self._tasks: set[asyncio.Task[Any]] = set()
        places.watch(self._allow)

    async def listen(self, connection: RedisConnection, slots: int, poll_s: float) -> None:
        """Listen until cancelled; raises what Redis does."""
        self._worker = worker = QueueWorker(
            [func(cast("Any", self._wake), name=wake_ups.FUNCTION)],
            on_removed=self._note_removed,
            queue_name=connection.keys.wake_queue(self.lane),
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
        """Begin no more jobs."""
        self._leaving = True
        self._allow()

    async def settle(self) -> None:
        """Wait until every job that was begun is over."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _wake(self, _: dict[Any, Any], __: str) -> None:
        """What arq calls: begin a job, if there is one."""
        if self._leaving or not self._places.take(self.lane):
            raise Retry  # somebody else may use the wake-up
        # arq may give up, and the answer of Redis still bring a job.
        if not await asyncio.shield(self._spawn(self._take())):
            raise Retry

    async def _take(self) -> bool:
        """Claim a job and begin it; False when Redis did not answer."""
        claim: Claim | None = None
        try:
            claim = await self._store.claim(self.lane, self._owner, self._circuits)
        except QueueUnavailable:
            await asyncio.sleep(_UNAVAILABLE_PAUSE_S)  # it may still hand out wake-ups: one that is full does
            return False
        finally:
            if claim is None:
                self._places.give_back(self.lane)
        if claim is not None:
            self._spawn(self._work(claim))
        return True

    async def _work(self, claim: Claim) -> None:
        try:
            await self._begin(claim)
        finally:
            self._places.give_back(self.lane)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _note_removed(self, count: int) -> None:
        self._on_removed(count)
        _log.warning("wake_ups_removed", queue=self.lane.queue_name, entries=count, detail="no instance wrote them")

    def _allow(self) -> None:
        if self._worker is not None:
            self._worker.allow(picking=not self._leaving and self._places.is_free(self.lane))


def _is_foreign(error: ResponseError) -> bool:
    """Whether a command met a value of a type that neither arq nor the scripts write."""
    return "WRONGTYPE" in str(error) or "not an integer" in str(error)
