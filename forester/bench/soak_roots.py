"""Roots of all trees with work, on the chain and from the indexer."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from typing import Any

from localnet_process import Localnet
from solders.pubkey import Pubkey

from forester.chain.latest_root import latest_root
from forester.chain.rpc_client import RpcClient
from forester.chain.tree_metadata import TreeKind
from forester.network_status.state import NetworkState, TreeState

_ABSENT = "1111111111111111111111111111111B"
"""An unused address in base58: its absence is proved against the indexer's root."""

_DEADLINE_S = 30.0


def ask(url: str, method: str, params: Any) -> Any:
    """Return an answer of the indexer; raise RuntimeError for an error."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310
        answer = json.load(response)
    if "error" in answer:
        raise RuntimeError(f"{method}: {answer['error']}")
    return answer["result"]


async def compared_roots(rpc: RpcClient, net: Localnet, state: NetworkState) -> dict[str, tuple[str, str]]:
    """Return (root on chain, root of the indexer) by tree, read until both agree, for a limited time."""
    trees = [tree for tree in state.trees if tree.head.next_index > 1 or any(tree.pending.values())]
    ends = time.monotonic() + _DEADLINE_S
    while True:
        roots = {}
        for tree in trees:
            theirs = await asyncio.to_thread(_indexed, net, tree)
            if theirs is not None:
                roots[f"{tree.kind.label} {str(tree.tree.address)[:8]}"] = (await _on_chain(rpc, tree), theirs)
        if all(ours == theirs for ours, theirs in roots.values()) or time.monotonic() > ends:
            return roots
        await asyncio.sleep(0.5)


async def _on_chain(rpc: RpcClient, tree: TreeState) -> str:
    data = (await rpc.existing_account(tree.tree.address, "a tree")).data
    return str(Pubkey(bytes(latest_root(tree.kind, data))))


def _indexed(net: Localnet, tree: TreeState) -> str | None:
    """Return the indexer's root, by any proof of it; None for a state tree without a leaf to prove."""
    url, address = net.environment["INDEXER_URL"], str(tree.tree.address)
    if tree.kind in (TreeKind.ADDRESS_V1, TreeKind.ADDRESS_V2):
        [proof] = ask(url, "getMultipleNewAddressProofsV2", [{"address": _ABSENT, "tree": address}])["value"]
        return str(proof["root"])
    owner = str(net.keys["user"].pubkey())
    listed = ask(url, "getCompressedAccountsByOwnerV2", {"owner": owner})["value"]["items"]
    leaves = [item for item in listed if item["merkleContext"]["tree"] == address]
    if not leaves:
        return None
    oldest = min(leaves, key=lambda item: item["leafIndex"])
    [proof] = ask(url, "getMultipleCompressedAccountProofs", [oldest["hash"]])["value"]
    return str(proof["root"])
