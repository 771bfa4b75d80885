"""The reference's behaviour, case by case (vectors/prover/cases.json), and where ours differs on purpose."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from golden_vectors import load
from in_process_service import Serve, circuit

from prover.kernel.cancellation import CancelFlag
from prover.keys.store import KeyStore

CASES: dict[str, dict[str, Any]] = {case["name"]: case for case in load("prover/cases.json")["cases"]}

DIFFERENCES: dict[str, dict[str, Any]] = {
    # prover-service.md 2.5: a number that cannot be read SHOULD be reported as such
    "unparseable publicInputHash is not a parse error in v2": {
        "status": 400,
        "code": "malformed_body",
        "message_contains": ["invalid number"],
    },
    # prover-service.md 2.7: every malformed shape MUST give 4xx
    "second account path too short": {
        "status": 400,
        "code": "proving_error",
        "message_contains": ["wrong size of merkle proof"],
    },
}
"""Deliberate improvements; errors are problem+json besides (2.2 allows a JSON type)."""


def body_of(case: dict[str, Any]) -> bytes:
    if "raw" in case:
        raw: str = case["raw"]
        return raw.encode()
    if "base" not in case:
        return b""
    body = load(f"prover/{case['base']}")
    for patch in case.get("patch", []):
        *parents, last = patch["path"]
        place = body
        for step in parents:
            place = place[step]
        if patch["op"] == "set":
            place[last] = copy.deepcopy(patch["value"])
        else:
            del place[last]
    return json.dumps(body).encode()


def expectation(case: dict[str, Any]) -> dict[str, Any]:
    expected: dict[str, Any] = DIFFERENCES.get(case["name"]) or case.get("expect_head_if_different") or case["expect"]
    return expected


def case_marks(case: dict[str, Any]) -> list[pytest.MarkDecorator]:
    return [pytest.mark.reference_batch_keys] if needs_batch_key(case) else []


def needs_batch_key(case: dict[str, Any]) -> bool:
    return str(case.get("base", "")).startswith("batch_")


@pytest.mark.parametrize("case", [pytest.param(case, id=name, marks=case_marks(case)) for name, case in CASES.items()])
async def test_case__of_the_reference__is_answered_alike(
    case: dict[str, Any], request: pytest.FixtureRequest, serve: Serve
) -> None:
    store: KeyStore = request.getfixturevalue("batch_keys" if needs_batch_key(case) else "published_keys")
    if needs_batch_key(case):
        store.get(circuit(case["base"].removesuffix(".json")), CancelFlag())
    client = await serve(store)
    response = await client.request(
        case["method"], case["path"], data=body_of(case), headers=case.get("headers", {}), allow_redirects=False
    )
    text = await response.text()
    expected = expectation(case)

    assert response.status == expected["status"], text
    if expected.get("empty_body"):
        assert text == ""
        assert "Allow" not in response.headers
    if expected.get("proof"):
        assert len(text) == 579
        assert list(json.loads(text)) == ["ar", "bs", "krs"]
    if "code" in expected:
        problem = json.loads(text)
        assert response.headers["Content-Type"] == "application/problem+json"
        assert problem["code"] == expected["code"]
        assert problem["status"] == expected["status"]
        assert problem["message"] == problem["detail"]
        for words in expected.get("message_contains", []):
            assert words in problem["message"]
    elif "content_type" in expected:
        assert response.headers["Content-Type"] == expected["content_type"]


def test_cases__with_a_deliberate_difference__exist_in_the_table() -> None:
    assert set(DIFFERENCES) <= set(CASES)


def test_cases__none__are_left_out() -> None:
    """The queue's own flows (queue_flows.json) need Redis and belong to the queue mode; all single cases run here."""
    assert len(CASES) == len(load("prover/cases.json")["cases"])
