"""Waiting for events, for a limited time."""

import asyncio
from collections.abc import Coroutine
from typing import Any

Wait = Coroutine[Any, Any, Any]


async def first_of(*waits: Wait, timeout_s: float | None = None) -> None:
    """Return when one of ``waits`` has ended or the time is over; the rest are cancelled. Their errors are raised."""
    tasks = [asyncio.ensure_future(item) for item in waits]
    try:
        done, _ = await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def occurs_within(event: asyncio.Event, seconds: float | None) -> bool:
    """Wait until an event is set or the time is over, None for any time; return whether it is set."""
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False
