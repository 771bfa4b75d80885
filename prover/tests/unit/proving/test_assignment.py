"""Input vectors: their order against golden wires, their shapes, their numbers."""

import hashlib
import json
from typing import Any

import pytest
from golden_vectors import SCALAR_MODULUS, RequestVector, load, number, request_vectors

from prover.errors import MalformedRequest, RequestRejected, ShapeMismatch
from prover.proving.assignment import Assignment
from prover.proving.request import read_envelope, read_task


def assign(request: dict[str, Any]) -> Assignment:
    body = json.dumps(request).encode()
    return read_task(read_envelope(body), known=None).assignment


def scalars(data: bytes) -> list[int]:
    return [int.from_bytes(data[at : at + 32], "big") for at in range(0, len(data), 32)]


def vector(name: str) -> dict[str, Any]:
    request: dict[str, Any] = load(f"prover/{name}.json")
    return request


@pytest.mark.parametrize("golden", request_vectors(), ids=lambda golden: golden.name)
def test_assignment__of_a_golden_request__starts_with_its_public_inputs(golden: RequestVector) -> None:
    assignment = assign(golden.request)
    assert scalars(assignment.public_inputs) == list(golden.public_inputs)
    assert assignment.inputs.startswith(assignment.public_inputs)
    assert assignment.reduced == ()


@pytest.mark.parametrize(
    "golden",
    [golden for golden in request_vectors() if golden.inputs_sha256],
    ids=lambda golden: golden.name,
)
def test_assignment__of_a_golden_request__has_the_digest_of_the_reference(golden: RequestVector) -> None:
    assert hashlib.sha256(assign(golden.request).inputs).hexdigest() == golden.inputs_sha256


@pytest.mark.parametrize("name", ["inclusion_32_1", "mainnet_inclusion_26_1", "non-inclusion_40_1"])
def test_assignment__of_a_published_request__equals_the_first_wires(name: str) -> None:
    golden = load(f"gnark/{name}.json")
    values = scalars(assign(golden["request"]).inputs)
    public = [number(text) for text in golden["public_inputs"]]
    assert values[: len(public)] == public
    assert values[len(public) :][:3] == [number(text) for text in golden["secret_inputs_first3"]]
    assert [1, *values][:5] == [number(text) for text in golden["witness"]["first5"]]
    assert len(values) == golden["r1cs"]["nb_public"] - 1 + golden["r1cs"]["nb_secret"]


KEY_ROWS = {row["file"].removesuffix(".key"): row for row in load("gnark/keys.json")["rows"]}


@pytest.mark.parametrize(
    "golden",
    [golden for golden in request_vectors() if golden.circuit in KEY_ROWS],
    ids=lambda golden: golden.name,
)
def test_assignment__of_a_golden_request__has_one_value_per_input(golden: RequestVector) -> None:
    row = KEY_ROWS[golden.circuit]
    assert len(assign(golden.request).inputs) == 32 * (row["nbPublic"] - 1 + row["nbSecret"])


MERKLE_PATHS = [
    ("v2_inclusion_32_2", "inputCompressedAccounts", 0),
    ("v2_inclusion_32_2", "inputCompressedAccounts", 1),
    ("v1_inclusion_26_2", "inputCompressedAccounts", 1),
    ("v2_non-inclusion_40_2", "newAddresses", 1),
    ("v1_non-inclusion_26_2", "newAddresses", 1),
    ("v2_combined_32_40_1_2", "inputCompressedAccounts", 0),
    ("v2_combined_32_40_1_2", "newAddresses", 1),
    ("v1_combined_26_26_2_1", "inputCompressedAccounts", 1),
]


@pytest.mark.parametrize(("name", "member", "index"), MERKLE_PATHS)
@pytest.mark.parametrize("change", [-1, 1, -1000])
def test_shape__of_any_account_path__is_checked(name: str, member: str, index: int, change: int) -> None:
    request = vector(name)
    elements = request[member][index]["pathElements"]
    request[member][index]["pathElements"] = [*elements, "0x0"] if change > 0 else elements[:change]
    with pytest.raises(ShapeMismatch, match="wrong size of merkle proof") as caught:
        assign(request)
    assert caught.value.path == f"$.{member}[{index}].pathElements"
    assert caught.value.path in caught.value.detail


BATCH_ARRAYS = [
    ("batch_append_32_10", name) for name in ("leaves", "oldLeaves", "merkleProofs")
] + [
    ("batch_update_32_10", name)
    for name in ("txHashes", "leaves", "oldLeaves", "newMerkleProofs", "pathIndices")
] + [
    ("batch_address-append_40_10", name)
    for name in (
        "lowElementValues",
        "lowElementIndices",
        "lowElementNextValues",
        "newElementValues",
        "lowElementProofs",
        "newElementProofs",
    )
]  # fmt: skip


@pytest.mark.parametrize(("name", "member"), BATCH_ARRAYS)
@pytest.mark.parametrize("change", ["shorter", "longer", "empty", "absent"])
def test_shape__of_any_batch_array__is_checked(name: str, member: str, change: str) -> None:
    request = vector(name)
    array = request[member]
    request[member] = {"shorter": array[:-1], "longer": array + array[:1], "empty": [], "absent": []}[change]
    if change == "absent":
        del request[member]
    with pytest.raises(RequestRejected, match=r"length mismatch|wrong number of") as caught:
        assign(request)
    assert member in caught.value.detail


@pytest.mark.parametrize(("name", "member"), [entry for entry in BATCH_ARRAYS if entry[1].lower().endswith("proofs")])
@pytest.mark.parametrize("index", [0, 3, 9])
def test_shape__of_any_batch_path__is_checked(name: str, member: str, index: int) -> None:
    request = vector(name)
    del request[member][index][-1]
    with pytest.raises(ShapeMismatch, match=f"for proof {index + 1}:") as caught:
        assign(request)
    assert caught.value.path == f"$.{member}[{index}]"


def test_shape__append_leaves_and_old_leaves_differ__is_malformed() -> None:
    request = vector("batch_append_32_10")
    del request["leaves"][0]
    with pytest.raises(MalformedRequest, match="array length mismatch: leaves=9, oldLeaves=10"):
        assign(request)


def number_places(value: Any, path: str = "$") -> list[tuple[str, Any, Any]]:
    """Return every (path, container, key) of a hexadecimal string in a request."""
    entries: list[tuple[str, Any, Any]]
    if isinstance(value, dict):
        entries = [(f"{path}.{key}", value, key) for key in value if key not in ("circuitType", "treeId")]
    elif isinstance(value, list):
        entries = [(f"{path}[{index}]", value, index) for index in range(len(value))]
    else:
        return []
    places: list[tuple[str, Any, Any]] = []
    for place, container, key in entries:
        places += [(place, container, key)] if isinstance(container[key], str) else number_places(container[key], place)
    return places


@pytest.mark.parametrize(
    "name",
    [
        "v1_inclusion_26_2",
        "v2_inclusion_32_1",
        "v1_non-inclusion_26_1",
        "v2_non-inclusion_40_2",
        "v2_combined_32_40_1_1",
        "v1_combined_26_26_1_1",
    ],
)
@pytest.mark.parametrize("text", ["0xzz", "", "0X1"])
def test_number__misspelt_anywhere__is_named_by_its_path(name: str, text: str) -> None:
    for place, _, _ in number_places(vector(name)):
        request = vector(name)
        container, key = next((c, k) for path, c, k in number_places(request) if path == place)
        container[key] = text
        if place == "$.publicInputHash" and text == "":
            continue  # absent and empty are the same for this member
        with pytest.raises(MalformedRequest, match="invalid number: ") as caught:
            assign(request)
        assert caught.value.path == place


@pytest.mark.parametrize("name", ["batch_append_32_10", "batch_update_32_10", "batch_address-append_40_10"])
def test_number__misspelt_in_a_batch__is_named_by_its_path(name: str) -> None:
    for place, _, _ in number_places(vector(name))[::37]:
        request = vector(name)
        container, key = next((c, k) for path, c, k in number_places(request) if path == place)
        container[key] = "0xzz"
        with pytest.raises(MalformedRequest, match="invalid number: zz") as caught:
            assign(request)
        assert caught.value.path == place


def test_number__outside_the_field__is_reduced_and_flagged() -> None:
    request = vector("v2_inclusion_32_1")
    before = assign(request)
    account = request["inputCompressedAccounts"][0]
    account["leaf"] = hex(number(account["leaf"]) + SCALAR_MODULUS)
    after = assign(request)
    assert after.inputs == before.inputs
    assert after.reduced == ("$.inputCompressedAccounts[0].leaf",)


def test_number__first_misspelt_then_misshaped__is_reported_as_misspelt() -> None:
    request = vector("v2_inclusion_32_1")
    request["inputCompressedAccounts"][0]["leaf"] = "zz"
    del request["inputCompressedAccounts"][0]["pathElements"][0]
    with pytest.raises(MalformedRequest, match="invalid number"):
        assign(request)


def test_hash__absent_in_version_2__counts_as_zero() -> None:
    request = vector("v2_non-inclusion_40_1")
    del request["publicInputHash"]
    assert assign(request).public_inputs == bytes(32)


def test_hash__absent_in_combined_version_2__is_malformed() -> None:
    request = vector("v2_combined_32_40_1_1")
    del request["publicInputHash"]
    with pytest.raises(MalformedRequest, match="publicInputHash"):
        assign(request)


@pytest.mark.parametrize("name", ["v1_non-inclusion_26_1", "v1_combined_26_26_1_1"])
def test_hash__given_to_version_1__is_ignored_whatever_it_says(name: str) -> None:
    request = vector(name)
    before = assign(request)
    request["publicInputHash"] = "not a number"
    assert assign(request) == before


def test_next_index__in_version_2__is_ignored() -> None:
    request = vector("v2_non-inclusion_40_1")
    before = assign(request)
    request["newAddresses"][0]["nextIndex"] = 7
    assert assign(request) == before
