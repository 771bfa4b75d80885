"""Readings of indexers and provers for the dashboard: lag and queue, which no work of the forester reports."""

import asyncio
from collections.abc import Sequence
from typing import Any

import aiohttp
import msgspec

from forester.chain.rpc_client import RpcClient
from forester.checks.services import used_provers
from forester.errors import ForesterError
from forester.indexer.client import IndexerClient, IndexerTimes
from forester.limits.untrusted_json import decode_untrusted
from forester.observability.service_records import INDEXER, PROVER, ServiceRecords
from forester.settings import Settings, revealed
from forester.urls import under

EVERY_S = 10.0
_LIMIT_S = 5.0
_TIMES = IndexerTimes(call_s=4.0, deadline_s=4.0, attempts=1)
_MAXIMUM_BYTES = 1 << 16


class _Counts(msgspec.Struct):
    total_pending: int


_COUNTS = msgspec.json.Decoder(_Counts)


class ServiceReadings:
    """Task that reads the services of the settings into ``records``, which also observe the readings themselves."""

    def __init__(self, settings: Settings, client: RpcClient, records: ServiceRecords) -> None:
        self._client = client
        self._records = records
        self._indexers = revealed(settings.indexer_url, settings.fallback_indexer_url)
        self._provers = used_provers(settings)
        key = settings.prover_api_key
        self._headers = {} if key is None else {"X-API-Key": key.get_secret_value()}

    async def run(self) -> None:
        """Read repeatedly, forever."""
        trace = self._records.trace(INDEXER, PROVER)
        async with aiohttp.ClientSession(trace_configs=[trace]) as observed, aiohttp.ClientSession() as silent:
            while True:
                await self.read(observed, silent)
                await asyncio.sleep(EVERY_S)

    async def read(self, observed: aiohttp.ClientSession, silent: aiohttp.ClientSession) -> None:
        """Read all services once; calls in ``silent`` are not observed."""
        provers = [self._read_prover(url, observed, silent) for url in self._provers]
        await asyncio.gather(self._read_indexers(observed), *provers)

    async def _read_indexers(self, session: aiohttp.ClientSession) -> None:
        indexed: Sequence[Any] = await asyncio.gather(
            *(_within(IndexerClient(session, url, times=_TIMES).slot()) for url in self._indexers)
        )
        slot = await _within(self._client.slot())
        for url, found in zip(self._indexers, indexed, strict=True):
            record = self._records.of(INDEXER, url)
            if record is not None:
                record.lag_slots = None if found is None or slot is None else max(0, slot - found)

    async def _read_prover(self, url: str, observed: aiohttp.ClientSession, silent: aiohttp.ClientSession) -> None:
        record = self._records.of(PROVER, url)
        if record is None:
            return
        await _within(self._get(observed, url, "health"))
        # A prover without a queue has no such page, which is no failure.
        body = await _within(self._get(silent, url, "queue/stats"))
        try:
            record.queued = None if body is None else max(0, decode_untrusted(_COUNTS, body).total_pending)
        except ValueError:
            record.queued = None

    async def _get(self, session: aiohttp.ClientSession, url: str, path: str) -> bytes | None:
        async with session.get(under(url, path), headers=self._headers, allow_redirects=False) as response:
            body = await response.content.read(_MAXIMUM_BYTES)
            return body if response.status == 200 else None


async def _within(call: Any) -> Any:
    """Return the result of a call; None if it fails or takes too long."""
    try:
        async with asyncio.timeout(_LIMIT_S):
            return await call
    except (ForesterError, aiohttp.ClientError, OSError, TimeoutError, ValueError):
        return None
