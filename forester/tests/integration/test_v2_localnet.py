"""The V2 pipeline against the published programs: what is staged and proved is what they accept.

Localnet's prover gives proofs that its programs take for the right public input only: every batch that lands had the
roots, the hash chain and the start index that the program computed by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
from localnet_process import Localnet, running_localnet
from solders.compute_budget import set_compute_unit_limit
from solders.instruction import Instruction
from solders.pubkey import Pubkey
from solders.transaction import Transaction

from forester.chain.batched_accounts import decode_batched_tree
from forester.chain.programs import registry
from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RpcPool
from forester.chain.tree_metadata import TreeKind
from forester.indexer.client import IndexerClient
from forester.indexer.types import Hash32
from forester.journal.database import Journal
from forester.journal.proofs import ProofStore, StoredProof
from forester.pipeline_v2.proof_cache import select_proofs, stored_proof
from forester.pipeline_v2.proof_requests import ProofRequests
from forester.pipeline_v2.root_reconcile import RootDecision, reconcile_snapshot
from forester.pipeline_v2.staging import StagedBatch
from forester.pipeline_v2.tree_head import TreeHead
from forester.pipeline_v2.tree_kinds import strategy_of
from forester.prover_client.client import FinishedProof, ProverClient, ProverTimes
from forester.prover_client.endpoints import ProverEndpoints

EPOCH, ACTIVE_SLOT = 2, 505
STATE_TREE = Pubkey.from_string("bmt1LryLZUMmF7ZtqESaw7wifBXLfXHQYoE4GAmrahU")
ADDRESS_TREE = Pubkey.from_string("amt2kaJA14v3urZbZvnc5v2np8jqvc4Z8zDep5wbtzx")
SEED = {"compress": 25, "spend": 12, "addresses": 22}


@pytest.fixture(scope="module")
def net() -> Iterator[Localnet]:
    with running_localnet() as localnet:
        localnet.call("localnet_seed", SEED)
        yield localnet


@dataclass
class Forestry:
    """A registered forester with everything it calls."""

    net: Localnet
    rpc: RpcClient
    indexer: IndexerClient
    prover: ProverClient
    store: ProofStore

    @property
    def forester(self) -> registry.Forester:
        me = self.net.keys["forester"].pubkey()
        return registry.Forester.registered(me, me, EPOCH)

    async def send(self, *instructions: Instruction) -> None:
        key = self.net.keys["forester"]
        blockhash = await self.rpc.latest_blockhash()
        limited = [set_compute_unit_limit(1_000_000), *instructions]
        transaction = Transaction.new_signed_with_payer(limited, key.pubkey(), [key], blockhash.hash)
        signature = await self.rpc.send_transaction(bytes(transaction))
        await asyncio.to_thread(self.net.call, "localnet_advance", 1)
        (status,) = await self.rpc.signature_statuses([signature])
        assert status is not None
        assert status.err is None

    async def register(self) -> None:
        me = self.net.keys["forester"].pubkey()
        await self.send(registry.register_forester_epoch(me, me, me, EPOCH))
        if await self.rpc.slot("processed") < ACTIVE_SLOT:
            await asyncio.to_thread(self.net.call, "localnet_warp", ACTIVE_SLOT)
        await self.send(registry.finalize_registration(me, me, EPOCH))

    async def head(self, tree: Pubkey) -> TreeHead:
        data = (await self.rpc.existing_account(tree, "the tree")).data
        decoded = decode_batched_tree(data)
        if decoded.kind is TreeKind.ADDRESS_V2:
            return TreeHead.read(data)
        queue = await self.rpc.existing_account(decoded.metadata.associated, "the output queue")
        return TreeHead.read(data, queue.data)

    async def prove(self, tree: Pubkey, kind: TreeKind, most_batches: int) -> list[StoredProof]:
        """Read, stage, prove and keep what is ready; the proofs that fit now."""
        key, head, strategy = Hash32(bytes(tree)), await self.head(tree), strategy_of(kind)
        await self.indexer.wait_for_slot(await self.rpc.slot() - 1, 60)
        snapshot = await strategy.read(self.indexer, key, head, most_batches)
        assert snapshot is not None
        assert reconcile_snapshot(None, snapshot.initial_root, head.root) is RootDecision.PROCEED
        staging = strategy.stage(snapshot, head, most_batches)
        assert staging is not None

        async def prove(batch: StagedBatch) -> FinishedProof:
            return await self.prover.prove(batch.request, tree_id=str(tree), batch_index=batch.sequence)

        async def keep(batch: StagedBatch, finished: FinishedProof) -> None:
            await self.store.add([stored_proof(bytes(tree), batch, finished)])

        async with ProofRequests(prove, keep, permits=asyncio.Semaphore(4)) as requests:
            while (batch := staging.next()) is not None:
                await requests.submit(batch)
            results = [result async for result in requests.results()]
        assert all(result.proof is not None and result.failure is None for result in results)
        assert len(results) == staging.sequence - head.sequence
        return list(select_proofs(await self.store.of_tree(bytes(tree)), head.root, head.sequence).chain)

    def instruction(self, tree: Pubkey, output_queue: Pubkey | None, proof: StoredProof) -> Instruction:
        data = proof.new_root + proof.proof
        if proof.circuit == "append":
            assert output_queue is not None
            return registry.batch_append(self.forester, tree, output_queue, data)
        if proof.circuit == "update":
            return registry.batch_nullify(self.forester, tree, data)
        return registry.batch_update_address_tree(self.forester, tree, data)


async def output_queue_of(work: Forestry, tree: Pubkey) -> Pubkey:
    return decode_batched_tree((await work.rpc.existing_account(tree, "the tree")).data).metadata.associated


async def land(work: Forestry, tree: Pubkey, proofs: list[StoredProof]) -> None:
    """Send proofs one after the other; each must lead the tree to its root."""
    queue = await output_queue_of(work, tree) if proofs[0].circuit != "address-append" else None
    for proof in proofs:
        await work.send(work.instruction(tree, queue, proof))
        head = await work.head(tree)
        assert (head.root, head.sequence) == (proof.new_root, proof.sequence + 1)


async def lift_faults(net: Localnet, faults: dict[str, bool], after_s: float) -> None:
    """Let each fault end after some time."""
    for name in sorted(faults):  # the indexer first, then the prover
        await asyncio.sleep(after_s)
        await asyncio.to_thread(net.call, "localnet_faults", {name: False})


async def test_pipeline__queues_of_the_published_programs__are_drained_by_proofs_that_they_accept(
    net: Localnet, tmp_path: Path
) -> None:
    async with (
        RpcPool([net.url]) as pool,
        aiohttp.ClientSession() as session,
        await Journal.open(tmp_path / "journal") as journal,
    ):
        prover = ProverClient(
            session, ProverEndpoints(net.environment["PROVER_URL"]), times=ProverTimes(polling_interval_s=0.05)
        )
        indexer = IndexerClient(session, net.environment["INDEXER_URL"])
        work = Forestry(net, RpcClient(pool), indexer, prover, ProofStore(journal))
        await work.register()

        before = await work.head(STATE_TREE)
        appends = len(before.append_chains)
        assert appends >= 2, "25 accounts and what spending makes"
        assert len(before.input_chains) == 1
        proofs = await work.prove(STATE_TREE, TreeKind.STATE_V2, appends + 1)
        assert sorted(proof.circuit for proof in proofs) == ["append"] * appends + ["update"]
        await land(work, STATE_TREE, proofs)
        done = await work.head(STATE_TREE)
        assert (done.append_chains, done.input_chains) == ((), ())
        assert (done.next_index, done.nullifier_next_index) == (10 * appends, 10)

        proofs = await work.prove(ADDRESS_TREE, TreeKind.ADDRESS_V2, 1)
        assert [proof.circuit for proof in proofs] == ["address-append"], "no more than was asked for"
        ahead = await work.prove(ADDRESS_TREE, TreeKind.ADDRESS_V2, 4)
        assert len(ahead) == 2
        await land(work, ADDRESS_TREE, ahead)
        assert (await work.head(ADDRESS_TREE)).next_index == 21

        # More traffic: accounts that are spent while they wait, in trees that have been moved; faults on the way.
        await asyncio.to_thread(net.call, "localnet_seed", SEED)
        with_faults = {"proverDown": True, "indexerTooManyRequests": True}
        await asyncio.to_thread(net.call, "localnet_faults", with_faults)
        async with asyncio.TaskGroup() as both:
            proving = both.create_task(work.prove(STATE_TREE, TreeKind.STATE_V2, 8))
            both.create_task(lift_faults(net, with_faults, 1.0))
        proofs = proving.result()
        assert len(proofs) >= 3
        await land(work, STATE_TREE, proofs)
        obsolete = select_proofs(
            await work.store.of_tree(bytes(STATE_TREE)), proofs[-1].new_root, proofs[-1].sequence + 1
        )
        assert obsolete.chain == ()
        assert len(obsolete.obsolete) == appends + 1 + len(proofs)
