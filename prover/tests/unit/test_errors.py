"""The error tree: every class has a registered code, a status and a documented exit code."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prover.errors import (
    CircuitDisabled,
    JobNotFound,
    KeyListUnavailable,
    KeyMissing,
    MemoryBudgetExceeded,
    ProverError,
    RequestRejected,
)
from prover.http.routes.queue_answers import job_response
from prover.http.server.problem import TITLES
from prover.http.server.responses import problem_response
from prover.http.server.retry_words import without_retry_words
from prover.keys.catalogue.circuits import PUBLISHED_CIRCUITS
from prover.proving.request import read_envelope, read_task
from prover.queue.circuit_queues import CircuitQueue
from prover.queue.jobs import JobState, JobStatus

CONTRACTS = Path(__file__).resolve().parents[2] / "contracts"


def tree(root: type[ProverError] = ProverError) -> Iterator[type[ProverError]]:
    yield root
    for child in root.__subclasses__():
        yield from tree(child)


CLASSES = tuple(tree())


def make(error: type[ProverError]) -> ProverError:
    if error in (KeyMissing, KeyListUnavailable):
        return error("a.key", "put it there")
    return error()


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_error__of_every_class__has_a_registered_code(error: type[ProverError]) -> None:
    assert error.code in TITLES
    assert 400 <= error.status < 600


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_error__of_every_class__has_a_documented_exit_code(error: type[ProverError]) -> None:
    documented = json.loads((CONTRACTS / "exit-codes.json").read_text())
    assert str(error.exit_code) in documented


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_error__default_message__misleads_no_existing_client(error: type[ProverError]) -> None:
    """Clients of the reference act on these words wherever they appear."""
    message = make(error).detail.lower()
    assert message
    assert not re.search(r"500|502|503|connection|job_not_found|is not satisfied", message)


def test_problem_codes__in_the_contract__are_those_of_the_tree() -> None:
    contract = json.loads((CONTRACTS / "problem-codes.json").read_text())
    answered: dict[str, set[tuple[int, bool]]] = {}
    for error in CLASSES:
        answered.setdefault(error.code, set()).add((error.status, error.retryable))
    answered["malformed_body"].add((417, False))  # an Expect header other than 100-continue (framing.py)
    assert contract == {
        code: [{"status": status, "retryable": retryable} for status, retryable in sorted(pairs)]
        for code, pairs in sorted(answered.items())
    }


def test_key_missing__message__is_the_one_users_search_for() -> None:
    assert KeyMissing("v2_inclusion_32_5.key", "do this").detail == (
        "proving key file not found: v2_inclusion_32_5.key; do this"
    )


STATUSES = (429, 500, 502, 503, 504)
"""Sizes of requests that are statuses of HTTP, some of which are retry words."""
RETRY_WORDS = ("500", "502", "503", "connection", "timeout", "job_not_found")
"""Words on which the Rust client submits a request again."""


def has_retry_word(message: str) -> bool:
    return any(word in message for word in RETRY_WORDS)


def answered(error: ProverError) -> str:
    """Return the message of the problem for an error."""
    body = json.loads(bytes(problem_response(error, "id").body or b""))  # type: ignore[arg-type]
    assert body["message"] == body["detail"]
    message: str = body["message"]
    return message


def answered_as_job(error: ProverError) -> dict[str, str]:
    """Return the answer with the job that failed with an error."""
    times: dict[str, Any] = {"created_at": 0.0, "started_at": 0.0, "failed_at": 0.0}
    facts: dict[str, Any] = {"proof": None, "duration_ms": None, "attempt": 1}
    job = JobStatus("id", JobState.FAILED, "append", CircuitQueue.APPEND, error=error.detail, **times, **facts)
    answer: dict[str, str] = json.loads(bytes(job_response(job).body or b""))  # type: ignore[arg-type]
    return answer


def wrong_requests(size: int) -> Iterator[dict[str, Any]]:
    """Return requests with arrays, heights, batches and positions of a size, all of which are refused."""
    values = ["0x1"] * size
    paths = [["0x1"] * 32] * size
    hashes = dict.fromkeys(("publicInputHash", "oldRoot", "newRoot", "leavesHashchainHash"), "0x1")
    batch = {"circuitType": "append", "height": 32, "batchSize": size, "startIndex": 0} | hashes
    append = batch | {"leaves": values, "oldLeaves": values, "merkleProofs": paths}
    yield append | {"leaves": values[1:], "oldLeaves": values[1:]}
    yield append | {"leaves": values[1:]}
    yield append | {"leaves": [*values, "x500"], "oldLeaves": [*values, "1500"]}
    yield append | {"leaves": [*values, "0x1"], "oldLeaves": [*values, "0x1"]}
    yield append | {"merkleProofs": [*paths[1:], values]}
    yield append | {"merkleProofs": [*paths, values]}
    yield append | {"merkleProofs": [*paths, ["5002 timeout"]]}
    yield append | {"batchSize": 10}
    yield append | {"batchSize": 10 * size}
    yield append | {"height": size}
    yield {"circuitType": "inclusion", "stateTreeHeight": 32, "inputCompressedAccounts": [{}] * size} | hashes
    yield {"circuitType": "inclusion", "stateTreeHeight": size, "inputCompressedAccounts": [{}]} | hashes
    yield {"circuitType": "non-inclusion", "addressTreeHeight": 40, "newAddresses": [{}] * size} | hashes
    yield {"circuitType": f"connection {size}", "height": size}
    yield {"circuitType": "append", "height": f"{size} timeout"}
    yield {"circuitType": "append", "height": 32, "batchSize": size * 10**12 + 5, "startIndex": "503"}


@pytest.mark.parametrize("known", [PUBLISHED_CIRCUITS, None], ids=["published", "any"])
@pytest.mark.parametrize("size", STATUSES)
def test_message__of_a_request_whose_size_is_a_status__has_no_retry_word(size: int, known: Any) -> None:
    errors: list[RequestRejected] = []
    for request in wrong_requests(size):
        try:
            read_task(read_envelope(json.dumps(request).encode()), known)
        except RequestRejected as error:
            errors.append(error)
    assert len(errors) >= 10
    assert size not in (500, 502, 503) or any(has_retry_word(refused.detail) for refused in errors)
    for refused in errors:
        assert not has_retry_word(answered(refused))
        job = answered_as_job(refused)
        assert not has_retry_word(job["message"] + job["error"])


@given(
    st.from_regex("[0-9]{0,9}50[023][0-9]{0,20}", fullmatch=True),
    st.sampled_from(["{}", "0x{}f", "a.{}", "batch_append_32_{}", "{}.5 MiB", "$.leaves[{}]", "{0},{0}"]),
)
def test_message__with_a_status_in_any_number__has_no_retry_word(digits: str, quoted: str) -> None:
    message = without_retry_words(f"wrong number of leaves: {quoted.format(digits)}")
    assert not has_retry_word(message)
    assert without_retry_words(message) == message


@given(st.text(st.characters(codec="utf-8")) | st.integers(0, 10**30).map(str))
def test_message__without_retry_word__is_unchanged(message: str) -> None:
    assert has_retry_word(message) or without_retry_words(message) == message


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("wrong number of old leaves: 499, expected: 500 at $.oldLeaves", "expected: five hundred at $.oldLeaves"),
        ("more than 1500 values, 65027 bytes", "more than 1 thousand five hundred values, 65 thousand 27 bytes"),
        ("5002500 bytes", "5 million 2 thousand five hundred bytes"),
        ("503000 bytes", "five hundred three thousand bytes"),
        ("502.5 MiB", "5_02.5 MiB"),
        ("$.leaves[500] of batch_append_32_500.key", "$.leaves[5_00] of batch_append_32_5_00.key"),
        ("job expired after 1h0m0.503s", "job expired after 1h0m0.5_03s"),
        ("invalid number: f15000", "invalid number: f15_000"),
        ("unknown circuit type: timeout", "unknown circuit type: time-out"),
    ],
)
def test_message__with_a_retry_word__is_still_understood(message: str, said: str) -> None:
    assert said in without_retry_words(message)


def test_message__of_an_error__is_reworded_only_where_a_retry_cannot_help() -> None:
    assert answered(CircuitDisabled("batch_append_32_500 is off")) == "batch_append_32_5_00 is off"
    assert answered(MemoryBudgetExceeded("502 MiB")) == "five hundred two MiB"
    assert "batch_append_32_500.key" in answered(KeyMissing("batch_append_32_500.key", "download it"))
    assert "a500" in answered(JobNotFound("Job with ID a500 not found."))
