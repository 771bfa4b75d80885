"""Checks of ``forester start`` before it begins: a wrong setting is reported at once, with its remedy."""

import asyncio
from collections.abc import Awaitable, Callable

from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RpcPool, read_limit
from forester.checks.admission import check_admission
from forester.checks.balance import check_balance
from forester.checks.node import check_node, check_protocol, check_same_cluster
from forester.checks.result import CONFIGURATION, FAILED, NOT_REGISTERED, CheckFailed, CheckResult, run_check
from forester.checks.services import check_indexer, check_prover, check_websocket, prover_urls
from forester.checks.trees import check_trees
from forester.cli.checking import RETRY
from forester.daemon.trees.discovery import TreeFilter, find_trees
from forester.errors import SettingsInvalid
from forester.network_status.fitness import MINIMUM_BALANCE_SOL
from forester.settings import Settings, given, require
from shared.rate_limits import TokenBucket

LIMIT_S = 20.0
"""Maximum seconds of one check; they run concurrently."""

_NEEDED = ("rpc_url", "indexer_url", "payer", "derivation")
_HOPELESS = ("fallback_rpc", "protocol", "admission", "chosen_trees")
_OF_FINDINGS = (FAILED, CONFIGURATION, NOT_REGISTERED)
"""Checks whose findings no wait resolves, and the codes of findings; others are of services that did not answer."""


def is_hopeless(result: CheckResult) -> bool:
    """Return whether a forester could never work with what a check found."""
    return not result.success and result.name in _HOPELESS and result.code in _OF_FINDINGS


def require_for_start(settings: Settings) -> None:
    """Raise SettingsInvalid for settings without which a forester cannot work."""
    require(settings, *_NEEDED)
    if settings.processor_mode != "v1":
        prover_urls(settings)
    if settings.compresses_accounts and settings.ws_rpc_url is None:
        option = "--enable-compressible" if settings.enable_compressible else "--light-pda-program"
        raise SettingsInvalid(
            f"missing ws_rpc_url: {option} needs a subscription to accounts; pass --ws-rpc-url or set WS_RPC_URL"
        )


async def run_start_checks(settings: Settings) -> list[CheckResult]:
    """Run all checks that apply to the settings; nothing is sent, and no failure is raised."""
    reads = read_limit(settings)
    async with RpcPool.from_settings(settings, retry=RETRY, reads=reads) as pool:
        checks = _checks(settings, RpcClient(pool), reads)
        return list(await asyncio.gather(*(run_check(name, check, LIMIT_S) for name, check in checks.items())))


def _checks(
    settings: Settings, client: RpcClient, reads: TokenBucket | None
) -> dict[str, Callable[[], Awaitable[str]]]:
    payer, derivation = given(settings.payer).pubkey, given(settings.derivation)
    checks: dict[str, Callable[[], Awaitable[str]]] = {
        "rpc": lambda: check_node(client),
        "protocol": lambda: check_protocol(client),
        "balance": lambda: check_balance(client, payer, MINIMUM_BALANCE_SOL),
        "admission": lambda: check_admission(client, derivation, payer),
        "trees": lambda: _trees(client, settings),
        "indexer": lambda: check_indexer(client, given(settings.indexer_url).get_secret_value()),
    }
    if settings.fallback_rpc_url is not None:
        second = settings.fallback_rpc_url.get_secret_value()
        checks["fallback_rpc"] = lambda: _fallback(client, second, reads)
    if settings.tree_ids:
        checks["chosen_trees"] = lambda: _chosen(client, settings)
    if settings.processor_mode != "v1":
        key = settings.prover_api_key.get_secret_value() if settings.prover_api_key is not None else None
        checks["prover"] = lambda: check_prover(prover_urls(settings), key)
    if settings.ws_rpc_url is not None:
        checks["websocket"] = lambda: check_websocket(given(settings.ws_rpc_url).get_secret_value())
    return checks


async def _fallback(client: RpcClient, url: str, reads: TokenBucket | None) -> str:
    async with RpcPool([url], retry=RETRY, reads=reads) as pool:
        return await check_same_cluster(client, RpcClient(pool))


async def _trees(client: RpcClient, settings: Settings) -> str:
    return check_trees(await find_trees(client, TreeFilter.from_settings(settings)), settings.tree_ids)


async def _chosen(client: RpcClient, settings: Settings) -> str:
    found = await find_trees(client, TreeFilter.from_settings(settings))
    if not found:
        raise CheckFailed("none of the trees of --tree-id exists, or is of --group-authority and --processor-mode")
    return f"{len(found)} of {len(settings.tree_ids)}"
