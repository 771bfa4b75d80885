"""The interface description against the live service: random requests, and answers as described."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from in_process_service import Listen
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from prover.http.description.openapi import document
from prover.keys.store.key_store import KeyStore
from prover.queue.store import JobStore

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
SCHEMA = schemathesis.openapi.from_dict(document())
OPERATIONS = {found.ok().label: found.ok() for found in SCHEMA.get_all_operations() if isinstance(found, Ok)}

bounded = settings(
    max_examples=25,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def test_operations__described__are_all_readable() -> None:
    assert len(OPERATIONS) == sum(len(methods) for methods in document()["paths"].values())


@pytest.mark.parametrize("label", sorted(OPERATIONS))
async def test_answers__to_random_requests__are_as_described(
    listen: Listen, published_keys: KeyStore, job_store: JobStore, label: str
) -> None:
    _, port = await listen(published_keys, job_store, http={"api_keys": "tester:admin=testers-key"})

    @bounded
    @given(case=OPERATIONS[label].as_strategy(), authorized=st.sampled_from([True, True, True, False]))
    def send(case: Any, authorized: bool) -> None:
        case.headers = {**(case.headers or {})}
        case.headers.pop("X-API-Key", None)
        if authorized:
            case.headers["X-API-Key"] = "testers-key"
        case.call_and_validate(base_url=f"http://127.0.0.1:{port}", checks=CHECKS)

    await asyncio.to_thread(send)
