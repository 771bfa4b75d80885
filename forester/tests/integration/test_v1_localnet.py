"""V1 work, from what the chain and the indexer tell to what the published programs accept; refused work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import aiohttp
import pytest
from localnet_process import Localnet, running_localnet
from solders.compute_budget import set_compute_unit_limit
from solders.instruction import Instruction
from solders.pubkey import Pubkey
from solders.system_program import TransferParams
from solders.system_program import transfer as system_transfer
from solders.transaction import Transaction

from forester.chain import concurrent_accounts
from forester.chain.programs import registry
from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RpcPool
from forester.errors import TransactionRefused
from forester.indexer.client import IndexerClient
from forester.indexer.types import Hash32
from forester.settings import SigningKey
from forester.transactions.builder import Budget, build
from forester.transactions.confirm import Confirmations, Fate, Pace

EPOCH = 2
STATE_TREE = Pubkey.from_string("bmt1LryLZUMmF7ZtqESaw7wifBXLfXHQYoE4GAmrahU")
V1_TREE = Pubkey.from_string("smt1NamzXdq4AMqS2fS2F1i5KTYPZRhoHgWx38d8WsT")
V1_QUEUE = Pubkey.from_string("nfq1NvQDJ2GEgnS8zt9prAe8rjjpAW1zFkrvZoBR148")
V1_ADDRESS_TREE = Pubkey.from_string("amt1Ayt45jfbdw5YSo7iz6WZxUmnZsQTYXy82hVwyC2")
V1_ADDRESS_QUEUE = Pubkey.from_string("aq1S9z4reTSQAdgWHGD2zDaS39sjGrAxbR31vxJ2F4F")


@dataclass
class Worker:
    net: Localnet
    client: RpcClient
    indexer: IndexerClient

    @property
    def me(self) -> registry.Forester:
        key = self.net.keys["forester"].pubkey()
        return registry.Forester.registered(key, key, EPOCH)

    async def send(self, *instructions: Instruction) -> None:
        """Send a transaction and see to it that it succeeded."""
        key = self.net.keys["forester"]
        blockhash = await self.client.latest_blockhash()
        transaction = Transaction.new_signed_with_payer(
            [set_compute_unit_limit(1_000_000), *instructions], key.pubkey(), [key], blockhash.hash
        )
        signature = await self.client.send_transaction(bytes(transaction))
        await asyncio.to_thread(self.net.call, "localnet_advance", 1)
        (status,) = await self.client.signature_statuses([signature])
        assert status is not None
        assert status.err is None

    async def data(self, address: Pubkey) -> bytes:
        return (await self.client.existing_account(address, "a tree or queue")).data


@asynccontextmanager
async def working(net: Localnet) -> AsyncIterator[Worker]:
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(RpcPool([net.url]))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        yield Worker(
            net,
            RpcClient(pool, commitment="processed"),
            IndexerClient(session, net.environment["INDEXER_URL"]),
        )


@pytest.fixture(scope="module")
def net() -> Iterator[Localnet]:
    """A network in the active phase of an epoch for which the forester is registered, with traffic of all kinds."""
    with running_localnet() as localnet:
        key = localnet.keys["forester"].pubkey()

        async def begin() -> None:
            async with working(localnet) as worker:
                await worker.send(registry.register_forester_epoch(key, key, key, EPOCH))
                await asyncio.to_thread(localnet.call, "localnet_warp", 501)
                await worker.send(registry.finalize_registration(key, key, EPOCH))

        asyncio.run(begin())
        kinds = {"compress": 10, "spend": 10, "v1_compress": 3, "v1_spend": 1, "v1_addresses": 1}
        localnet.call("localnet_seed", kinds)
        yield localnet


async def test_v2_batch__with_a_proof_of_another_root__is_refused_by_the_inner_program(net: Localnet) -> None:
    async with working(net) as worker:
        with pytest.raises(TransactionRefused) as refused:
            await worker.send(registry.batch_nullify(worker.me, STATE_TREE, bytes(160)))
    assert refused.value.program == "compr6CUsB5m2jS4Y3831ztGSTnDpnKJTKS95d64XVq"
    assert refused.value.instruction == 1


async def test_v1_nullification__of_a_queued_leaf__is_accepted_and_empties_the_cell(net: Localnet) -> None:
    async with working(net) as worker:
        (cell,) = concurrent_accounts.pending_cells(await worker.data(V1_QUEUE))
        (proof,) = await worker.indexer.account_proofs([Hash32(cell.value)])
        tree = concurrent_accounts.decode_tree(await worker.data(V1_TREE))
        assert bytes(proof.root) == concurrent_accounts.latest_root(tree, await worker.data(V1_TREE))
        await worker.send(
            registry.nullify(
                worker.me,
                V1_TREE,
                V1_QUEUE,
                changelog_index=tree.changelog_index,
                queue_index=cell.index,
                leaf_index=proof.leaf_index,
                proof=[bytes(node) for node in proof.proof[: registry.V1_PROOF_LENGTH]],
            )
        )
        assert list(concurrent_accounts.pending_cells(await worker.data(V1_QUEUE))) == []
        after = concurrent_accounts.decode_tree(await worker.data(V1_TREE))
        assert after.sequence_number == tree.sequence_number + 1


async def test_v1_address__that_is_queued__is_inserted_behind_its_low_element(net: Localnet) -> None:
    async with working(net) as worker:
        (cell,) = concurrent_accounts.pending_cells(await worker.data(V1_ADDRESS_QUEUE))
        found = await worker.indexer.address_proofs([(Hash32(cell.value), Hash32(bytes(V1_ADDRESS_TREE)))])
        data = await worker.data(V1_ADDRESS_TREE)
        tree = concurrent_accounts.decode_tree(data)
        low = registry.LowAddress(
            index=found[0].low_element_leaf_index,
            value=bytes(found[0].lower_range_address),
            next_index=found[0].next_index,
            next_value=bytes(found[0].higher_range_address),
            proof=[bytes(node) for node in found[0].proof[: registry.V1_PROOF_LENGTH]],
        )
        await worker.send(
            registry.update_address_merkle_tree(
                worker.me,
                V1_ADDRESS_TREE,
                V1_ADDRESS_QUEUE,
                changelog_index=tree.changelog_index,
                indexed_changelog_index=concurrent_accounts.indexed_changelog_index(data),
                queue_index=cell.index,
                low=low,
            )
        )
        after = concurrent_accounts.decode_tree(await worker.data(V1_ADDRESS_TREE))
        assert after.next_index == tree.next_index + 1


async def test_transactions__dropped_by_the_network__land_all_the_same(net: Localnet) -> None:
    net.call("localnet_faults", {"dropEvery": 2})
    payer = SigningKey(net.keys["forester"])
    try:
        async with working(net) as worker, Confirmations(worker.client, pace=Pace(0.05, 0.1)) as flight:
            blockhash = await worker.client.latest_blockhash()
            built = [
                build([transfer(payer, lamports)], payer, blockhash.hash, Budget(10_000)) for lamports in range(1, 7)
            ]
            waiting = [
                asyncio.create_task(flight.send(item, blockhash.last_valid_block_height, within_s=60)) for item in built
            ]
            while not all(task.done() for task in waiting):
                await asyncio.to_thread(net.call, "localnet_advance", 1)
            assert {(await task).fate for task in waiting} == {Fate.CONFIRMED}
    finally:
        net.call("localnet_faults", {"dropEvery": 0})


def transfer(payer: SigningKey, lamports: int) -> Instruction:
    return system_transfer(
        TransferParams(from_pubkey=payer.pubkey, to_pubkey=Pubkey(bytes([9]) * 32), lamports=10**9 + lamports)
    )
