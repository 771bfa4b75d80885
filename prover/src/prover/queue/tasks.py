"""The end of tasks that use Redis."""

import asyncio
from collections.abc import Iterable
from typing import Any


async def end_tasks(tasks: Iterable[asyncio.Task[Any]], again_s: float = 2.0) -> None:
    """Cancel tasks and wait for their ends; the cancellation is repeated every ``again_s`` seconds, as it may get lost.

    The client of Redis loses one that meets a result (before Python 3.12), or the time-out of a server that hangs.
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
