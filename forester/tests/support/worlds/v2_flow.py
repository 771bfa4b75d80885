"""The V2 pipeline from a recorded answer of an indexer to durable proofs, with the prover at some URL."""

import asyncio
import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer
from base58_hashes import parse_hash
from shared_vectors import shared_vectors
from solders.pubkey import Pubkey

from forester.chain.tree_metadata import TreeKind
from forester.errors import ForesterError
from forester.indexer.client import IndexerClient
from forester.journal.proofs import ProofStore
from forester.observability.metrics import Metrics
from forester.pipeline_v2.proof_ledger import ProofLedger
from forester.pipeline_v2.proof_requests import ProofRequests
from forester.pipeline_v2.services import V2Services, proof_permits
from forester.pipeline_v2.staging.snapshots import read_snapshot, staging_of
from forester.pipeline_v2.staging.tree_head import TreeHead
from forester.prover_client.client import FinishedProof, ProverClient, ProverTimes
from forester.prover_client.endpoints import ProverEndpoints
from shared.requests.circuit_id import CircuitKind
from shared.requests.proof_wire import BatchRequest

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


@dataclass
class RecordingProver:
    """A prover that remembers its proofs."""

    client: ProverClient
    finished: list[FinishedProof] = field(default_factory=list)

    async def prove(self, request: BatchRequest, **members: Any) -> FinishedProof:
        self.finished.append(await self.client.prove(request, **members))
        return self.finished[-1]


async def run_pipeline(prover_url: str, store: ProofStore) -> tuple[list[FinishedProof], ForesterError | None]:
    """Read, stage, prove and store the two batches of the recorded answer; return proofs and the last failure."""
    app = web.Application()
    app.router.add_post("/{method}", _recorded_answer)
    assert head().provable == 2
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        indexer = IndexerClient(session, str(server.make_url("/")))
        snapshot = await read_snapshot(indexer, TreeKind.STATE_V2, TREE, head(), 4)
        assert snapshot is not None
        staging = await asyncio.to_thread(staging_of, snapshot, head(), 4)
        assert staging is not None
        times = ProverTimes(polling_interval_s=0.05)
        prover = RecordingProver(
            ProverClient(session, ProverEndpoints(dict.fromkeys(CircuitKind, prover_url)), times=times)
        )
        services = SimpleNamespace(proofs=store, prover=prover, permits=proof_permits(4), metrics=Metrics())
        ledger = ProofLedger("tree", 60.0, time.monotonic)
        requests = ProofRequests(Pubkey(TREE), ledger, cast("V2Services", services), window=4)
        while (batch := await asyncio.to_thread(staging.next)) is not None:
            await requests.request(batch, None)
        while ledger.under_way:
            await requests.changed(600.0)
        await requests.close(60.0)
        return prover.finished, requests.take_failure()
