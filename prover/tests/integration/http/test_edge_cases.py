"""Requests at the boundaries: the verdict of the reference."""

from __future__ import annotations

import json
from typing import Any

import pytest
from golden_vectors import load
from in_process_service import Serve

from prover.keys.store.key_store import KeyStore

EDGES: list[dict[str, Any]] = load("circuits/edge_cases.json")


@pytest.mark.parametrize("edge", EDGES, ids=lambda edge: edge["name"])
async def test_edge_case__is_judged_as_by_the_reference(
    edge: dict[str, Any], serve: Serve, published_keys: KeyStore
) -> None:
    client = await serve(published_keys)
    response = await client.post("/prove", data=json.dumps(edge["request"]))
    body = await response.json()
    if edge["satisfiable"]:
        assert response.status == 200, body
        return
    assert response.status == 400
    assert body["code"] == "proving_error"
    assert body["message"].startswith("constraint system error: a constraint is not satisfied: ")
    assert body["message"].endswith(f" at {body['path']}")
    assert body["retryable"] is False
