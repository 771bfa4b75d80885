"""The indexer behind the real programs: recorded transactions, forks, restarts, and a chain it does not understand."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from chains import artefacts_of_recordings, funded, registered_inserter, replay, simulated_artefacts
from indexer_service import FakeNode, FakeProver
from recorded import recorded
from solders.account import Account
from solders.pubkey import Pubkey
from v1_work import BUCKETS, content, waiting

from localnet.base58 import encode
from localnet.chain import addresses
from localnet.chain.network import Network
from localnet.indexer.api.service import Service
from localnet.indexer.database.store import Store, get_meta
from localnet.indexer.database.trees import Tree, all_trees, find_tree
from localnet.indexer.faults import Faults
from localnet.indexer.following.engine import Engine
from localnet.indexer.following.follower import Follower
from localnet.indexer.running import running_indexer
from localnet.users.proofs import SimulatedProofs
from localnet.users.traffic import Traffic


@pytest.fixture
def network() -> Network:
    network = funded(artefacts_of_recordings(), check_blockhash=False)
    epoch = recorded("registry_epoch_txs")
    replay(network, epoch["register_forester"])
    replay(network, epoch["register_forester_epoch"])
    network.warp(500)
    replay(network, epoch["finalize_registration"])
    network.warp(505)
    return network


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(tmp_path / "indexer.sqlite", durable=False)
    yield opened
    opened.close()


@pytest.fixture
def follower(network: Network, store: Store) -> Follower:
    return Follower(network, store)


def tree_of(store: Store, key: bytes) -> Tree:
    with store.read() as connection:
        tree = find_tree(connection, key)
    assert tree is not None
    assert tree.broken is None
    return tree


def contents(store: Store) -> dict[str, list[Any]]:
    """Return all rows of all tables."""
    with store.read() as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        tables = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in names}  # noqa: S608
    return {name: sorted(rows, key=repr) for name, rows in tables.items()}


def cycle(network: Network) -> None:
    """Compress ten times, append, spend them, nullify."""
    replay(network, recorded("compress_sol_tx"))
    replay(network, recorded("batch_append_tx"))
    replay(network, recorded("batch_nullify_tx")["spend"])
    replay(network, recorded("batch_nullify_tx"))


async def test_catch_up__recorded_cycle__follows_the_roots_of_the_programs(
    network: Network, store: Store, follower: Follower
) -> None:
    tree = bytes(addresses.STATE_TREE)
    replay(network, recorded("compress_sol_tx"))
    await follower.catch_up()
    assert tree_of(store, tree).output_next == 10
    replay(network, recorded("batch_append_tx"))
    await follower.catch_up()
    assert tree_of(store, tree).root.hex() == recorded("batch_append_tx")["new_root"]
    replay(network, recorded("batch_nullify_tx")["spend"])
    await follower.catch_up()
    assert tree_of(store, tree).input_next == 10
    replay(network, recorded("batch_nullify_tx"))
    await follower.catch_up()
    followed = tree_of(store, tree)
    assert followed.root.hex() == recorded("batch_nullify_tx")["new_root"]
    assert (followed.sequence, followed.next_index, followed.nullifier_next) == (2, 10, 10)
    assert follower.stopped is None


async def test_catch_up__addresses_queued_by_another_program__are_inserted(
    network: Network, store: Store, follower: Follower
) -> None:
    facts = recorded("batch_update_address_tree_tx")
    inserter = registered_inserter(network)
    for instruction in facts["insert_instructions"]:
        inserter.insert(bytes.fromhex(instruction["data"]), [addresses.ADDRESS_TREE])
    await follower.catch_up()
    assert tree_of(store, bytes(addresses.ADDRESS_TREE)).address_next == 10
    cycle(network)
    replay(network, facts)
    await follower.catch_up()
    assert tree_of(store, bytes(addresses.ADDRESS_TREE)).root.hex() == facts["new_root"]


async def test_catch_up__new_chain__knows_all_trees_of_the_fixtures(
    network: Network, store: Store, follower: Follower
) -> None:
    await follower.catch_up()
    with store.read() as connection:
        kinds = [int(tree.tree_type) for tree in all_trees(connection)]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {1: 2, 2: 1, 3: 5, 4: 2}


async def test_rebuild__after_a_cycle__gives_the_same_rows(network: Network, store: Store, follower: Follower) -> None:
    await follower.catch_up()
    cycle(network)
    await follower.catch_up()
    live = contents(store)
    assert len(live["accounts"]) == 11
    await follower.rebuild()
    assert contents(store) == live


async def test_begin__store_of_this_chain__continues_where_it_was(
    network: Network, store: Store, follower: Follower
) -> None:
    replay(network, recorded("compress_sol_tx"))
    await follower.catch_up()
    rows = contents(store)
    replay(network, recorded("batch_append_tx"))
    again = Follower(network, store)
    await again.catch_up()
    after = contents(store)
    assert after["accounts"] == rows["accounts"]
    assert tree_of(store, bytes(addresses.STATE_TREE)).next_index == 10


async def test_catch_up__fork_to_an_earlier_state__follows_the_other_past(
    network: Network, store: Store, follower: Follower
) -> None:
    before = network.state()
    cycle(network)
    await follower.catch_up()
    assert tree_of(store, bytes(addresses.STATE_TREE)).sequence == 2
    network.restore(before)
    await follower.catch_up()
    assert tree_of(store, bytes(addresses.STATE_TREE)).output_next == 0
    network.advance(2)
    await follower.catch_up()
    assert await Service(store, FakeProver(), FakeNode()).call("getIndexerSlot", None) == network.slot


async def test_audit__account_set_from_outside__breaks_the_tree(
    network: Network, store: Store, follower: Follower
) -> None:
    replay(network, recorded("compress_sol_tx"))
    replay(network, recorded("batch_append_tx"))
    account = network.account(addresses.STATE_TREE)
    assert account is not None
    data = bytearray(account.data)
    data[704 + 32 : 704 + 64] = bytes(32)  # the latest root
    network.set_account(addresses.STATE_TREE, Account(account.lamports, bytes(data), account.owner))
    await follower.catch_up()
    with store.read() as connection:
        tree = find_tree(connection, bytes(addresses.STATE_TREE))
    assert tree is not None
    assert f"tree {encode(tree.key)}: root" in (tree.broken or "")
    assert "11111111111111111111111111111111 on chain" in (tree.broken or "")


TREE_CHAINS, OUTPUT_CHAINS = 47104, 3784
"""Where the hash chains of the first batch begin in accounts of test size.

Source: forester/docs/reference/accounts.md, "V2 tree" and "V2 output queue".
"""


@pytest.mark.parametrize(
    ("kind", "account", "tree", "at"),
    [
        ("leaves", addresses.OUTPUT_QUEUE, addresses.STATE_TREE, OUTPUT_CHAINS),
        ("nullifiers", addresses.STATE_TREE, addresses.STATE_TREE, TREE_CHAINS),
        ("addresses", addresses.ADDRESS_TREE, addresses.ADDRESS_TREE, TREE_CHAINS),
    ],
)
async def test_audit__hash_chain_of_a_queue_differs__breaks_the_tree(
    store: Store, kind: str, account: Pubkey, tree: Pubkey, at: int
) -> None:
    network = Network(simulated_artefacts())
    traffic, follower = Traffic(network, SimulatedProofs(network)), Follower(network, store)

    async def queue_two_of_each() -> None:
        await traffic.run("compress", 2)
        await traffic.run("spend", 2)
        await traffic.run("addresses", 2)

    await queue_two_of_each()
    await follower.catch_up()
    tree_of(store, bytes(tree))
    found = network.account(account)
    assert found is not None
    data = bytearray(found.data)
    data[at + 16 + 31] ^= 1
    network.set_account(account, Account(found.lamports, bytes(data), found.owner))
    await queue_two_of_each()
    await follower.catch_up()
    with store.read() as connection:
        broken = {one.key: one.broken for one in all_trees(connection) if one.broken}
    assert list(broken) == [bytes(tree)]
    assert f"hash chain of {kind} from 0" in broken[bytes(tree)]


@pytest.mark.parametrize(("byte", "value", "place"), [(0, 1, "here, not on chain"), (47, None, "its queue ")])
@pytest.mark.parametrize(
    ("kind", "queue", "tree"),
    [
        ("v1_spend", addresses.NULLIFIER_QUEUE_V1, addresses.STATE_TREE_V1),
        ("v1_addresses", addresses.ADDRESS_QUEUE_V1, addresses.ADDRESS_TREE_V1),
    ],
)
async def test_audit__v1_queue_differs__breaks_the_tree(
    store: Store, kind: str, queue: Pubkey, tree: Pubkey, byte: int, value: int | None, place: str
) -> None:
    network = Network(simulated_artefacts())
    traffic, follower = Traffic(network, SimulatedProofs(network)), Follower(network, store)
    await traffic.run("v1_compress", 2)
    await traffic.run(kind, 1)
    await follower.catch_up()
    tree_of(store, bytes(tree))
    [bucket] = waiting(network, queue)
    data = bytearray(content(network, queue))
    at = BUCKETS + 48 * bucket + byte
    data[at] = data[at] ^ 1 if value is None else value
    account = network.account(queue)
    assert account is not None
    network.set_account(queue, Account(account.lamports, bytes(data), account.owner))
    await traffic.run(kind, 1)
    await follower.catch_up()
    with store.read() as connection:
        broken = {one.key: one.broken for one in all_trees(connection) if one.broken}
    assert list(broken) == [bytes(tree)]
    assert place in broken[bytes(tree)]


async def test_lag__chain_moves_on__indexer_stays_behind(network: Network, store: Store) -> None:
    faults = Faults(lag=3)
    lagging = Follower(network, store, faults)
    replay(network, recorded("compress_sol_tx"))
    network.advance(2)
    await lagging.catch_up()
    assert tree_of(store, bytes(addresses.STATE_TREE)).output_next == 0
    network.advance()
    await lagging.catch_up()
    assert tree_of(store, bytes(addresses.STATE_TREE)).output_next == 10


async def test_running_indexer__chain_moves__serves_the_new_state(network: Network) -> None:
    async with running_indexer(network, node=FakeNode(), prover_url="http://127.0.0.1:1", port=0) as it:
        network.slot_listeners.append(it.follower.wake)
        cycle(network)
        network.advance()
        call = {"jsonrpc": "2.0", "id": "test-account", "method": "getQueueInfo", "params": {}}
        async with aiohttp.ClientSession() as session:
            async with session.post(it.url, json=call) as response:
                result = (await response.json())["result"]
            it.faults.too_many_requests = True
            async with session.post(it.url, json=call) as response:
                assert response.status == 429
    sizes = {(queue["tree"], queue["queueType"]): queue["queueSize"] for queue in result["queues"]}
    assert sizes[str(addresses.STATE_TREE), 5] == 1
    assert sizes[str(addresses.STATE_TREE), 3] == 0
    assert result["slot"] == network.slot


async def test_follower__woken__follows_in_the_background(network: Network, store: Store) -> None:
    follower = Follower(network, store)
    caught_up = asyncio.Event()
    async with follower.running():
        cycle(network)
        follower.wake()
        while not caught_up.is_set():
            await asyncio.sleep(0.01)
            if tree_of(store, bytes(addresses.STATE_TREE)).sequence == 2:
                caught_up.set()


@pytest.mark.parametrize("waits_for_the_chain", [False, True])
async def test_follower__ended_in_the_middle_of_a_write__returns_when_the_write_is_done(
    network: Network, store: Store, monkeypatch: pytest.MonkeyPatch, waits_for_the_chain: bool
) -> None:
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()
    advance = Engine.advance

    def slow(engine: Engine, slot: int) -> None:
        begun.set()
        assert may_end.wait(60)
        advance(engine, slot)
        ended.set()

    follower = Follower(network, store)
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(follower.running())
        monkeypatch.setattr(Engine, "advance", slow)
        network.advance()
        # Either the background or a caller that waits for the chain is applying when the end comes.
        caller = asyncio.create_task(follower.catch_up()) if waits_for_the_chain else None
        if caller is None:
            follower.wake()
        await asyncio.to_thread(begun.wait, 60)
        leaving = asyncio.create_task(stack.pop_all().aclose())
        if caller is not None:
            caller.cancel()
        for _ in range(20):
            await asyncio.sleep(0)
        assert not leaving.done(), "a thread is in the store"
        may_end.set()
        await leaving
        assert ended.is_set()
        if caller is not None:
            with pytest.raises(asyncio.CancelledError):
                await caller
    monkeypatch.undo()
    network.advance()
    await follower.catch_up()
    with store.read() as connection:
        assert get_meta(connection, "slot") < network.slot, "nothing begins after the end"
