"""Reader of the state of all trees and epochs, with few and small reads."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TypeVar

from solders.pubkey import Pubkey

from forester.chain import batched_accounts, concurrent_accounts
from forester.chain.programs.addresses import REGISTRY, epoch_address
from forester.chain.programs.coder import account_discriminator
from forester.chain.registry_accounts import (
    ForesterEpochAccount,
    decode_epoch,
    decode_forester_epoch,
    read_protocol_config,
)
from forester.chain.rpc_client import Account, RpcClient
from forester.chain.tree_metadata import TreeKind, TreeMetadata, decode_tree_metadata
from forester.chain.trees import is_served, read_tree_accounts, require_few
from forester.errors import AccountMissing, MalformedAccount
from forester.network_status.epochs import EpochView, protocol_times
from forester.network_status.queue_counts import QueueCount, QueueCounts
from forester.network_status.state import NetworkState, TreeState
from shared.process.logs import get_logger
from shared.process.rate_limits import LogThrottle

_log = get_logger(__name__)
_T = TypeVar("_T")
_malformed = LogThrottle(600.0)

_EPOCH_OFFSET = 48
"""Offset of the epoch in a ForesterEpochPda."""

_HEAD_BYTES = max(batched_accounts.TREE_HEAD_BYTES, concurrent_accounts.TREE_HEAD_BYTES)
"""Bytes that contain the head of a tree of any kind."""


async def read_network(
    client: RpcClient,
    *,
    all_epochs: bool = False,
    owners: Iterable[Pubkey] = (),
    counts: QueueCounts | None = None,
) -> NetworkState:
    """Read everything; registrations of the active and the registering epoch, or of all epochs.

    Balances are those of registered foresters and of ``owners``. ``counts``, kept between calls, bounds how many V1
    queues are read. Raises EndpointError when a part cannot be read, AccountMissing and MalformedAccount: a partial
    state would look like a healthy one. Only trees that are malformed are skipped, with a warning: anybody may create
    one.
    """
    protocol, slot, trees = await asyncio.gather(
        read_protocol_config(client),
        client.slot(),
        _trees(client, counts or QueueCounts()),
    )
    view = EpochView.at(protocol_times(protocol.config), slot)
    epochs = sorted({view.registering, view.registering if view.active is None else view.active})
    registrations = await _registrations(client, None if all_epochs else epochs)
    weights, balances = await asyncio.gather(
        _weights(client, sorted({*epochs, *registrations})),
        _balances(client, {*owners, *(item.authority for epoch in epochs for item in registrations.get(epoch, ()))}),
    )
    return NetworkState(slot, protocol, registrations, weights, balances, trees)


async def _trees(client: RpcClient, counts: QueueCounts) -> tuple[TreeState, ...]:
    accounts = await read_tree_accounts(client, _HEAD_BYTES)
    decoded = [
        (_unless_malformed(item.address, partial(decode_tree_metadata, item.address, item.data)), item.data)
        for item in accounts
    ]
    found = [(tree, data) for tree, data in decoded if tree is not None and is_served(tree)]
    require_few(found, "use another node")
    outputs = [tree.queue for tree, _ in found if tree.kind is TreeKind.STATE_V2]
    heads, counted = await asyncio.gather(
        client.accounts(outputs, length=batched_accounts.QUEUE_HEAD_BYTES),
        counts.read(client, [tree.queue for tree, _ in found if not tree.kind.is_batched]),
    )
    queues = {address: head for address, head in zip(outputs, heads, strict=True) if head is not None}
    states = [
        _unless_malformed(tree.address, partial(_tree_state, tree, data, queues, counted)) for tree, data in found
    ]
    present = [state for state in states if state is not None]
    return tuple(sorted(present, key=lambda state: (state.kind.value, str(state.tree.address))))


def _unless_malformed(tree: Pubkey, decode: Callable[[], _T]) -> _T | None:
    """Return a decoded part of a tree, None if it is malformed, which is logged from time to time."""
    try:
        return decode()
    except MalformedAccount as error:
        if times := _malformed.due():
            _log.warning("tree_skipped", tree=str(tree), error=error.detail, times=times)
        return None


def _tree_state(
    tree: TreeMetadata, data: bytes, queues: Mapping[Pubkey, Account], counted: Mapping[Pubkey, QueueCount]
) -> TreeState:
    if tree.kind is TreeKind.ADDRESS_V2:
        return TreeState(tree, batched=batched_accounts.decode_batched_tree(data))
    if tree.kind is not TreeKind.STATE_V2:
        count = counted.get(tree.queue)
        if count is None:
            raise MalformedAccount(f"the account {tree.queue} is not the V1 queue of the tree")
        head = concurrent_accounts.decode_tree(data)
        return TreeState(tree, concurrent=head, pending_cells=count.pending, cells=count.cells)
    if tree.queue not in queues:
        raise AccountMissing(f"the queue {tree.queue} of tree {tree.address} does not exist")
    output = batched_accounts.decode_output_queue(queues[tree.queue].data)
    return TreeState(tree, batched=batched_accounts.decode_batched_tree(data), output_queue=output)


async def _registrations(
    client: RpcClient, epochs: Iterable[int] | None
) -> dict[int, tuple[ForesterEpochAccount, ...]]:
    """Return the registrations by epoch, filtered by the node: their number grows with every epoch."""
    own = (0, account_discriminator("ForesterEpochPda"))
    if epochs is None:
        parts = [await client.program_accounts(REGISTRY, memcmp=[own], maximum=None)]
    else:
        wanted = [[own, (_EPOCH_OFFSET, epoch.to_bytes(8, "little"))] for epoch in epochs]
        parts = list(await asyncio.gather(*(client.program_accounts(REGISTRY, memcmp=item) for item in wanted)))
    found: dict[int, list[ForesterEpochAccount]] = {}
    for account in (item for part in parts for item in part):
        registration = decode_forester_epoch(account.data)
        found.setdefault(registration.epoch, []).append(registration)
    return {
        epoch: tuple(sorted(items, key=lambda item: (item.forester_index, str(item.authority))))
        for epoch, items in sorted(found.items())
    }


async def _weights(client: RpcClient, epochs: list[int]) -> dict[int, int]:
    accounts = await client.accounts([epoch_address(epoch) for epoch in epochs])
    decoded = (decode_epoch(account.data) for account in accounts if account is not None)
    return {epoch.epoch: epoch.registered_weight for epoch in decoded}


async def _balances(client: RpcClient, authorities: set[Pubkey]) -> dict[Pubkey, int]:
    ordered = sorted(authorities, key=str)
    accounts = await client.accounts(ordered, length=0)
    return {
        address: 0 if account is None else account.lamports for address, account in zip(ordered, accounts, strict=True)
    }
