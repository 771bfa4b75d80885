"""The flows of queue_flows.json and further ones, on a real Redis with real workers and keys."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from conformance import Outcome, Row, report, run_queue
from conformance_queue import QUEUE_DIFFERENCES, alike, faults, steps
from conformance_wire import Answer
from in_process_service import Listen, circuit, queue_on, working
from redis_server import RedisServer
from rich.console import Console

from prover.kernel.cancellation import CancelFlag
from prover.keys.store import KeyStore

DEADLINES = {"merkle_deadline_s": 120, "batch_deadline_s": 120}


def read(rows: list[Row], path: Path) -> str:
    """What is to be said about rows."""
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
            rows = await asyncio.to_thread(run_queue, f"http://127.0.0.1:{port}")
    assert {row.outcome for row in rows} <= {Outcome.SAME, Outcome.MEANT}, read(rows, tmp_path / "report")
    assert {row.case for row in rows if row.outcome is Outcome.MEANT} == set(QUEUE_DIFFERENCES)
    assert [row.case for row in rows] == [step.name for step in steps()]


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


def test_answers__that_say_something_else__are_not_alike() -> None:
    queued = Answer(202, "", '{"status":"queued","queue":"zk_update_queue","job_id":"1"}')
    assert alike(Answer(202, "", '{"status":"queued","queue":"zk_update_queue","job_id":"2","more":0}'), queued)
    assert not alike(Answer(202, "", '{"status":"queued","queue":"zk_append_queue","job_id":"2"}'), queued)
    assert not alike(Answer(202, "", '{"status":"queued","queue":"zk_update_queue"}'), queued)
    assert not alike(Answer(200, "", queued.text), queued)
    assert not alike(Answer(404, "", '{"code":"job_not_found","message":""}'), queued)
