"""The V2 pipeline from a recorded answer of an indexer to durable proofs, with the prover at some URL."""

import asyncio

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer
from shared_vectors import shared_vectors

from forester.chain.tree_metadata import TreeKind
from forester.indexer.client import IndexerClient
from forester.indexer.types import parse_hash
from forester.journal.proofs import ProofStore
from forester.pipeline_v2.proof_cache import stored_proof
from forester.pipeline_v2.proof_requests import ProofPermits, ProofRequests, ProofResult
from forester.pipeline_v2.staging import StagedBatch
from forester.pipeline_v2.tree_head import TreeHead
from forester.pipeline_v2.tree_kinds import strategy_of
from forester.prover_client.client import FinishedProof, ProverClient, ProverTimes
from forester.prover_client.endpoints import ProverEndpoints

RECORDED = shared_vectors("indexer/queue_state")
TREE = parse_hash(RECORDED["request"]["params"]["tree"])
FINAL_ROOT = parse_hash(RECORDED["expectRecordedRoots"][-1])


def head() -> TreeHead:
    """Return the tree of the recorded answer as the chain has it."""
    state = RECORDED["response"]["result"]["stateQueue"]
    return TreeHead(
        root=parse_hash(state["initialRoot"]),
        sequence=state["rootSeq"],
        next_index=20,
        nullifier_next_index=0,
        height=32,
        zkp_batch_size=10,
        input_chains=(parse_hash(state["inputQueue"]["leavesHashChains"][0]),),
        append_chains=(parse_hash(state["outputQueue"]["leavesHashChains"][0]),),
    )


async def _recorded_answer(request: web.Request) -> web.Response:
    assert (await request.json())["method"] == "getQueueElements"
    return web.json_response(RECORDED["response"])


async def run_pipeline(prover_url: str, store: ProofStore) -> list[ProofResult]:
    """Read, stage, prove and store the two batches of the recorded answer."""
    app = web.Application()
    app.router.add_post("/{method}", _recorded_answer)
    strategy = strategy_of(TreeKind.STATE_V2)
    assert strategy.provable(head()) == 2
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        indexer = IndexerClient(session, str(server.make_url("/")))
        snapshot = await strategy.read(indexer, TREE, head(), 4)
        assert snapshot is not None
        staging = await asyncio.to_thread(strategy.stage, snapshot, head(), 4)
        assert staging is not None
        client = ProverClient(session, ProverEndpoints(prover_url), times=ProverTimes(polling_interval_s=0.05))

        async def prove(batch: StagedBatch) -> FinishedProof:
            return await client.prove(batch.request, tree_id=str(TREE), batch_index=batch.sequence)

        async def keep(batch: StagedBatch, finished: FinishedProof) -> None:
            await store.add([stored_proof(TREE, batch, finished)])

        async with ProofRequests(prove, keep, permits=ProofPermits(4)) as requests:
            while (batch := await asyncio.to_thread(staging.next)) is not None:
                await requests.submit(batch)
            return [result async for result in requests.results()]
