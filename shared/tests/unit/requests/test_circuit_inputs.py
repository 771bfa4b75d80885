"""Inputs of circuits: order, shapes, names and JSON paths."""

from typing import Any

import pytest

from shared.requests.circuit_id import CircuitId, CircuitKind
from shared.requests.circuit_inputs import CircuitInput, NamedValues, inputs_of, request_of
from shared.requests.proof_wire import (
    BatchAppendRequest,
    CombinedRequest,
    ProofRequest,
    decode_request,
    encode_request,
    split_body,
)

COMBINED = CircuitId(CircuitKind.COMBINED, 2, (2, 3), (1, 2))
PATHS = CircuitInput("InPathElements", "newAddresses[].pathElements[]", part=1)


@pytest.mark.parametrize(
    ("each", "position", "path"),
    [
        (CircuitInput("OldRoot", "oldRoot"), (), "$.oldRoot"),
        (CircuitInput("Leaves", "leaves[]"), (), "$.leaves"),
        (CircuitInput("Leaves", "leaves[]"), (4,), "$.leaves[4]"),
        (CircuitInput("Values", "newAddresses[].value"), (1,), "$.newAddresses[1].value"),
        (PATHS, (), "$.newAddresses"),
        (PATHS, (1,), "$.newAddresses[1].pathElements"),
        (PATHS, (1, 2), "$.newAddresses[1].pathElements[2]"),
    ],
)
def test_path__of_a_position__is_that_in_the_request(each: CircuitInput, position: tuple[int, ...], path: str) -> None:
    assert each.path(*position) == path


def test_wire_names__of_a_matrix__go_row_by_row() -> None:
    assert PATHS.shape(COMBINED) == (2, 3)
    assert PATHS.wire_names(COMBINED) == [f"InPathElements_{row}_{column}" for row in (0, 1) for column in (0, 1, 2)]
    assert CircuitInput("OldRoot", "oldRoot").wire_names(COMBINED) == ["OldRoot"]


@pytest.mark.parametrize("kind", CircuitKind)
def test_inputs__of_any_circuit__begin_with_the_public_ones(kind: CircuitKind) -> None:
    for version in (2,) if kind.is_batch else (1, 2):
        inputs = inputs_of(kind, version)
        public = [each.is_public for each in inputs]
        assert public == sorted(public, reverse=True)
        assert sum(public) == (1 if version == 2 else 4 if kind is CircuitKind.COMBINED else 2)
        assert len({each.name for each in inputs}) == len({each.member for each in inputs}) == len(inputs)


def test_named_values__of_a_combined_circuit__are_found_by_name() -> None:
    names = [name for each in inputs_of(COMBINED.kind, 2) for name in each.wire_names(COMBINED)]
    values = NamedValues(COMBINED, names)
    assert values.scalar("PublicInputHash") == "PublicInputHash"
    assert values.vector("NonInclusion_Values") == ["NonInclusion_Values_0", "NonInclusion_Values_1"]
    assert values.matrix("Inclusion_InPathElements") == [
        ["Inclusion_InPathElements_0_0", "Inclusion_InPathElements_0_1"]
    ]
    assert values.matrix("NonInclusion_InPathElements")[1][2] == names[-1] == "NonInclusion_InPathElements_1_2"
    assert "NonInclusion_NextIndices" not in values
    assert "Inclusion_Leaves" in values


def test_request_of__values_by_name__are_read_back_from_the_request() -> None:
    values = {
        each.name: filled(each.shape(COMBINED), 7 if each.is_index else bytes([7] * 32))
        for each in inputs_of(COMBINED.kind, 2)
    }
    request = request_of(CombinedRequest, COMBINED, values)
    assert (request.state_tree_height, request.address_tree_height) == COMBINED.heights
    assert request == decoded_again(request)
    written = {True: 7, False: "0x" + "07" * 32}
    for each in inputs_of(COMBINED.kind, 2):
        read = each.values_in(request)
        while each.dimensions and isinstance(read, list | tuple):
            assert len(read) in each.shape(COMBINED)
            read = read[0]
        assert read == written[each.is_index], each.name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"OldRoot": None}, "missing or unknown: OldRoot"),
        ({"Roots": []}, "missing or unknown: Roots"),
        ({"Leaves": [bytes(32)]}, "Leaves: 1 elements in place of 2"),
        ({"MerkleProofs": [[bytes(32)] * 3, [bytes(32)] * 4]}, "MerkleProofs: 4 elements in place of 3"),
    ],
)
def test_request_of__values_of_another_shape__names_the_input(change: dict[str, Any], message: str) -> None:
    circuit = CircuitId(CircuitKind.BATCH_APPEND, 2, (3,), (2,))
    values = {
        each.name: filled(each.shape(circuit), 0 if each.is_index else bytes(32)) for each in inputs_of(circuit.kind, 2)
    }
    values = {name: value for name, value in (values | change).items() if value is not None}
    with pytest.raises(ValueError, match=message):
        request_of(BatchAppendRequest, circuit, values)


def filled(shape: tuple[int, ...], value: object) -> Any:
    """Return nested lists of a shape with one value."""
    return [filled(shape[1:], value) for _ in range(shape[0])] if shape else value


def decoded_again(request: CombinedRequest) -> ProofRequest:
    """Return a request as it is decoded from its encoding."""
    return decode_request(split_body(encode_request(request)), COMBINED.kind)
