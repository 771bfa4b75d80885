"""``forester check``: checks that everything the forester needs exists, answers, and fits together."""

from typing import Any

import click
from pydantic import SecretStr

from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RpcPool
from forester.checks.admission import check_admission
from forester.checks.balance import check_balance
from forester.checks.host import check_host
from forester.checks.journal_path import check_journal
from forester.checks.node import check_node, check_protocol, check_same_cluster
from forester.checks.result import CONFIGURATION, CheckFailed
from forester.checks.services import check_indexer, check_prover, check_websocket, prover_urls
from forester.checks.trees import check_trees
from forester.cli.checking import RETRY, Check, Connections, limit_option, run_checks
from forester.cli.options import min_balance_option, output_option, setting_options
from forester.cli.start_checks import require_for_start
from forester.daemon.services import journal_path
from forester.daemon.trees.discovery import TreeFilter, find_trees
from forester.environment import variables
from forester.settings import given, load_settings
from forester.settings.sources import unknown_variables
from shared.command_line import Command

_PROVERS = ("prover_url", "prover_append_url", "prover_update_url", "prover_address_append_url")
_OPTIONS = (
    *("rpc_url", "ws_rpc_url", "fallback_rpc_url", "rpc_rate_limit"),
    *("indexer_url", "fallback_indexer_url", *_PROVERS, "prover_api_key"),
    *("payer", "derivation", "processor_mode", "tree_ids", "group_authority", "journal_path"),
)


@click.command(
    cls=Command,
    examples=("forester check", "forester check --output json | jq '.checks[] | select(.success | not)'"),
    epilog="Exit codes: 0 all checks passed, 1 a check failed, 2 wrong usage.",
)
@setting_options(*_OPTIONS)
@min_balance_option
@limit_option
@output_option
def check(min_balance: float, limit_s: float, output: str, **flags: Any) -> None:
    """Check settings, machine, nodes, protocol, payer, admission, trees, indexers, provers, journal; send nothing."""
    run_checks(_checks(flags, min_balance), limit_s=limit_s, output=output, skip_repeated=True)


def _checks(flags: dict[str, Any], min_balance: float) -> dict[str, Check]:
    connections = Connections(flags)

    async def settings_check() -> str:
        require_for_start(load_settings(flags).settings)
        unknown = unknown_variables(variables())
        if unknown:
            raise CheckFailed("; ".join(unknown), code=CONFIGURATION)
        return "all valid; forester config show prints them"

    async def node_check() -> str:
        async with connections.open() as (client, _):
            return await check_node(client)

    async def fallback_check() -> str:
        async with connections.open() as (client, settings):
            if settings.fallback_rpc_url is None:
                return "no fallback node is set"
            url, reads = settings.fallback_rpc_url.get_secret_value(), connections.limit(settings)
            async with RpcPool([url], retry=RETRY, reads=reads) as pool:
                return await check_same_cluster(client, RpcClient(pool))

    async def protocol_check() -> str:
        async with connections.open() as (client, _):
            return await check_protocol(client)

    async def balance_check() -> str:
        async with connections.open("payer") as (client, settings):
            return await check_balance(client, given(settings.payer).pubkey, min_balance)

    async def admission_check() -> str:
        async with connections.open("derivation", "payer") as (client, settings):
            return await check_admission(client, given(settings.derivation), given(settings.payer).pubkey)

    async def trees_check() -> str:
        async with connections.open(optional=("processor_mode", "tree_ids", "group_authority")) as (client, settings):
            return check_trees(await find_trees(client, TreeFilter.from_settings(settings)), settings.tree_ids)

    async def indexer_check() -> str:
        async with connections.open("indexer_url") as (client, settings):
            return await check_indexer(client, given(settings.indexer_url).get_secret_value())

    async def fallback_indexer_check() -> str:
        async with connections.open(optional=("fallback_indexer_url",)) as (client, settings):
            if settings.fallback_indexer_url is None:
                return "no fallback indexer is set"
            return await check_indexer(client, settings.fallback_indexer_url.get_secret_value())

    async def websocket_check() -> str:
        url = load_settings(flags, only=("ws_rpc_url",)).settings.ws_rpc_url
        return "not set; slots and queues are polled" if url is None else await check_websocket(url.get_secret_value())

    async def journal_check() -> str:
        return check_journal(journal_path(load_settings(flags, only=("journal_path",)).settings))

    async def host_check() -> str:
        return check_host(journal_path(load_settings(flags, only=("journal_path",)).settings))

    async def prover_check() -> str:
        settings = load_settings(flags, only=(*_PROVERS, "prover_api_key", "processor_mode")).settings
        if settings.processor_mode == "v1":
            return "not queried; V1 trees need none"
        return await check_prover(prover_urls(settings), _text(settings.prover_api_key))

    return {
        "settings": settings_check,
        "host": host_check,
        "rpc": node_check,
        "websocket": websocket_check,
        "fallback_rpc": fallback_check,
        "protocol": protocol_check,
        "balance": balance_check,
        "admission": admission_check,
        "trees": trees_check,
        "indexer": indexer_check,
        "fallback_indexer": fallback_indexer_check,
        "prover": prover_check,
        "journal": journal_check,
    }


def _text(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()
