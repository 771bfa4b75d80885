"""Endless tasks: restarted when they fail, and reliably ended."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from redis.exceptions import RedisError

from prover.errors import QueueUnavailable
from shared.process.logs import get_logger
from shared.process.retries import Backoff, run_restarting

_log = get_logger(__name__)

RETRY_S = 0.5
_HEALTHY_AFTER_S = 30.0


async def keep_running(
    name: str, work: Callable[[], Awaitable[None]], on_failure: Callable[[], None] = lambda: None
) -> None:
    """Run ``work``, which has no end, until cancelled, again after every failure.

    An unreachable Redis is logged without a traceback, and not for every attempt.
    """

    async def endless() -> None:
        await work()
        raise RuntimeError(f"{name} has ended")

    def failed(error: Exception, failures: int, _: float) -> None:
        if isinstance(error, (RedisError, OSError, QueueUnavailable)):
            log = _log.warning if failures == 1 else _log.debug
            log("task_failed", task=name, error=f"{type(error).__name__}: {error}")
        else:
            _log.error("task_crashed", task=name, exc_info=error)
        on_failure()

    await run_restarting(endless, Backoff(RETRY_S, RETRY_S), failed, steady_s=_HEALTHY_AFTER_S)


async def end_tasks(tasks: Iterable[asyncio.Task[Any]], again_s: float = 2.0) -> None:
    """Cancel tasks and wait for their ends; the cancellation is repeated every ``again_s`` seconds, as it may get lost.

    Before Python 3.12 ``asyncio.wait_for``, which the client of Redis uses, swallows one that meets a result.
    """
    tasks = list(tasks)
    pending = {task for task in tasks if not task.done()}
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=again_s)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not log it
