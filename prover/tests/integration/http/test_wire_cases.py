"""The reference's behaviour, case by case (vectors/prover/cases.json), and where ours differs on purpose."""

from __future__ import annotations

import io

import pytest
from conformance_suite.answers import faults
from conformance_suite.cases import DIFFERENCES, Case, all_cases, recorded_cases
from conformance_suite.queue import NEEDS_ITS_OWN_SERVER, steps
from conformance_suite.wire import Answer
from golden_vectors import load
from in_process_service import Serve, circuit

from prover.kernel.cancellation import CancelFlag
from prover.keys.store.key_store import KeyStore

CASES = {case.name: case for case in all_cases()}


def needs_batch_key(case: Case) -> bool:
    return bool(case.key and case.key.startswith("batch_"))


def marks(case: Case) -> list[pytest.MarkDecorator]:
    return [pytest.mark.reference_batch_keys] if needs_batch_key(case) else []


@pytest.mark.parametrize("case", [pytest.param(case, id=name, marks=marks(case)) for name, case in CASES.items()])
async def test_case__of_the_reference__is_answered_alike(
    case: Case, request: pytest.FixtureRequest, serve: Serve
) -> None:
    store: KeyStore = request.getfixturevalue("batch_keys" if needs_batch_key(case) else "published_keys")
    if needs_batch_key(case) and case.key:
        store.get(circuit(case.key), CancelFlag())
    client = await serve(store)
    response = await client.request(
        case.method, case.path, data=io.BytesIO(case.body), headers=case.headers, allow_redirects=False
    )
    answer = Answer(
        response.status, response.headers.get("Content-Type", ""), await response.text(), "Allow" in response.headers
    )
    assert faults(answer, case.ours) == [], answer.text
    if answer.problem:
        assert response.headers["Content-Type"] == "application/problem+json"
        assert answer.problem["status"] == answer.status
        assert answer.problem["message"] == answer.problem["detail"]


def test_cases__with_a_deliberate_difference__exist_in_the_table() -> None:
    assert set(DIFFERENCES) <= set(CASES)


def test_cases__all__are_tested() -> None:
    assert len(recorded_cases()) == len(load("prover/cases.json")["cases"])
    assert len(CASES) == len(all_cases())
    flows = load("prover/queue_flows.json")["flows"]
    played = {step.name.partition(", step")[0] for step in steps()}
    assert {flow["name"] for flow in flows} - played == {NEEDS_ITS_OWN_SERVER}  # test_access.py has that one
