"""Checks of the indexer, the provers and the node's WebSocket."""

import aiohttp
from pydantic import SecretStr

from forester.chain.rpc_client import RpcClient
from forester.chain.subscriptions import refuse_redirects
from forester.checks.result import CheckFailed
from forester.errors import EndpointUnreachable, SettingsInvalid
from forester.indexer.client import IndexerClient, IndexerTimes
from forester.redaction import mask
from forester.settings import Settings, revealed
from forester.urls import connection_fault, under
from shared.requests.circuit_id import CircuitKind

LAG_LIMIT_SLOTS = 150
"""Maximum lag of an indexer in slots: a minute."""

_TIMES = IndexerTimes(call_s=8.0, deadline_s=10.0, attempts=3)


async def check_indexer(client: RpcClient, url: str) -> str:
    """Return the lag; CheckFailed if it is large. The indexer must report itself healthy."""
    return await check_indexer_at(await client.slot(), url)


async def check_indexer_at(slot: int, url: str) -> str:
    """Return the lag behind a slot that the chain has reached, as ``check_indexer`` does."""
    async with aiohttp.ClientSession() as session:
        indexer = IndexerClient(session, url, times=_TIMES)
        await indexer.health()
        indexed = await indexer.slot()
    lag = max(0, slot - indexed)
    if lag > LAG_LIMIT_SLOTS:
        raise CheckFailed(f"the indexer is {lag} slots behind; work on its trees would be refused")
    return f"at slot {indexed}, {lag} slots behind"


def circuit_provers(settings: Settings) -> dict[CircuitKind, SecretStr | None]:
    """Return the prover of each circuit: one of its own, or that of all circuits."""
    named = {
        CircuitKind.BATCH_APPEND: settings.prover_append_url,
        CircuitKind.BATCH_UPDATE: settings.prover_update_url,
        CircuitKind.BATCH_ADDRESS_APPEND: settings.prover_address_append_url,
    }
    return {kind: url or settings.prover_url for kind, url in named.items()}


def prover_urls(settings: Settings) -> list[str]:
    """Return the provers of the three circuits, each once; SettingsInvalid if a circuit has none."""
    urls = circuit_provers(settings).values()
    if None in urls:
        raise SettingsInvalid("missing prover_url: pass --prover-url or set PROVER_URL")
    return list(dict.fromkeys(revealed(*urls)))


def used_provers(settings: Settings) -> list[str]:
    """Return the provers that a forester calls; none if it processes V1 trees alone, or a circuit has none."""
    needless = settings.processor_mode == "v1" or None in circuit_provers(settings).values()
    return [] if needless else prover_urls(settings)


async def check_prover(urls: list[str], api_key: str | None) -> str:
    """Return the provers that answer; EndpointUnreachable that names the first that does not."""
    headers = {"X-API-Key": api_key} if api_key else {}
    async with aiohttp.ClientSession(headers=headers) as session:
        for url in urls:
            try:
                async with session.get(under(url, "health"), allow_redirects=False) as response:
                    status = response.status
            except (aiohttp.ClientError, OSError, ValueError) as error:
                fault = connection_fault(error)
                raise EndpointUnreachable(f"the prover {mask(url)} cannot be reached: {fault}") from None
            if status != 200:
                raise EndpointUnreachable(f"the prover {mask(url)} answered /health with {status}")
    return f"{', '.join(mask(url) for url in urls)} healthy"


async def check_websocket(url: str) -> str:
    """Connect once; CheckFailed if that fails."""
    try:
        async with aiohttp.ClientSession(trace_configs=[refuse_redirects()]) as session, session.ws_connect(url):
            return "connected"
    except (aiohttp.ClientError, OSError) as error:
        raise CheckFailed(f"the WebSocket of --ws-rpc-url cannot be reached: {mask(connection_fault(error))}") from None
