"""Workers of arq with what all of them have in common: the connections of the instance, and entries as JSON."""

import logging
from collections.abc import Callable
from typing import Any

from arq.worker import Worker

from prover.queue import wake_ups
from prover.queue.connection import RedisConnection

_HEALTH_PERIOD_S = 60

logging.getLogger("arq").setLevel(logging.CRITICAL)  # it logs every entry, and malformed ones with a traceback


def arq_worker(
    connection: RedisConnection, queue_name: str, decode: Callable[[bytes], dict[str, Any]], **settings: Any
) -> Worker:
    """Return a worker for an arq queue with these further settings of arq; ``async_run`` of it is called once."""
    return Worker(
        queue_name=queue_name,
        redis_pool=connection.redis,
        handle_signals=False,
        job_serializer=wake_ups.encode,
        job_deserializer=decode,
        keep_result=0,
        health_check_interval=_HEALTH_PERIOD_S,
        log_results=False,
        **settings,
    )
