"""Full trees of all kinds get their successors from the published programs; restarts between the steps."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from localnet_forester import EPOCH, Kit, forester_on
from localnet_process import Localnet, running_localnet
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import CreateAccountParams, create_account

from forester.chain.programs import registry
from forester.chain.programs.addresses import ACCOUNT_COMPRESSION, LIGHT_SYSTEM, PROTOCOL_CONFIG
from forester.chain.rpc_client import RpcClient
from forester.chain.tree_metadata import TreeKind, TreeMetadata
from forester.errors import ForesterError, TransactionRefused
from forester.journal.rollovers import BegunRollover, RolloverStore
from forester.rollover import rollovers
from forester.rollover.failures import RolloverNotFunded, RolloverTooExpensive
from forester.rollover.readiness import PAID_BY_TREE, Rents, lacking_lamports
from forester.rollover.rollovers import Rollovers
from forester.rollover.successor import new_keys, rollover_instruction
from forester.transactions.confirm import Fate
from forester.transactions.spending import BudgetExceeded

TREES = {
    TreeKind.STATE_V1: Pubkey.from_string("smt1NamzXdq4AMqS2fS2F1i5KTYPZRhoHgWx38d8WsT"),
    TreeKind.ADDRESS_V1: Pubkey.from_string("amt1Ayt45jfbdw5YSo7iz6WZxUmnZsQTYXy82hVwyC2"),
    TreeKind.STATE_V2: Pubkey.from_string("bmt1LryLZUMmF7ZtqESaw7wifBXLfXHQYoE4GAmrahU"),
    TreeKind.ADDRESS_V2: Pubkey.from_string("amt2kaJA14v3urZbZvnc5v2np8jqvc4Z8zDep5wbtzx"),
}
HEIGHTS = {TreeKind.STATE_V1: 26, TreeKind.ADDRESS_V1: 26, TreeKind.STATE_V2: 32, TreeKind.ADDRESS_V2: 40}
NEXT_INDEX = "at240"
ADDRESS_NETWORK_FEE = "at145"
CPI_CONTEXT_BYTES = 20_488
"""As the protocol configuration of the network wants it."""


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Localnet]:
    """Every test rolls another tree over, so they may share a network, in which all is ready for it."""
    with running_localnet() as localnet:
        localnet.call("requestAirdrop", str(localnet.keys["forester"].pubkey()), 1000 * 10**9)

        async def begin() -> None:
            async with forester_on(localnet, tmp_path_factory.mktemp("registration")) as kit:
                await kit.register()

        asyncio.run(begin())
        yield localnet


def made(kit: Kit) -> Rollovers:
    """Return the state of a forester after a restart: nothing but the journal."""
    return Rollovers(kit.rpc, kit.sender, RolloverStore(kit.journal), derivation=kit.pubkey)


async def look(kit: Kit, tree: TreeMetadata, with_: Rollovers | None = None) -> ForesterError | None:
    return await kit.moving((with_ or made(kit)).roll_over_if_full(tree, kit.window))


async def fill(kit: Kit, kind: TreeKind) -> TreeMetadata:
    """Bring a tree to its threshold; one element before it is not full."""
    tree = await kit.tree(TREES[kind])
    if kind is TreeKind.ADDRESS_V2:
        await kit.patch(PROTOCOL_CONFIG, **{ADDRESS_NETWORK_FEE: 7000})
    threshold = (tree.metadata.rollover_threshold << HEIGHTS[kind]) // 100
    await kit.patch(tree.address, **{NEXT_INDEX: threshold - 1})
    assert await look(kit, tree) is None
    assert await RolloverStore(kit.journal).trees() == []
    await kit.patch(tree.address, **{NEXT_INDEX: threshold})
    return tree


async def fund(kit: Kit, tree: TreeMetadata, rents: Rents, *, short: int = 0) -> None:
    """Give the account that pays what it needs, but ``short`` lamports."""
    purse = tree.address if tree.kind in PAID_BY_TREE else tree.queue
    lacking = lacking_lamports(tree.kind, rents, await kit.rpc.balance(purse))
    await kit.patch(purse, lacking - short)


async def rents_of(kit: Kit, tree: TreeMetadata, additional: int | None = None) -> Rents:
    queue = await kit.rpc.minimum_balance(len(await kit.data(tree.queue))) if tree.queue != tree.address else 0
    beside = await kit.rpc.minimum_balance(additional) if additional is not None else 0
    return Rents(await kit.rpc.minimum_balance(len(await kit.data(tree.address))), queue, additional=beside)


async def successor(kit: Kit, tree: TreeMetadata) -> Pubkey | None:
    metadata = (await kit.tree(tree.address)).metadata
    return metadata.successor if metadata.is_rolled_over else None


async def test_address_tree_v1__one_lamport_short_and_then_funded__is_replaced_and_the_payer_gets_the_rent_back(
    net: Localnet, tmp_path: Path
) -> None:
    async with forester_on(net, tmp_path) as kit:
        tree = await fill(kit, TreeKind.ADDRESS_V1)
        rents = await rents_of(kit, tree)
        before = await kit.rpc.balance(kit.pubkey)
        await fund(kit, tree, rents, short=1)
        failure = await look(kit, tree)
        assert isinstance(failure, RolloverNotFunded)
        assert str(tree.queue) in failure.detail
        assert "lacks 0.000000001 SOL" in failure.detail
        assert await kit.rpc.balance(kit.pubkey) == before, "nothing was sent"
        await fund(kit, tree, rents)
        assert await look(kit, tree) is None
        new = await successor(kit, tree)
        assert new is not None
        after = await kit.tree(new)
        assert (after.kind, after.metadata.is_rolled_over) == (TreeKind.ADDRESS_V1, False)
        assert before - await kit.rpc.balance(kit.pubkey) == 3 * 5000, "the fee of three signatures"
        assert await RolloverStore(kit.journal).trees() == []
        assert await look(kit, tree) is None


async def test_state_tree_v1__restart_after_its_accounts_were_created__continues_with_them(
    net: Localnet, tmp_path: Path
) -> None:
    async with forester_on(net, tmp_path) as kit:
        tree = await fill(kit, TreeKind.STATE_V1)
        await fund(kit, tree, await rents_of(kit, tree))
        begun = await RolloverStore(kit.journal).begin(new_keys(tree))
        await create(kit, tree, begun)
    async with forester_on(net, tmp_path) as kit:
        assert await look(kit, tree) is None
        assert await successor(kit, tree) == begun.new_tree.pubkey
        assert await RolloverStore(kit.journal).trees() == []


async def create(kit: Kit, tree: TreeMetadata, begun: BegunRollover) -> None:
    """Make the new accounts of a V1 state tree without putting them in its place."""
    assert begun.new_queue is not None
    assert begun.cpi_context is not None
    wanted = [
        (begun.new_tree, len(await kit.data(tree.address)), ACCOUNT_COMPRESSION),
        (begun.new_queue, len(await kit.data(tree.queue)), ACCOUNT_COMPRESSION),
        (begun.cpi_context, CPI_CONTEXT_BYTES, LIGHT_SYSTEM),
    ]
    work = [
        create_account(
            CreateAccountParams(
                from_pubkey=kit.pubkey,
                to_pubkey=key.pubkey,
                lamports=await kit.rpc.minimum_balance(size),
                space=size,
                owner=owner,
            )
        )
        for key, size, owner in wanted
    ]
    keys = [key.keypair for key, _, _ in wanted]
    sent = kit.sender.send(work, purpose="test", subject=b"", within_s=120, signers=keys)
    assert (await kit.moving(sent)).fate is Fate.CONFIRMED


class LyingRents(RpcClient):
    """Asks for 5,400 SOL where a CPI context is meant, unbounded as a client without its check would be."""

    def __init__(self, rpc: RpcClient) -> None:
        super().__init__(rpc._pool)

    async def minimum_balance(self, data_length: int) -> int:
        if data_length == CPI_CONTEXT_BYTES:
            return 5_400 * 10**9
        return await super().minimum_balance(data_length)


async def test_state_tree_v2__node_that_lies_about_the_rent_of_its_cpi_context__costs_nothing(
    tmp_path: Path,
) -> None:
    with running_localnet() as net:
        net.call("requestAirdrop", str(net.keys["forester"].pubkey()), 6_000 * 10**9)
        async with forester_on(net, tmp_path) as kit:
            await kit.register()
            tree = await fill(kit, TreeKind.STATE_V2)
            await fund(kit, tree, await rents_of(kit, tree, additional=14_020))
            before = await kit.rpc.balance(kit.pubkey)
            unchecked = Rollovers(LyingRents(kit.rpc), kit.sender, RolloverStore(kit.journal), derivation=kit.pubkey)
            capped = await look(kit, tree, unchecked)
            assert isinstance(capped, RolloverTooExpensive)
            raised = Rollovers(
                LyingRents(kit.rpc),
                kit.sender,
                RolloverStore(kit.journal),
                derivation=kit.pubkey,
                maximum_lamports=10**13,
            )
            assert isinstance(await look(kit, tree, raised), BudgetExceeded)
            assert await kit.rpc.balance(kit.pubkey) == before, "three bounds, each of which is enough"
            assert await look(kit, tree) is None
            assert await successor(kit, tree) is not None
            assert before - await kit.rpc.balance(kit.pubkey) < 10**8, "the CPI context is a little larger"


async def test_state_tree_v2__restarts_before_it_was_sent_and_before_the_keys_were_forgotten__is_replaced_once(
    net: Localnet, tmp_path: Path
) -> None:
    async with forester_on(net, tmp_path) as kit:
        tree = await fill(kit, TreeKind.STATE_V2)
        await fund(kit, tree, await rents_of(kit, tree, additional=14_020))
        begun = await RolloverStore(kit.journal).begin(new_keys(tree))
    async with forester_on(net, tmp_path) as kit:
        assert await look(kit, tree) is None
        assert await successor(kit, tree) == begun.new_tree.pubkey
        await RolloverStore(kit.journal).begin(begun)
    async with forester_on(net, tmp_path) as kit:
        balance = await kit.rpc.balance(kit.pubkey)
        assert await look(kit, tree) is None
        assert await RolloverStore(kit.journal).trees() == []
        assert await kit.rpc.balance(kit.pubkey) == balance


CHILD = """
import asyncio, json, sys
from pathlib import Path
from localnet_forester import forester_on
from localnet_process import Localnet
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from forester.journal.rollovers import RolloverStore
from forester.rollover.rollovers import Rollovers

async def main(given):
    net = Localnet(given["environment"], {"forester": Keypair.from_bytes(bytes(given["key"]))})
    async with forester_on(net, Path(given["folder"])) as kit:
        made = Rollovers(kit.rpc, kit.sender, RolloverStore(kit.journal), derivation=kit.pubkey)
        await made.roll_over_if_full(await kit.tree(Pubkey.from_string(given["tree"])), kit.window)

asyncio.run(main(json.load(sys.stdin)))
"""


async def test_rollover__process_killed_while_its_transaction_gets_lost__is_done_with_the_same_keys(
    tmp_path: Path,
) -> None:
    with running_localnet() as net:
        async with forester_on(net, tmp_path) as kit:
            await kit.register()
            tree = await fill(kit, TreeKind.ADDRESS_V2)
            await fund(kit, tree, await rents_of(kit, tree))
        net.call("localnet_faults", {"dropEvery": 1})
        await asyncio.to_thread(killed_when_sent, net, tmp_path, tree)
        net.call("localnet_faults", {"dropEvery": 0})
        # What is lost could land until its blockhash is too old; only then is anything else sent.
        net.call("localnet_advance", 155)
        async with forester_on(net, tmp_path) as kit:
            begun = await RolloverStore(kit.journal).of_tree(bytes(tree.address))
            assert begun is not None
            assert await look(kit, tree) is None
            assert await successor(kit, tree) == begun.new_tree.pubkey
            assert (await kit.tree(begun.new_tree.pubkey)).metadata.network_fee == 7000
            assert await RolloverStore(kit.journal).trees() == []


def killed_when_sent(net: Localnet, folder: Path, tree: TreeMetadata) -> None:
    """Roll a tree over in another process, and kill that once it has sent its transaction."""
    given = {
        "environment": net.environment,
        "key": list(bytes(net.keys["forester"])),
        "folder": str(folder),
        "tree": str(tree.address),
    }
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    paths = {"PYTHONPATH": str(Path(__file__).resolve().parents[2] / "support" / "network")}
    child = subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, env=inherited | paths, text=True)
    try:
        assert child.stdin is not None
        child.stdin.write(json.dumps(given))
        child.stdin.close()
        ends = time.monotonic() + 120
        while not journaled(folder) and time.monotonic() < ends:
            assert child.poll() is None
            time.sleep(0.05)
    finally:
        child.kill()
        child.wait(60)
    assert journaled(folder)


def journaled(folder: Path) -> int:
    with contextlib.closing(sqlite3.connect(f"file:{folder / 'journal.sqlite'}?mode=ro", uri=True)) as connection:
        (count,) = connection.execute("SELECT count(*) FROM signatures WHERE purpose = 'rollover'").fetchone()
    return int(count)


async def test_address_tree_v2__refused_and_then_replaced_by_another__is_left_alone(
    net: Localnet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with forester_on(net, tmp_path) as kit:
        tree = await fill(kit, TreeKind.ADDRESS_V2)
        mine = made(kit)
        with monkeypatch.context() as blind:
            blind.setattr(rollovers, "lacking_lamports", lambda *_: 0)
            refused = await look(kit, tree, mine)
        assert isinstance(refused, TransactionRefused)
        balance = await kit.rpc.balance(kit.pubkey)
        assert await look(kit, tree, mine) is None, "nothing has changed since the refusal, so nothing is tried"
        assert await kit.rpc.balance(kit.pubkey) == balance
        await fund(kit, tree, await rents_of(kit, tree))
        kit.sender.funds_restored()
        stale = await mine._head(tree)
        await replace(kit, tree)
        mine, theirs = made(kit), await successor(kit, tree)
        assert theirs is not None
        heads, real = [stale], mine._head

        async def lagging(asked: TreeMetadata) -> object:
            return heads.pop() if heads else await real(asked)

        monkeypatch.setattr(mine, "_head", lagging)
        await fund(kit, tree, await rents_of(kit, tree))
        assert await look(kit, tree, mine) is None, "14003 is no failure: the tree has a successor"
        assert await successor(kit, tree) == theirs
        assert await RolloverStore(kit.journal).trees() == []


async def replace(kit: Kit, tree: TreeMetadata) -> None:
    """Roll a V2 address tree over as another forester would."""
    begun, size = new_keys(tree), len(await kit.data(tree.address))
    key: Keypair = begun.new_tree.keypair
    creation = create_account(
        CreateAccountParams(
            from_pubkey=kit.pubkey,
            to_pubkey=key.pubkey(),
            lamports=await kit.rpc.minimum_balance(size),
            space=size,
            owner=ACCOUNT_COMPRESSION,
        )
    )
    forester = registry.Forester.registered(kit.pubkey, kit.pubkey, EPOCH)
    work = [creation, rollover_instruction(tree, forester, begun)]
    outcome = await kit.moving(kit.sender.send(work, purpose="test", subject=b"", within_s=120, signers=[key]))
    assert outcome.fate is Fate.CONFIRMED, outcome
