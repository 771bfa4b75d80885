"""The flows of queue_flows.json and further ones, on a real Redis with real workers and keys."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from conformance import Outcome, Row, report, run
from conformance_suite.answers import alike, faults
from conformance_suite.cases import Case, all_cases
from conformance_suite.queue import QUEUE_DIFFERENCES, steps
from conformance_suite.wire import Answer
from golden_vectors import vector_named
from in_process_service import (
    Listen,
    Serve,
    VerifyingKeyOf,
    circuit,
    queue_on,
    sample,
    state_of,
    working,
)
from independent_groth16 import holds
from redis_server import RedisServer
from rich.console import Console

from prover.kernel.cancellation import CancelFlag
from prover.keys.store.key_store import KeyStore
from prover.queue.store import JobStore

MERKLE = vector_named("prover/v2_inclusion_32_1")
DEADLINES = {"merkle_deadline_s": 120, "batch_deadline_s": 120}


def read(rows: list[Row], path: Path) -> str:
    """Return the complaints about rows."""
    with path.open("w") as out:
        report(rows, Console(file=out, width=200))
    return path.read_text()


@pytest.mark.reference_batch_keys
async def test_flows__of_a_server_with_a_queue__are_answered_as_recorded(
    listen: Listen, batch_keys: KeyStore, redis_database: RedisServer, tmp_path: Path
) -> None:
    batch_keys.get(circuit("batch_update_32_10"), CancelFlag())
    async with queue_on(redis_database.url) as (connection, store):
        state, port = await listen(batch_keys, store, proving=DEADLINES)
        async with working(connection, store, state):
            rows = await asyncio.to_thread(run, f"http://127.0.0.1:{port}", None, steps())
    assert {row.outcome for row in rows} <= {Outcome.SAME, Outcome.INTENDED}, read(rows, tmp_path / "report")
    assert {row.case for row in rows if row.outcome is Outcome.INTENDED} == set(QUEUE_DIFFERENCES)
    assert [row.case for row in rows] == [step.name for step in steps()]


async def test_equal_requests__100_at_once__get_one_proof_that_holds(
    serve: Serve, published_keys: KeyStore, redis_database: RedisServer, verifying_key_of: VerifyingKeyOf
) -> None:
    async with queue_on(redis_database.url) as (connection, store):
        client = await serve(published_keys, store)
        state = state_of(client)
        async with working(connection, store, state):
            posts = (client.post("/prove?async=true", data=MERKLE.body) for _ in range(100))
            jobs = {(await response.json())["job_id"] for response in await asyncio.gather(*posts)}
            assert len(jobs) == 1
            path = f"/prove/status?job_id={jobs.pop()}&wait=60"
            while (job := await (await client.get(path)).json())["status"] in ("queued", "processing"):
                pass
        assert holds(verifying_key_of(published_keys, MERKLE.circuit), job["result"]["proof"], MERKLE.public_inputs)
        seconds = "prover_proof_generation_duration_seconds_count"
        assert sample(state, seconds, circuit_type="inclusion") == 1


async def test_requests__without_a_batch__are_answered_as_without_a_queue(
    listen: Listen, published_keys: KeyStore, job_store: JobStore
) -> None:
    _, port = await listen(published_keys, job_store, proving=DEADLINES)
    alike_cases = [case for case in all_cases() if case.key in (None, "v2_inclusion_32_1") and answered_at_once(case)]
    assert len(alike_cases) > 40
    rows = await asyncio.to_thread(run, f"http://127.0.0.1:{port}", None, alike_cases)
    assert {row.outcome for row in rows} <= {Outcome.SAME, Outcome.INTENDED}, rows


def answered_at_once(case: Case) -> bool:
    """Return whether a queue makes no difference to a case."""
    asks = case.headers.get("X-Async") == "true" or "async=true" in case.path
    kinds = (b'"update"', b'"append"', b'"address-append"')
    return not asks and "without a queue" not in case.name and not any(kind in case.body for kind in kinds)


def test_faults__of_wrong_answers_about_jobs__are_found() -> None:
    failed = Answer(202, "application/json", '{"status":"failed","error":"constraint #1","message":"x","extra":1}')
    assert faults(failed, {"status": 202, "fields": {"status": "failed"}, "error_contains": ["constraint"]}, "") == []
    wrong = {
        "status": 200,
        "fields": {"status": "completed"},
        "absent_fields": ["extra"],
        "has": ["failed_at"],
        "error_contains": ["is not satisfied"],
        "message_equals": "Job processing failed: <error>",
        "times": ["failed_at"],
        "job_id": "uuid",
        "exact_members": ["status"],
        "result_shape_head": {"proof": {"ar": 2}, "proof_duration_ms": "integer >= 0"},
    }
    assert len(faults(failed, wrong, "")) == 10


def test_answers__that_report_itmething_else__are_not_alike() -> None:
    queued = Answer(202, "", '{"status":"queued","queue":"zk_update_queue","job_id":"1"}')
    assert alike(Answer(202, "", '{"status":"queued","queue":"zk_update_queue","job_id":"2","more":0}'), queued)
    assert not alike(Answer(202, "", '{"status":"queued","queue":"zk_append_queue","job_id":"2"}'), queued)
    assert not alike(Answer(202, "", '{"status":"queued","queue":"zk_update_queue"}'), queued)
    assert not alike(Answer(200, "", queued.text), queued)
    assert not alike(Answer(404, "", '{"code":"job_not_found","message":""}'), queued)
