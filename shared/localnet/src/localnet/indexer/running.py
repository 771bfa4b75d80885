"""An indexer for a chain: the store, the follower and the server together."""

import contextlib
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import aiohttp
from aiohttp import web

from localnet.access import LOOPBACK_ONLY, AccessRules
from localnet.chain.network import Network
from localnet.hosts import reachable
from localnet.indexer.api.server import make_app
from localnet.indexer.api.service import Service
from localnet.indexer.api.upstream import prove
from localnet.indexer.database.store import Store
from localnet.indexer.faults import Faults
from localnet.indexer.following.follower import Follower
from localnet.json_rpc import Call

DEFAULT_PORT = 8784
_SHUTDOWN_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class RunningIndexer:
    """An indexer that serves at ``url``. Code that advances the chain calls ``follower.wake`` afterwards."""

    url: str
    service: Service
    follower: Follower
    faults: Faults


@contextlib.asynccontextmanager
async def running_indexer(
    network: Network,
    *,
    node: Call,
    prover_url: str,
    path: Path | None = None,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    access: AccessRules = LOOPBACK_ONLY,
) -> AsyncIterator[RunningIndexer]:
    """Index a chain and serve the index, which is up to date when the block begins; ``node`` calls methods of its node.

    ``path`` is the database, continued if it belongs to this chain; without it, a temporary one is used.
    ``port`` 0 uses any free one. Raise OSError if the port is in use.
    """
    async with contextlib.AsyncExitStack() as stack:
        durable = path is not None
        if path is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="localnet-indexer-"))
            path = Path(folder) / "indexer.sqlite"
        store = stack.enter_context(contextlib.closing(Store(path, durable=durable)))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        faults = Faults()
        follower = Follower(network, store, faults)
        service = Service(store, partial(prove, session, prover_url), node, lambda: follower.stopped, follower.settled)
        await stack.enter_async_context(follower.running())
        runner = web.AppRunner(make_app(service, faults, access), access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, host, port).start()
        bound = runner.addresses[0][1]
        yield RunningIndexer(f"http://{reachable(host)}:{bound}", service, follower, faults)
