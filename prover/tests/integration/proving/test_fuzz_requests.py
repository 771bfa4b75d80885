"""Whatever a client sends, the answer is 4xx (or a proof): never a crash, never 5xx.

Bodies are mutated as JSON trees and as bytes, and go through the same functions that the server calls,
keys and kernel included.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from golden_vectors import SCALAR_MODULUS, vector_named
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from prover.errors import KeyMissing, ProverError
from prover.kernel.cancellation import CancelFlag
from prover.keys.catalogue.circuits import PUBLISHED_CIRCUITS
from prover.keys.store.key_store import KeyStore
from prover.observability.metrics import Metrics
from prover.proving.admission import Admission
from prover.proving.request import read_envelope, read_task
from prover.proving.service import ProvingService

MERKLE = (
    "v1_inclusion_26_1",
    "v2_inclusion_32_1",
    "v1_non-inclusion_26_1",
    "v2_non-inclusion_40_1",
    "v2_combined_32_40_1_1",
)
BATCH = ("batch_append_32_10", "batch_update_32_10", "batch_address-append_40_10")

quick = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)

odd_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(["", "0x", "0X1", "-0x1", "0x-1", "zz", "0x" + "f" * 64, "f" * 4000, hex(SCALAR_MODULUS), "1_0"]),
    st.lists(st.none(), max_size=3),
    st.dictionaries(st.sampled_from(["root", "leaf", "pathIndex"]), st.none(), max_size=2),
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return every (container, key) of a JSON tree."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    found: list[tuple[Any, Any]] = []
    for key in keys:
        found.append((value, key))
        found += places(value[key])
    return found


@st.composite
def mutated(draw: st.DrawFn, names: tuple[str, ...]) -> bytes:
    """Return a golden request with a few members replaced, removed, duplicated or swapped."""
    request = copy.deepcopy(vector_named(f"prover/{draw(st.sampled_from(names))}").request)
    for _ in range(draw(st.integers(1, 3))):
        container, key = draw(st.sampled_from(places(request)))
        action = draw(st.sampled_from(("replace", "remove", "duplicate", "wrap")))
        try:
            if action == "replace":
                container[key] = draw(odd_values)
            elif action == "remove":
                del container[key]
            elif action == "duplicate" and isinstance(container, list):
                container.insert(key, copy.deepcopy(container[key]))
            else:
                container[key] = [container[key]]
        except (KeyError, IndexError):
            pass  # an earlier change took the place away
    return json.dumps(request).encode()


@pytest.fixture
def service(published_keys: KeyStore) -> ProvingService:
    metrics = Metrics(CollectorRegistry())
    return ProvingService(published_keys, Admission(2, 10, metrics), metrics)


def answer(service: ProvingService, body: bytes) -> None:
    """Do what POST /prove does; only outcomes that blame the request are fine."""
    try:
        task = read_task(read_envelope(body), PUBLISHED_CIRCUITS)
        service.prove(task, CancelFlag())
    except KeyMissing:
        return  # a published circuit without a key here
    except ProverError as error:
        refusal = error
    else:
        return
    assert 400 <= refusal.status < 500, repr(refusal)
    assert len(refusal.detail) < 1000


@quick
@given(body=mutated(MERKLE))
def test_merkle_request__mutated__is_answered(service: ProvingService, body: bytes) -> None:
    answer(service, body)


@quick
@given(body=mutated(BATCH))
def test_batch_request__mutated__is_answered(service: ProvingService, body: bytes) -> None:
    answer(service, body)


@quick
@given(
    name=st.sampled_from(MERKLE),
    at=st.floats(0, 1, exclude_max=True),
    size=st.integers(0, 40),
    patch=st.binary(max_size=20),
)
def test_request__with_bytes_replaced__is_answered(
    service: ProvingService, name: str, at: float, size: int, patch: bytes
) -> None:
    body = vector_named(f"prover/{name}").body
    start = int(at * len(body))
    answer(service, body[:start] + patch + body[start + size :])


@quick
@given(body=st.binary(max_size=200))
def test_request__of_arbitrary_bytes__is_answered(service: ProvingService, body: bytes) -> None:
    answer(service, body)


@quick
@given(
    body=st.recursive(
        odd_values,
        lambda inner: st.dictionaries(
            st.sampled_from(
                [
                    "circuitType",
                    "stateTreeHeight",
                    "addressTreeHeight",
                    "height",
                    "batchSize",
                    "publicInputHash",
                    "inputCompressedAccounts",
                    "newAddresses",
                    "leaves",
                    "startIndex",
                    "treeId",
                ]
            ),
            inner
            | st.sampled_from(
                ["inclusion", "non-inclusion", "combined", "append", "update", "address-append", 32, 26, 40]
            ),
            max_size=8,
        ),
        max_leaves=12,
    )
)
def test_request__of_arbitrary_json__is_answered(service: ProvingService, body: Any) -> None:
    answer(service, json.dumps(body).encode())
