"""Untrusted values from Redis: every parser returns a value or raises the one error that its callers expect."""

from __future__ import annotations

import contextlib
import datetime
import json
from typing import Any

import msgspec
import pytest
from golden_vectors import vector_named
from hypothesis import given
from hypothesis import strategies as st

from prover.errors import QueueUnavailable
from prover.http.routes.queue_answers import job_response
from prover.proving.request import read_envelope, read_public_inputs, read_task
from prover.proving.statement import Statement
from prover.queue import records, wake_ups
from prover.queue.circuit_queues import CircuitQueue
from prover.queue.job_ids import job_id_of, new_job_id
from prover.queue.jobs import CircuitQueueStats, JobState, Submission
from prover.queue.scripts import (
    ClaimReply,
    HeartbeatReply,
    OutcomeReply,
    Reply,
    Scripts,
    StatsReply,
    SubmitReply,
    SweepReply,
)

REPLIES = (Reply, SubmitReply, ClaimReply, OutcomeReply, SweepReply, HeartbeatReply, StatsReply)
STATEMENT = Statement("v2_inclusion_32_1", bytes(32))
NONCE = bytes(range(16))
JOB_ID = job_id_of(NONCE, STATEMENT)
RECORD: dict[str, bytes] = {
    "state": b"failed",
    "lane": b"zk_update_queue",
    "type": b"update",
    "created": b"1700000000000",
    "started": b"1700000000001",
    "ended": b"1700000000002",
    "error": b"no reason",
    "attempt": b"1",
    "nonce": NONCE.hex().encode(),
    "proves": STATEMENT.circuit.encode(),
    "inputs": STATEMENT.public_inputs.hex().encode(),
}

words = st.one_of(
    st.binary(max_size=80),
    st.sampled_from([b"queued", b"processing", b"completed", b"failed", b"zk_append_queue"]),
    st.integers().map(lambda number: str(number).encode()),
    st.floats().map(lambda number: str(number).encode()),
)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=9)
    | st.binary(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)


def members_of(kind: type[Reply]) -> st.SearchStrategy[dict[str, Any]]:
    """Return answers with the right names, mostly."""
    right: Any = {"events": st.just([])}
    right |= {field.name: values for field in msgspec.structs.fields(kind) if field.name != "events"}
    return st.fixed_dictionaries(right)


def status_of(record: dict[str, bytes]) -> Any:
    return records.status(JOB_ID, [record.get(name) for name in records.STATUS_FIELDS])


def test_record__as_it_is_written__is_read_with_what_its_id_means() -> None:
    found = status_of(RECORD)
    assert (found.state, found.statement, found.error) == (JobState.FAILED, STATEMENT, "no reason")


def test_record__of_a_job_that_ended_while_it_was_cancelled__is_no_longer_being_cancelled() -> None:
    assert status_of(RECORD | {"cancel": b"1", "state": b"processing"}).cancelling
    assert not status_of(RECORD | {"cancel": b"1"}).cancelling


@given(
    st.dictionaries(st.sampled_from(records.STATUS_FIELDS), words, max_size=6), st.sets(st.sampled_from(sorted(RECORD)))
)
def test_record__of_any_content__is_a_status_that_can_be_answered_or_malformed(
    changed: dict[str, bytes], missing: set[str]
) -> None:
    record = {name: value for name, value in {**RECORD, **changed}.items() if name not in missing}
    try:
        found = status_of(record)
    except records.RecordMalformed:
        return
    if found is None:
        assert "state" not in record
        return
    assert found.statement in (None, STATEMENT)
    assert (found.proof is not None) == (found.state is JobState.COMPLETED)
    if found.proof is None:  # else it is verified first
        answer = json.loads(str(job_response(found).text))
        datetime.datetime.fromisoformat(answer["created_at"])


@pytest.mark.parametrize("name", ["error", "proof", "type", "inputs"])
def test_record__with_a_long_value__is_malformed(name: str) -> None:
    with pytest.raises(records.RecordMalformed):
        status_of({**RECORD, name: b"0" * (records.LONGEST_VALUE + 1)})


@pytest.mark.parametrize(
    "changed",
    [
        {"nonce": b"0" * 32},
        {"proves": b"v2_inclusion_32_2"},
        {"inputs": b"01" * 32},
        {"inputs": b""},
        {"nonce": b"zz" * 16},
    ],
)
def test_statement__that_the_id_does_not_mean__is_none(changed: dict[str, bytes]) -> None:
    assert status_of({**RECORD, **changed}).statement is None


@pytest.mark.parametrize("kind", REPLIES)
@given(st.data())
def test_reply_of_a_script__of_any_content__is_a_reply_or_unavailable(kind: type[Reply], data: st.DataObject) -> None:
    packed = data.draw(
        st.binary(max_size=60) | values.map(msgspec.msgpack.encode) | members_of(kind).map(msgspec.msgpack.encode)
    )
    try:
        reply = Scripts.read(packed, kind)
    except QueueUnavailable:
        return
    if isinstance(reply, ClaimReply):
        with contextlib.suppress(records.RecordMalformed):
            records.claim(reply, CircuitQueue.UPDATE, b"")
    if isinstance(reply, StatsReply):
        assert all(count.waiting_by_type is not None for count in reply.stats.queues.values())
    if isinstance(reply, SubmitReply):
        records.is_job_of(reply, Submission("inclusion", STATEMENT.circuit, b"{}", public_inputs=bytes(32)))


def test_counts__of_types_that_nobody_queues__are_omitted() -> None:
    types = ["update", "3", "evil", "4", "append", "x", "inclusion"]
    assert CircuitQueueStats(0, 0, 0, 0, 0, 0, types, 0, 0).waiting_by_type == {"update": 3}


@given(st.binary(max_size=80) | values.map(msgspec.json.encode))
def test_wake_up__of_any_content__is_one_or_refused(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert wake_ups.decode(data)["f"] == wake_ups.FUNCTION


@pytest.mark.parametrize(
    "name", ["v1_inclusion_26_2", "v1_combined_26_26_2_1", "v2_combined_32_40_1_2", "batch_append_32_10"]
)
def test_public_inputs__of_a_request__are_those_that_are_proved(name: str) -> None:
    body = vector_named(f"prover/{name}").body
    envelope = read_envelope(body)
    assert read_public_inputs(envelope) == read_task(envelope, None).assignment.public_inputs


@pytest.mark.parametrize("odd", [{"publicInputHash": "x"}, {"publicInputHash": 5}, {"publicInputHash": []}])
def test_public_inputs__that_cannot_be_read__are_none(odd: dict[str, Any]) -> None:
    body = json.dumps({**vector_named("prover/batch_update_32_10").request, **odd}).encode()
    assert read_public_inputs(read_envelope(body)) is None


def test_job_ids__of_many_jobs__have_no_word_on_which_the_rust_client_submits_again() -> None:
    made = [new_job_id(STATEMENT) for _ in range(2000)]
    assert len({job_id for _, job_id in made}) == len(made)
    assert all(job_id_of(nonce, STATEMENT) == job_id for nonce, job_id in made)
    assert not [job_id for _, job_id in made if any(word in job_id for word in ("500", "502", "503"))]
