"""Checks of the RPC nodes and their cluster."""

from forester.chain.clusters import CLUSTERS
from forester.chain.registry_accounts import read_protocol_config
from forester.chain.rpc_client import RpcClient
from forester.checks.result import CheckFailed
from forester.network_status.epochs import protocol_times


async def check_node(client: RpcClient) -> str:
    """Return cluster and slot; the node must report itself healthy."""
    await client.health()
    genesis = await client.genesis_hash()
    return f"{CLUSTERS.get(genesis, f'cluster with genesis {genesis}')} at slot {await client.slot()}"


async def check_same_cluster(first: RpcClient, second: RpcClient) -> str:
    """Return that two nodes serve the same cluster; CheckFailed if they do not."""
    ours, theirs = await first.genesis_hash(), await second.genesis_hash()
    if ours != theirs:
        raise CheckFailed(f"the fallback node belongs to another cluster (genesis {theirs}, not {ours})")
    return await check_node(second)


async def check_protocol(client: RpcClient) -> str:
    """Return the lengths of epochs; the registry must exist and be configured."""
    times = protocol_times((await read_protocol_config(client)).config)
    return f"active phases of {times.active_phase_length} slots, light slots of {times.slot_length}"
