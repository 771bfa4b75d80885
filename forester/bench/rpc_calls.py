"""Calls that a forester makes on a local network, counted by a proxy in front of node, indexer and prover."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from fault_proxy import FaultProxy
from fault_runs import staged
from network import Network
from proof_log import ProofLog

SLOT_MS = 400
LIGHT_SLOT_S = 10 * SLOT_MS / 1000
FIRST, ACTIVE = 640, 700
"""Late in the registration phase of epoch 3 (24 s before its end), and its active phase, as localnet has them."""
SEED = {"compress": 25, "spend": 12, "addresses": 22}
ACTIVE_S = 90.0

Proxies = dict[str, FaultProxy]


async def count_calls(seconds: float, folder: Path) -> list[dict[str, Any]]:
    """Return the rates of an idle and of a busy forester, ``seconds`` each, in the active phase of one epoch."""
    async with staged(folder, ProofLog(), {"WS_RPC_URL": ""}, slot_ms=SLOT_MS, first_slot=FIRST) as stage:
        network, proxies = stage.network, stage.proxies
        await _active(network, proxies)
        idle = await _rates("idle", network, proxies, seconds)
        await network.seed(SEED)
        return [idle, await _rates("busy", network, proxies, seconds)]


async def _active(network: Network, proxies: Proxies) -> None:
    """Wait until the active phase has begun and the registration is final."""
    async with asyncio.timeout(ACTIVE_S):
        while await network.rpc.slot() < ACTIVE or proxies["rpc"].methods(0, time.time())["sendTransaction"] < 2:  # noqa: ASYNC110 - another process sends
            await asyncio.sleep(LIGHT_SLOT_S / 10)
        await asyncio.sleep(LIGHT_SLOT_S)


async def _rates(name: str, network: Network, proxies: Proxies, seconds: float) -> dict[str, Any]:
    """Return calls per light slot, and those of the node by method, the most frequent first."""
    leaves, began = await _leaves(network), time.time()
    await asyncio.sleep(seconds)
    ended = time.time()
    slots = (ended - began) / LIGHT_SLOT_S
    rates = {f"{service}_calls": proxy.calls(began, ended) / slots for service, proxy in proxies.items()}
    methods = {method: count / slots for method, count in proxies["rpc"].methods(began, ended).most_common(5)}
    made = await _leaves(network) - leaves
    return {"forester": name, "light_slots": slots, "new_leaves": made, **rates, "most_frequent": methods}


async def _leaves(network: Network) -> int:
    """Return the number of leaves of all V2 trees."""
    return sum(item.head.next_index for item in (await network.state()).trees if item.kind.is_batched)
