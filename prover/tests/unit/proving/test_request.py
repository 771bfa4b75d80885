"""The circuit that a request selects, and the errors if there is none."""

import json
from typing import Any

import pytest
from golden_vectors import load
from structlog.testing import capture_logs

from prover.errors import CircuitNotPublished, MalformedRequest, RequestRejected
from prover.keys.catalogue.circuits import PUBLISHED_CIRCUITS
from prover.proving.request import MAXIMUM_VALUES, ProofTask, read_envelope, read_public_inputs, read_task


def read(request: dict[str, Any]) -> ProofTask:
    body = json.dumps(request).encode()
    return read_task(read_envelope(body), PUBLISHED_CIRCUITS)


def vector(name: str, **changes: Any) -> dict[str, Any]:
    request: dict[str, Any] = load(f"prover/{name}.json")
    return request | changes


@pytest.mark.parametrize(
    "name",
    [
        "v1_inclusion_26_1",
        "v2_inclusion_32_2",
        "v1_non-inclusion_26_2",
        "v2_non-inclusion_40_1",
        "v1_combined_26_26_2_1",
        "v2_combined_32_40_1_2",
        "batch_append_32_10",
        "batch_update_32_10",
        "batch_address-append_40_10",
    ],
)
def test_request__of_every_family__selects_its_circuit(name: str) -> None:
    assert read(vector(name)).circuit.name == name


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (vector("v2_inclusion_32_1", publicInputHash=""), "inclusion proof: .* inc\\(32,1\\) non\\(0,0\\) v1"),
        (vector("v2_inclusion_32_1", stateTreeHeight=31), "inc\\(31,1\\) non\\(0,0\\) v2"),
        (vector("gen-test-params_26_1"), "inc\\(26,1\\) non\\(0,0\\) v2"),
        (
            vector("v1_non-inclusion_26_1", addressTreeHeight=27),
            "non-inclusion proof: .* inc\\(0,0\\) non\\(27,1\\) v1",
        ),
        (vector("v2_combined_32_40_1_1", addressTreeHeight=26), "combined proof: .* inc\\(32,1\\) non\\(26,1\\) v1"),
        (vector("v2_combined_32_40_1_1", newAddresses=[]), "combined proof: no key file mapping"),
        (vector("v2_inclusion_32_1", inputCompressedAccounts=[]), "must specify either inclusion or non-inclusion"),
        (vector("v2_inclusion_32_1", inputCompressedAccounts=5), "must specify either inclusion or non-inclusion"),
        (vector("v1_inclusion_26_1", inputCompressedAccounts=[{}] * 7), "inc\\(26,7\\)"),
        (vector("batch_append_32_10", batchSize=11), "batch append: .* append with height 32 and batch size 11"),
        (vector("batch_update_32_10", height=31), "batch update: .* update with height 31 and batch size 10"),
        (
            vector("batch_address-append_40_10", treeHeight=32),
            "batch address append: .* address-append with height 32 and batch size 10",
        ),
    ],
)
def test_request__of_no_published_circuit__says_which(request_: dict[str, Any], message: str) -> None:
    with pytest.raises(CircuitNotPublished, match=message) as caught:
        read(request_)
    assert caught.value.code == "proving_error"


def test_request__merkle_of_no_published_circuit__is_judged_before_its_members() -> None:
    with pytest.raises(CircuitNotPublished):
        read(vector("v2_inclusion_32_1", stateTreeHeight=31, inputCompressedAccounts=[{"leaf": 5}]))


def test_request__batch_of_no_published_circuit__is_judged_after_its_members() -> None:
    with pytest.raises(MalformedRequest, match="invalid number"):
        read({"circuitType": "update", "height": 32})


def test_request__with_one_list_empty__never_becomes_another_circuit() -> None:
    for member in ("newAddresses", "inputCompressedAccounts"):
        with pytest.raises(RequestRejected):
            read(vector("v2_combined_32_40_1_1", **{member: []}))


@pytest.mark.parametrize(
    "request_",
    [
        vector("batch_append_32_10", batchSize=0, leaves=[], oldLeaves=[], merkleProofs=[]),
        vector("batch_append_32_10", height=0, merkleProofs=[[]] * 10),
        vector("v2_combined_32_40_1_1", newAddresses=[]),
    ],
)
def test_request__with_nothing_to_prove__has_no_circuit_even_where_any_size_is_known(request_: dict[str, Any]) -> None:
    with pytest.raises(CircuitNotPublished):
        read_task(read_envelope(json.dumps(request_).encode()), known=None)


def test_request__with_a_fractional_height__is_malformed() -> None:
    with pytest.raises(MalformedRequest):
        read(vector("v2_inclusion_32_1", stateTreeHeight=32.5))


def test_body__with_more_values_than_any_batch__is_refused_before_it_is_read() -> None:
    body = b'{"circuitType":"append","height":32,"leaves":[' + b"0," * MAXIMUM_VALUES + b"0]}"
    with pytest.raises(MalformedRequest, match=f"more than {MAXIMUM_VALUES} values"):
        read_envelope(body)


def test_number__outside_the_field__is_logged_by_its_path() -> None:
    request = vector("v2_inclusion_32_1", publicInputHash="0x" + "f" * 64)
    with capture_logs() as lines:
        task = read(request)
    assert task.assignment.reduced == ("$.publicInputHash",)
    assert [(line["event"], line["paths"]) for line in lines] == [("request_numbers_reduced", ("$.publicInputHash",))]


def test_public_inputs__of_a_batch__are_read_without_its_other_members() -> None:
    request = vector("batch_append_32_10", leaves=5, merkleProofs="x")
    expected = bytes.fromhex(request["publicInputHash"].removeprefix("0x").zfill(64))
    assert read_public_inputs(read_envelope(json.dumps(request).encode())) == expected
