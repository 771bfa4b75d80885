"""Reading, staging, proving and keeping together, with an indexer and a prover of this file; over real sockets."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer
from shared_vectors import shared_vectors
from v2_flow import FINAL_ROOT, TREE, head, run_pipeline

from forester.journal.database import Journal
from forester.journal.proofs import ProofStore
from forester.pipeline_v2.proof_ledger import longest_chain
from forester.prover_client.failures import ProofFailed

PROOF = shared_vectors("indexer/proof_compression")["cases"][0]["proof"]


@dataclass
class QueueingProver:
    """A prover that makes a job of every request; jobs of circuits in ``failing`` fail."""

    failing: set[str] = field(default_factory=set)
    jobs: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""

    async def submit(self, request: web.Request) -> web.Response:
        self.jobs.append(await request.json())
        return web.json_response({"job_id": str(len(self.jobs) - 1), "status": "queued"}, status=202)

    async def status(self, request: web.Request) -> web.Response:
        job_id = request.query["job_id"]
        if self.jobs[int(job_id)]["circuitType"] in self.failing:
            failed = {"job_id": job_id, "status": "failed", "error": "constraint #1 is not satisfied"}
            return web.json_response(failed, status=202)
        result = {"proof": PROOF, "proof_duration_ms": 3}
        return web.json_response({"job_id": job_id, "status": "completed", "result": result})


@pytest_asyncio.fixture
async def prover() -> AsyncIterator[QueueingProver]:
    made, app = QueueingProver(), web.Application()
    app.router.add_post("/prove", made.submit)
    app.router.add_get("/prove/status", made.status)
    async with TestServer(app) as server:
        made.url = str(server.make_url("/"))
        yield made


async def test_pipeline__recorded_queues__become_durable_proofs_that_chain(
    prover: QueueingProver, tmp_path: Path
) -> None:
    async with await Journal.open(tmp_path / "journal") as journal:
        _, failure = await run_pipeline(prover.url, ProofStore(journal))
    assert failure is None
    assert [(job["circuitType"], job["treeId"], job["batchIndex"]) for job in prover.jobs] == [
        ("append", str(TREE), 2),
        ("update", str(TREE), 3),
    ]
    async with await Journal.open(tmp_path / "journal") as journal:
        proofs = await ProofStore(journal).of_tree(TREE)
    chain = longest_chain(proofs, head().root, head().sequence)
    assert [proof.circuit for proof in chain] == ["append", "update"]
    assert (chain[-1].new_root, chain[-1].sequence + 1) == (FINAL_ROOT, 4)


async def test_pipeline__first_proof_failed__keeps_the_one_behind_it(prover: QueueingProver, tmp_path: Path) -> None:
    prover.failing.add("append")
    async with await Journal.open(tmp_path / "journal") as journal:
        _, failure = await run_pipeline(prover.url, ProofStore(journal))
        proofs = await ProofStore(journal).of_tree(TREE)
    assert isinstance(failure, ProofFailed)
    assert longest_chain(proofs, head().root, head().sequence) == ()
    assert [proof.circuit for proof in proofs] == ["update"]
    met = longest_chain(proofs, proofs[0].old_root, 3)
    assert [proof.circuit for proof in met] == ["update"], "it fits once somebody has made the first"
