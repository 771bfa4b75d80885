"""A local network for foresters: traffic of users, and the remaining work as chain and indexer report it."""

from __future__ import annotations

import asyncio
import base64
import sys
import time
import urllib.error
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from fleet import Member
from localnet_process import Localnet, running_localnet
from solders.pubkey import Pubkey

from forester.chain import batched_accounts, concurrent_accounts
from forester.chain.programs.addresses import PROTOCOL_CONFIG
from forester.chain.registry_accounts import read_protocol_config
from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RpcPool
from forester.chain.tree_metadata import TreeKind
from forester.epoch.phases import ProtocolTimes
from forester.network_status.epochs import protocol_times
from forester.network_status.reader import read_network
from forester.network_status.state import NetworkState, TreeState

FIRST_EPOCH = 3
FIRST_SLOT = 590
"""A little before the registration of FIRST_EPOCH opens, under the rules of the published fixtures."""
INITIAL_TRAFFIC = {"compress": 20, "v1_compress": 12, "addresses": 10}
_ABSENT = "1111111111111111111111111111111B"
"""An address that nobody uses, in base58: its absence is proved against the indexer's root."""
_ROOTS_DEADLINE_S = 30.0
_PHASES_AT = 41 + 3 * 8
"""Where the protocol configuration has the lengths of registration, active and report phase.

Source: forester/docs/reference/accounts.md, "Registry accounts".
"""


def log_line(text: str) -> None:
    """Write one line of progress to standard error."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


@dataclass
class Network:
    """A running network. ``made`` counts the traffic of its users, ``refused`` their failed attempts."""

    net: Localnet
    rpc: RpcClient
    times: ProtocolTimes
    made: Counter[str] = field(default_factory=Counter)
    refused: int = 0

    async def call(self, method: str, *params: Any) -> Any:
        """Call a method of the network's own."""
        return await asyncio.to_thread(self.net.call, method, *params)

    async def seed(self, counts: dict[str, int]) -> None:
        """Make traffic; a refusal, as when a queue is full or the indexer fails, is only counted."""
        try:
            self.made += Counter(await self.call("localnet_seed", counts))
        except (AssertionError, urllib.error.URLError, TimeoutError):
            self.refused += 1

    async def state(self) -> NetworkState:
        """Read the state of all epochs and trees."""
        return await read_network(self.rpc, all_epochs=True)

    async def differing_roots(self) -> dict[str, tuple[str, str]]:
        """Return both roots of trees whose roots on chain and at the indexer differ for 30 s."""
        trees = [tree for tree in (await self.state()).trees if tree.head.next_index > 1 or any(tree.pending.values())]
        ends = time.monotonic() + _ROOTS_DEADLINE_S
        while True:
            different = {}
            for tree in trees:
                ours, theirs = await self.root(tree), await asyncio.to_thread(self._indexed_root, tree)
                if theirs not in (None, ours):
                    different[f"{tree.kind.label} {str(tree.tree.address)[:8]}"] = (ours, str(theirs))
            if not different or time.monotonic() > ends:
                return different
            await asyncio.sleep(0.5)

    async def root(self, tree: TreeState) -> str:
        """Return the root of a tree on chain, in base58."""
        data = (await self.rpc.existing_account(tree.tree.address, "a tree")).data
        if tree.kind.is_batched:
            root = batched_accounts.latest_root(batched_accounts.decode_batched_tree(data), data)
        else:
            root = concurrent_accounts.latest_root(concurrent_accounts.decode_tree(data), data)
        return str(Pubkey(bytes(root)))

    def _indexed_root(self, tree: TreeState) -> str | None:
        """Return the indexer's root, by any proof of it; None for a state tree without a leaf to prove."""
        address = str(tree.tree.address)
        if tree.kind in (TreeKind.ADDRESS_V1, TreeKind.ADDRESS_V2):
            [proof] = self.net.indexed("getMultipleNewAddressProofsV2", [{"address": _ABSENT, "tree": address}])
            return str(proof["root"])
        owner = str(self.net.keys["user"].pubkey())
        listed = self.net.indexed("getCompressedAccountsByOwnerV2", {"owner": owner})["items"]
        leaves = [item for item in listed if item["merkleContext"]["tree"] == address]
        if not leaves:
            return None
        oldest = min(leaves, key=lambda item: item["leafIndex"])
        [proof] = self.net.indexed("getMultipleCompressedAccountProofs", [oldest["hash"]])
        return str(proof["root"])


@asynccontextmanager
async def running_network(*words: str, phases: Sequence[int] = ()) -> AsyncIterator[Network]:
    """Run `localnet up`; ``phases`` replace the published slots of the registration, active and report phase."""
    with running_localnet(*words) as net:
        async with RpcPool([net.url]) as pool:
            rpc = RpcClient(pool)
            if phases:
                lengths = b"".join(length.to_bytes(8, "little") for length in phases)
                patch = {"offset": _PHASES_AT, "data": base64.b64encode(lengths).decode()}
                net.call("localnet_patchAccount", str(PROTOCOL_CONFIG), patch)
            yield Network(net, rpc, protocol_times((await read_protocol_config(rpc)).config))


def batch_of(tree: TreeState) -> int:
    """Return the size of the tree's batches; 1 for V1, whose elements are processed one by one."""
    return tree.batched.queue.zkp_batch_size if tree.batched is not None else 1


def waiting(state: NetworkState) -> dict[str, int]:
    """Return the numbers of waiting elements that fill a batch, by tree and queue."""
    return {
        f"{tree.kind.label} {str(tree.tree.address)[:8]} {label}": count
        for tree in state.trees
        for label, count in tree.pending.items()
        if count >= batch_of(tree)
    }


def has_reported(state: NetworkState, epoch: int, member: Member) -> bool | None:
    """Return whether a forester reported its work of an epoch; None if it was not registered."""
    ours = [item for item in state.registrations.get(epoch, ()) if item.authority == member.payer.pubkey()]
    return any(item.has_reported_work for item in ours) if ours else None
