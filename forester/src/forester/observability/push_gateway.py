"""Sends the metrics to a push gateway."""

import asyncio

import aiohttp
from prometheus_client import generate_latest

from forester.errors import EndpointTimedOut, EndpointUnreachable, RequestRefused
from forester.observability.metrics import Metrics
from forester.redaction import mask

TIMEOUT_S = 5.0


async def push(session: aiohttp.ClientSession, url: str, metrics: Metrics) -> None:
    """Post all metrics to ``url`` as it is. Raises EndpointError that names the gateway, masked."""
    metrics.last_run.set_to_current_time()
    name = f"push gateway {mask(url)}"
    try:
        async with (
            asyncio.timeout(TIMEOUT_S),
            session.post(url, data=generate_latest(metrics.registry), allow_redirects=False) as response,
        ):
            status, told = response.status, (await response.content.read(512)).decode(errors="replace")
    except TimeoutError:
        raise EndpointTimedOut(f"{name} did not answer within {TIMEOUT_S:g} s") from None
    except (aiohttp.ClientError, OSError) as error:
        raise EndpointUnreachable(f"{name} cannot be reached: {error}") from None
    if not 200 <= status < 300:
        raise RequestRefused(f"{name} answered {status}: {told}", code=status)
