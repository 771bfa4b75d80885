"""Endless tasks, restarted when they fail."""

from collections.abc import Awaitable, Callable

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
