"""Problem bodies carry the standard members and the reference's."""

import json

import pytest

from prover.http.server.problem import encode_problem, problem


def test_problem__encoded__has_both_families_of_members() -> None:
    body = json.loads(
        encode_problem(
            problem(code="malformed_body", status=400, detail="no", retryable=False, path="$.leaf", instance="urn:x")
        )
    )
    assert body == {
        "type": "urn:zkc:problem:malformed_body",
        "title": "The request body is malformed",
        "status": 400,
        "detail": "no",
        "code": "malformed_body",
        "message": "no",
        "retryable": False,
        "instance": "urn:x",
        "path": "$.leaf",
    }


def test_problem__with_an_unregistered_code__is_refused() -> None:
    with pytest.raises(KeyError):
        problem(code="nonsense", status=400, detail="no", retryable=False)
