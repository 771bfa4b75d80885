"""Whether indexer, provers and the node's WebSocket answer."""

import aiohttp

from forester.chain.rpc_client import RpcClient
from forester.checks.result import CheckFailed
from forester.errors import EndpointUnreachable
from forester.indexer.client import IndexerClient, IndexerTimes
from forester.redaction import mask

LAG_LIMIT_SLOTS = 150
"""How far an indexer may be behind: a minute."""

_TIMES = IndexerTimes(call_s=8.0, deadline_s=10.0, attempts=3)


async def check_indexer(client: RpcClient, url: str) -> str:
    """Return the lag; CheckFailed if it is large. The indexer must call itself healthy."""
    async with aiohttp.ClientSession() as session:
        indexer = IndexerClient(session, url, times=_TIMES)
        await indexer.health()
        indexed = await indexer.slot()
    lag = max(0, await client.slot() - indexed)
    if lag > LAG_LIMIT_SLOTS:
        raise CheckFailed(f"the indexer is {lag} slots behind; work on its trees would be refused")
    return f"at slot {indexed}, {lag} slots behind"


async def check_prover(urls: list[str], api_key: str | None) -> str:
    """Return the provers that answer; EndpointUnreachable that names the first that does not."""
    headers = {"X-API-Key": api_key} if api_key else {}
    async with aiohttp.ClientSession(headers=headers) as session:
        for url in urls:
            try:
                async with session.get(f"{url.rstrip('/')}/health", allow_redirects=False) as response:
                    status = response.status
            except (aiohttp.ClientError, OSError) as error:
                raise EndpointUnreachable(f"the prover {mask(url)} cannot be reached: {error}") from None
            if status != 200:
                raise EndpointUnreachable(f"the prover {mask(url)} answered /health with {status}")
    return f"{', '.join(mask(url) for url in urls)} healthy"


async def check_websocket(url: str) -> str:
    """Connect once; CheckFailed if that fails."""
    try:
        async with aiohttp.ClientSession() as session, session.ws_connect(url):
            return "connected"
    except (aiohttp.ClientError, OSError) as error:
        raise CheckFailed(f"the WebSocket of --ws-rpc-url cannot be reached: {mask(str(error))}") from None
