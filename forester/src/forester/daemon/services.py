"""The clients and the memory of one daemon, opened together from the settings and closed in order."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from pydantic import SecretStr

from forester.chain.lookup_tables import LookupTables
from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RpcPool
from forester.checks.services import circuit_provers, used_provers
from forester.daemon.prover_network import NetworkOfCluster
from forester.errors import EndpointError, SettingsInvalid
from forester.indexer.client import IndexerClient
from forester.journal.database import Journal
from forester.journal.proofs import ProofStore
from forester.journal.signatures import SignatureStore
from forester.journal.spending import SpendingStore
from forester.observability.metrics import Metrics
from forester.observability.service_records import INDEXER, NODE, PROVER, ServiceRecords
from forester.pipeline_v2.services import V2Services, proof_permits
from forester.prover_client.client import ProverClient, ProverTimes
from forester.prover_client.endpoints import ProverEndpoints
from forester.settings import Settings, given, revealed
from forester.transactions.confirm import Confirmations, ConfirmationTimes
from forester.transactions.priority_fee import PriorityFee
from forester.transactions.sender import Sender
from forester.transactions.spending import SpendingBudget
from forester.units import lamports_of
from shared.process.logs import get_logger
from shared.process.rate_limits import TokenBucket

_log = get_logger(__name__)

_FIRST_READ_S = 5.0
"""Seconds that the start waits for the lookup table; transactions are only larger until it is read again."""

_JOURNAL = Path("forester") / "journal.sqlite"


@dataclass(frozen=True)
class Services(V2Services):
    """Everything that is open."""

    settings: Settings
    session: aiohttp.ClientSession
    journal: Journal
    lookup_tables: LookupTables


def journal_path(settings: Settings) -> Path:
    """Return the journal's path: of the settings, else in the user's state folder. SettingsInvalid without a home."""
    whole = "pass --journal or set JOURNAL_PATH to an absolute path"
    if settings.journal_path is not None:
        try:
            return Path(settings.journal_path).expanduser()
        except RuntimeError:
            raise SettingsInvalid(f"journal_path: {settings.journal_path} is in no known home; {whole}") from None
    state = os.environ.get("XDG_STATE_HOME")
    try:
        return (Path(state) if state else Path.home() / ".local" / "state") / _JOURNAL
    except RuntimeError:  # a container's user has none where HOME is not set
        raise SettingsInvalid(f"journal_path: the user has no home for it; {whole}") from None


def prover_endpoints(settings: Settings) -> ProverEndpoints:
    """Return the provers of the settings."""
    provers = circuit_provers(settings).items()
    return ProverEndpoints({kind: url.get_secret_value() for kind, url in provers if url is not None})


def indexer_of(settings: Settings, session: aiohttp.ClientSession) -> IndexerClient:
    """Return the indexer of the settings, with its fallback and its rate limit."""
    url = given(settings.indexer_url).get_secret_value()
    fallback = settings.fallback_indexer_url.get_secret_value() if settings.fallback_indexer_url is not None else None
    if settings.photon_rate_limit is None:
        return IndexerClient(session, url, fallback=fallback)
    return IndexerClient(session, url, fallback=fallback, admit=TokenBucket(settings.photon_rate_limit).wait)


@asynccontextmanager
async def open_services(settings: Settings, metrics: Metrics) -> AsyncIterator[Services]:
    """Open everything; JournalLocked if another forester has the journal. No service is called yet."""
    async with AsyncExitStack() as stack:
        journal = await stack.enter_async_context(await Journal.open(journal_path(settings)))
        observed = metrics.services
        pool = await stack.enter_async_context(RpcPool.from_settings(settings, traces=[observed.trace(NODE)]))
        rpc = RpcClient(pool, rent_lamports_per_byte_year=settings.rent_lamports_per_byte_year)
        session = await stack.enter_async_context(aiohttp.ClientSession(trace_configs=[observed.trace(INDEXER)]))
        # Proofs hold connections for minutes: the permits bound them, and the indexer needs connections of its own.
        prover_session = await stack.enter_async_context(
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), trace_configs=[observed.trace(PROVER)])
        )
        indexer = indexer_of(settings, session)
        _observe(observed, NODE, settings.rpc_url, settings.fallback_rpc_url, lambda: pool.on_fallback)
        indexers = settings.indexer_url, settings.fallback_indexer_url
        _observe(observed, INDEXER, *indexers, lambda: indexer.on_fallback)
        for url in used_provers(settings):
            observed.add(PROVER, url)
        polling_s = settings.prover_polling_interval_ms / 1000
        prover = ProverClient(
            prover_session,
            prover_endpoints(settings),
            api_key=settings.prover_api_key.get_secret_value() if settings.prover_api_key is not None else None,
            network=NetworkOfCluster(settings.prover_network, rpc.genesis_hash),
            times=ProverTimes(polling_interval_s=polling_s, max_wait_s=settings.prover_max_wait_time_secs),
        )
        pace = ConfirmationTimes(poll_s=settings.confirmation_poll_interval_ms / 1000)
        confirmations = await stack.enter_async_context(
            Confirmations(rpc, longest_s=settings.longest_in_flight_s, pace=pace)
        )
        tables = LookupTables(rpc, settings.lookup_table_address)
        await _read_first(tables)
        sender = Sender(
            rpc,
            confirmations,
            SignatureStore(journal),
            PriorityFee(settings, rpc),
            given(settings.payer),
            budget=SpendingBudget(SpendingStore(journal), lamports_of(settings.spending_budget_sol_per_hour)),
            cu_limit=settings.cu_limit,
            tables=tables,
            metrics=metrics,
            max_in_flight=settings.max_concurrent_sends,
            unknown_kept_s=settings.tx_cache_ttl_seconds,
        )
        permits = proof_permits(settings.transaction_max_concurrent_batches)
        shared = (rpc, indexer, prover, sender, ProofStore(journal), permits, metrics, given(settings.derivation))
        yield Services(*shared, settings, session, journal, tables)


def _observe(
    observed: ServiceRecords,
    role: str,
    first: SecretStr | None,
    fallback: SecretStr | None,
    on_fallback: Callable[[], bool],
) -> None:
    """Record a service of the settings, and its fallback, of which one is in use."""
    for url in revealed(first):
        observed.add(role, url, in_use=lambda: not on_fallback())
    for url in revealed(fallback):
        observed.add(role, url, fallback=True, in_use=on_fallback)


async def _read_first(tables: LookupTables) -> None:
    """Read the lookup table; a failure is logged, since it is read again later."""
    try:
        async with asyncio.timeout(_FIRST_READ_S):
            await tables.refresh()
        problem = tables.problem
    except TimeoutError:
        problem = f"the lookup table was not read within {_FIRST_READ_S:g} s; it is read again"
    except EndpointError as error:
        problem = error.detail
    if problem is not None:
        _log.warning("lookup_table_rejected", error=problem)
