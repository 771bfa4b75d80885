"""Sends the metrics to a push gateway, once or periodically."""

import asyncio

import aiohttp

from forester.errors import EndpointError, EndpointTimedOut, EndpointUnreachable, RequestRefused
from forester.observability.metrics import CheckMetrics, Metrics
from forester.redaction import mask
from forester.urls import connection_fault
from shared.process.logs import get_logger
from shared.process.retries import Backoff, jittered

_log = get_logger(__name__)

TIMEOUT_S = 5.0
PUSH_EVERY_S = 15.0
LONGEST_PAUSE_S = 300.0


async def push(session: aiohttp.ClientSession, url: str, metrics: Metrics | CheckMetrics) -> None:
    """Post all metrics and the current time to ``url``. Raises EndpointError that names the gateway, masked."""
    metrics.last_run.set_to_current_time()
    await push_exposition(session, url, metrics.exposition())


async def push_exposition(session: aiohttp.ClientSession, url: str, exposition: bytes) -> None:
    """Post an exposition to ``url`` as it is. Raises EndpointError that names the gateway, masked."""
    name = f"push gateway {mask(url)}"
    try:
        async with (
            asyncio.timeout(TIMEOUT_S),
            session.post(url, data=exposition, allow_redirects=False) as response,
        ):
            status, answer = response.status, (await response.content.read(512)).decode(errors="replace")
    except TimeoutError:
        raise EndpointTimedOut(f"{name} did not answer within {TIMEOUT_S:g} s") from None
    except (aiohttp.ClientError, OSError) as error:
        raise EndpointUnreachable(f"{name} cannot be reached: {connection_fault(error)}") from None
    if not 200 <= status < 300:
        raise RequestRefused(f"{name} answered {status}: {answer}", code=status)


async def push_periodically(
    url: str, metrics: Metrics, *, every_s: float = PUSH_EVERY_S, longest_pause_s: float = LONGEST_PAUSE_S
) -> None:
    """Push until cancelled, with growing pauses after failures, whose begin and end are logged."""
    backoff = Backoff(2 * every_s, longest_pause_s)
    failures = 0
    async with aiohttp.ClientSession() as session:
        while True:
            try:
                await push(session, url, metrics)
            except EndpointError as error:
                failures += 1
                if failures == 1:
                    _log.warning("push_failed", error=error.detail)
            else:
                if failures:
                    _log.info("push_recovered", failures=failures)
                failures = 0
            await asyncio.sleep(jittered(backoff, failures) if failures else every_s)
