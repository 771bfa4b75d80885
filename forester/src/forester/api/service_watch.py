"""Periodic checks of indexer and provers while a forester runs, reported to its health board.

A round that needs them waits for them, so nothing else reports early that they do not answer
(forester/docs/reference/behaviour.md, "Service checks").
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from forester.chain.rpc_client import RpcClient
from forester.checks.result import CheckFailed
from forester.checks.services import check_indexer_at, check_prover, used_provers
from forester.errors import EndpointError, EndpointTimedOut, ForesterError
from forester.indexer.failures import IndexerRefused
from forester.observability.health import HealthBoard, Severity
from forester.settings import Settings, revealed

EVERY_S = 60.0
LIMIT_S = 20.0
_SLOT_S, _INDEXER_S = 4.0, 7.0
FAILURES = 2
"""Consecutive failures before a report: a service may restart."""

ServiceCheck = Callable[[], Awaitable[object]]
"""A check, which raises ForesterError if it fails."""


class ServiceWatch:
    """Checks of services, whose names are the conditions of the board; each takes ``limit_s`` at most."""

    def __init__(
        self,
        board: HealthBoard,
        checks: Mapping[str, ServiceCheck],
        *,
        every_s: float = EVERY_S,
        limit_s: float = LIMIT_S,
    ) -> None:
        self._board = board
        self._checks = checks
        self._every_s = every_s
        self._limit_s = limit_s
        self._failures = dict.fromkeys(checks, 0)

    async def run(self) -> None:
        """Check repeatedly, until cancelled; the first time after a while."""
        while True:
            await asyncio.sleep(self._every_s)
            await self.check()

    async def check(self) -> None:
        """Check all services once, concurrently."""
        reasons = await asyncio.gather(*map(self._reason, self._checks.values()))
        for name, reason in zip(self._checks, reasons, strict=True):
            self._failures[name] = 0 if reason is None else self._failures[name] + 1
            if reason is None:
                self._board.clear(name)
            elif self._failures[name] >= FAILURES:
                self._board.report(name, f"{name}: {reason}", severity=Severity.ERROR)

    async def _reason(self, check: ServiceCheck) -> str | None:
        try:
            async with asyncio.timeout(self._limit_s):
                await check()
        except TimeoutError:
            return f"no answer within {self._limit_s:g} s"
        except ForesterError as error:
            return error.detail
        return None


def service_checks(settings: Settings, client: RpcClient) -> dict[str, ServiceCheck]:
    """Return the checks for the settings: the indexer, and the provers unless only V1 trees are processed."""
    checks: dict[str, ServiceCheck] = {}
    if indexers := revealed(settings.indexer_url, settings.fallback_indexer_url):
        leaves_late = settings.processor_mode == "v2"
        checks["indexer"] = partial(_check_indexers, client, indexers, leaves_late=leaves_late)
    if provers := used_provers(settings):
        key = settings.prover_api_key
        checks["prover"] = partial(check_prover, provers, None if key is None else key.get_secret_value())
    return checks


async def _check_indexers(client: RpcClient, urls: list[str], *, leaves_late: bool) -> None:
    """Check the indexer in use: the fallback if the first failed over, because it did not answer or refused.

    Only rounds of V2 trees fail over from a late indexer, as they wait for its slot; so the fallback does not excuse
    it if other trees exist. A node that reports no slot is no fault of the indexers, and reported elsewhere.
    """
    try:
        async with asyncio.timeout(_SLOT_S):
            slot = await client.slot()
    except (EndpointError, TimeoutError):
        return
    failures: list[ForesterError] = []
    for url in urls:
        try:
            async with asyncio.timeout(_INDEXER_S):
                await check_indexer_at(slot, url)
        except TimeoutError:
            failures.append(EndpointTimedOut(f"the indexer did not answer within {_INDEXER_S:g} s"))
        except ForesterError as error:
            failures.append(error)
            if _is_late(error) and not leaves_late:
                break
        else:
            return
    raise failures[0]


def _is_late(error: ForesterError) -> bool:
    return isinstance(error, CheckFailed) or (isinstance(error, IndexerRefused) and error.behind)
