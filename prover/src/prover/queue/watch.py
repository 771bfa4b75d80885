"""Notification of changed jobs: one subscription per process, however many clients wait."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from redis.asyncio import Redis
from redis.exceptions import RedisError

from prover.queue.tasks import end_tasks
from shared.process.logs import get_logger

_log = get_logger(__name__)

RECONNECT_S = 1.0
IDLE_S = 1.0


class Watch:
    """Notifier of callers that wait for a job, as long as Redis publishes changes; see ``JobStore.wait``."""

    def __init__(self, redis: Redis, channel: str) -> None:
        self._redis = redis
        self._channel = channel
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._listener: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def of(self, job_id: str) -> Iterator[asyncio.Event]:
        """Yield an event that is set when the job may have changed."""
        event = asyncio.Event()
        self._waiting.setdefault(job_id, set()).add(event)
        if self._listener is None or self._listener.done():
            self._listener = asyncio.create_task(self._listen())
        try:
            yield event
        finally:
            others = self._waiting[job_id]
            others.discard(event)
            if not others:
                del self._waiting[job_id]

    async def close(self) -> None:
        """Stop listening."""
        if self._listener is not None:
            await end_tasks([self._listener])

    async def _listen(self) -> None:
        """Forward messages until no caller waits."""
        while self._waiting:
            try:
                await self._forward()
            except (RedisError, OSError) as error:
                _log.debug("queue_watch_interrupted", error=str(error))
                await asyncio.sleep(RECONNECT_S)

    async def _forward(self) -> None:
        async with self._redis.pubsub() as subscription:
            await subscription.subscribe(self._channel)
            while self._waiting:
                message = await subscription.get_message(timeout=IDLE_S)
                if message is None:
                    continue
                # The confirmation of the subscription wakes all: messages before it were missed.
                changed = (
                    [message["data"].decode(errors="replace")] if message["type"] == "message" else list(self._waiting)
                )
                for job_id in changed:
                    for event in self._waiting.get(job_id, ()):
                        event.set()
