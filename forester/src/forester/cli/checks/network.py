"""Checks of nodes, chain, indexers and provers, each with the settings and connections that it needs."""

from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RpcPool
from forester.chain.trees import TreeFilter, find_trees
from forester.checks.admission import check_admission
from forester.checks.compressible import check_compressible
from forester.checks.node import check_node, check_protocol, check_same_cluster
from forester.checks.services import check_indexer, check_prover, check_websocket, prover_urls
from forester.checks.trees import check_trees
from forester.cli.checks.run import RETRY, Check, Connections, balance_check
from forester.settings import given

PROVERS = ("prover_url", "prover_append_url", "prover_update_url", "prover_address_append_url")


def network_checks(connections: Connections, min_balance: float) -> dict[str, Check]:
    """Return the checks by name; those of services that are optional pass where the settings name none."""

    async def node_check() -> str:
        async with connections.open(with_fallback=False) as (client, _):
            return await check_node(client)

    async def websocket_check() -> str:
        url = connections.settings("ws_rpc_url").ws_rpc_url
        return "not set; slots and queues are polled" if url is None else await check_websocket(url.get_secret_value())

    async def fallback_check() -> str:
        async with connections.open(with_fallback=False) as (client, settings):
            if settings.fallback_rpc_url is None:
                return "no fallback node is set"
            url, reads = settings.fallback_rpc_url.get_secret_value(), connections.limit(settings)
            async with RpcPool([url], retry=RETRY, reads=reads) as pool:
                return await check_same_cluster(client, RpcClient(pool))

    async def protocol_check() -> str:
        async with connections.open() as (client, _):
            return await check_protocol(client)

    async def admission_check() -> str:
        async with connections.open("derivation", "payer") as (client, settings):
            return await check_admission(client, given(settings.derivation), given(settings.payer).pubkey)

    async def trees_check() -> str:
        async with connections.open(optional=("processor_mode", "tree_ids", "group_authority")) as (client, settings):
            return check_trees(await find_trees(client, TreeFilter.from_settings(settings)), settings.tree_ids)

    async def compressible_check() -> str:
        if not connections.settings("enable_compressible", "light_pda_programs").compresses_accounts:
            return "not enabled"
        async with connections.open() as (client, _):
            return await check_compressible(client)

    async def indexer_check() -> str:
        async with connections.open("indexer_url") as (client, settings):
            return await check_indexer(client, given(settings.indexer_url).get_secret_value())

    async def fallback_indexer_check() -> str:
        async with connections.open(optional=("fallback_indexer_url",)) as (client, settings):
            if settings.fallback_indexer_url is None:
                return "no fallback indexer is set"
            return await check_indexer(client, settings.fallback_indexer_url.get_secret_value())

    async def prover_check() -> str:
        settings = connections.settings(*PROVERS, "prover_api_key", "processor_mode")
        if settings.processor_mode == "v1":
            return "not queried; V1 trees need none"
        key = settings.prover_api_key
        return await check_prover(prover_urls(settings), None if key is None else key.get_secret_value())

    return {
        "rpc": node_check,
        "websocket": websocket_check,
        "fallback_rpc": fallback_check,
        "protocol": protocol_check,
        "balance": balance_check(connections, min_balance),
        "admission": admission_check,
        "trees": trees_check,
        "compressible": compressible_check,
        "indexer": indexer_check,
        "fallback_indexer": fallback_indexer_check,
        "prover": prover_check,
    }
