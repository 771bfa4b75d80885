"""The envelope and the strict pass over request bodies."""

import json
from typing import Any

import pytest

from shared.requests.circuit_id import CircuitKind
from shared.requests.proof_wire import (
    BatchAppendRequest,
    CombinedRequest,
    Envelope,
    InclusionRequest,
    NonInclusionRequest,
    ProofJson,
    WireError,
    batch_circuit,
    decode_proof,
    decode_request,
    encode_proof,
    encode_request,
    split_body,
)


def envelope(**members: Any) -> Envelope:
    return Envelope.read(json.dumps(members).encode())


def test_envelope__of_null__lacks_a_circuit_type() -> None:
    with pytest.raises(WireError, match="circuitType"):
        Envelope.read(b" null ")


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"5", b'"x"', b"{}x", b'{"a":}', b"\xff", b'{"circuitType":"\xff"}', b"{" * 5000, b"nul"],
)
def test_envelope__of_what_is_no_object__fails_to_parse(body: bytes) -> None:
    with pytest.raises(WireError, match="failed to parse JSON"):
        Envelope.read(body)


def test_envelope__nested_deeply__fails_to_parse() -> None:
    body = b'{"circuitType":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with pytest.raises(WireError, match="nested too deeply"):
        Envelope.read(body)


@pytest.mark.parametrize("circuit_type", [None, "", 5, [], {}, True])
def test_envelope__without_a_usable_circuit_type__is_refused(circuit_type: object) -> None:
    with pytest.raises(WireError, match="circuitType") as caught:
        envelope(circuitType=circuit_type, stateTreeHeight=32)
    assert caught.value.path == "$.circuitType"


@pytest.mark.parametrize("height", [None, "32", 0, -32, True, [], 0.0])
def test_envelope__with_an_unusable_height__counts_it_as_absent(height: object) -> None:
    with pytest.raises(WireError, match="Height"):
        envelope(circuitType="inclusion", stateTreeHeight=height)


@pytest.mark.parametrize("member", ["stateTreeHeight", "addressTreeHeight", "treeHeight", "height"])
def test_envelope__with_any_height__is_read(member: str) -> None:
    assert envelope(circuitType="update", **{member: 32}).kind is CircuitKind.BATCH_UPDATE


@pytest.mark.parametrize("circuit_type", ["foo", "Inclusion", "append-with-proofs", "inclusion "])
def test_envelope__of_an_unknown_circuit__is_refused(circuit_type: str) -> None:
    with pytest.raises(WireError, match="unknown circuit type"):
        envelope(circuitType=circuit_type, stateTreeHeight=32)


def test_envelope__of_a_long_unknown_circuit__does_not_echo_all_of_it() -> None:
    with pytest.raises(WireError) as caught:
        envelope(circuitType="x" * 100_000, stateTreeHeight=32)
    assert len(str(caught.value)) < 200


def test_envelope__member_names__are_case_sensitive() -> None:
    with pytest.raises(WireError, match="circuitType"):
        envelope(CircuitType="inclusion", stateTreeHeight=32)


def test_envelope__duplicate_members__last_wins() -> None:
    read = Envelope.read(b'{"circuitType":"foo","circuitType":"inclusion","stateTreeHeight":1,"stateTreeHeight":32}')
    assert (read.kind, read.state_tree_height) == (CircuitKind.INCLUSION, 32)


@pytest.mark.parametrize(
    ("members", "version"),
    [
        ({"circuitType": "inclusion", "stateTreeHeight": 32, "publicInputHash": "0x1"}, 2),
        ({"circuitType": "inclusion", "stateTreeHeight": 26, "publicInputHash": "0x1"}, 2),
        ({"circuitType": "inclusion", "stateTreeHeight": 32, "publicInputHash": ""}, 1),
        ({"circuitType": "inclusion", "stateTreeHeight": 32, "publicInputHash": 5}, 1),
        ({"circuitType": "inclusion", "stateTreeHeight": 26}, 1),
        ({"circuitType": "non-inclusion", "addressTreeHeight": 40}, 2),
        ({"circuitType": "non-inclusion", "addressTreeHeight": 26, "publicInputHash": "0x1"}, 1),
        ({"circuitType": "non-inclusion", "addressTreeHeight": 32}, 1),
        ({"circuitType": "combined", "stateTreeHeight": 26, "addressTreeHeight": 26, "publicInputHash": "0x1"}, 1),
        ({"circuitType": "combined", "stateTreeHeight": 32, "addressTreeHeight": 40}, 2),
        ({"circuitType": "combined", "stateTreeHeight": 32, "addressTreeHeight": 26, "publicInputHash": "0x1"}, 1),
    ],
)
def test_envelope__version__follows_hash_or_address_height(members: dict[str, Any], version: int) -> None:
    assert envelope(**members).version == version


def test_envelope__circuit__counts_accounts_and_addresses() -> None:
    read = envelope(
        circuitType="combined",
        stateTreeHeight=32,
        addressTreeHeight=40,
        inputCompressedAccounts=[{}, 1, "x"],
        newAddresses=[None],
    )
    assert read.circuit.name == "v2_combined_32_40_3_1"


@pytest.mark.parametrize("value", [None, 5, "x", {}, {"a": [1]}])
def test_envelope__accounts_that_are_no_array__count_as_none(value: object) -> None:
    assert envelope(circuitType="inclusion", stateTreeHeight=32, inputCompressedAccounts=value).accounts == 0


def test_envelope__scheduling_members__are_optional() -> None:
    assert envelope(circuitType="update", height=32).tree_id is None
    assert envelope(circuitType="update", height=32).batch_index == -1
    given = envelope(circuitType="update", height=32, treeId="tree", batchIndex=7)
    assert (given.tree_id, given.batch_index) == ("tree", 7)
    odd = envelope(circuitType="update", height=32, treeId=5, batchIndex="7")
    assert (odd.tree_id, odd.batch_index) == (None, -1)


@pytest.mark.parametrize(
    ("account", "path"),
    [
        ({"leaf": 5}, "$.inputCompressedAccounts[1].leaf"),
        ({"pathIndex": "1"}, "$.inputCompressedAccounts[1].pathIndex"),
        ({"pathIndex": 2**32}, "$.inputCompressedAccounts[1].pathIndex"),
        ({"pathIndex": -1}, "$.inputCompressedAccounts[1].pathIndex"),
        ({"pathIndex": 1.5}, "$.inputCompressedAccounts[1].pathIndex"),
        ({"pathIndex": 1.0}, "$.inputCompressedAccounts[1].pathIndex"),
        ({"pathElements": ["0x1", 2]}, "$.inputCompressedAccounts[1].pathElements[1]"),
        ({"pathElements": "0x1"}, "$.inputCompressedAccounts[1].pathElements"),
        ([], "$.inputCompressedAccounts[1]"),
    ],
)
def test_request__with_a_wrong_type__names_the_place(account: object, path: str) -> None:
    body = json.dumps({"inputCompressedAccounts": [{}, account]}).encode()
    with pytest.raises(WireError) as caught:
        decode_request(split_body(body), CircuitKind.INCLUSION)
    assert caught.value.path == path
    assert path in str(caught.value)


@pytest.mark.parametrize("value", [-1, 2**64, 1.5, "1"])
def test_request__start_index__is_an_unsigned_64_bit_integer(value: object) -> None:
    with pytest.raises(WireError) as caught:
        decode_request(split_body(json.dumps({"startIndex": value}).encode()), CircuitKind.BATCH_APPEND)
    assert caught.value.path == "$.startIndex"


def test_request__largest_start_index__is_read() -> None:
    request = decode_request(
        split_body(json.dumps({"startIndex": 2**64 - 1}).encode()), CircuitKind.BATCH_ADDRESS_APPEND
    )
    assert request.start_index == 2**64 - 1  # type: ignore[union-attr]


def test_request__with_a_member_twice__has_the_last_whatever_the_first_is() -> None:
    members = split_body(b'{"stateTreeHeight":"x","stateTreeHeight":32,"publicInputHash":5,"publicInputHash":"0x1"}')
    expected = InclusionRequest(state_tree_height=32, public_input_hash="0x1")
    assert decode_request(members, CircuitKind.INCLUSION) == expected


def test_members__of_unknown_names__are_omitted() -> None:
    assert list(split_body(b'{"a":1,"\xff":[2],"height":3}')) == ["height"]


def test_request__extra_and_missing_members__are_fine() -> None:
    request = decode_request(split_body(b'{"extra":{"a":[1]},"stateTreeHeight":32}'), CircuitKind.INCLUSION)
    assert request == InclusionRequest(state_tree_height=32)


def test_request__encoded__is_decoded_to_the_same() -> None:
    request = BatchAppendRequest(height=32, batch_size=1, leaves=("0x1",), merkle_proofs=(("0x2",),), start_index=9)
    body = encode_request(request)
    members = json.loads(body)
    assert members["circuitType"] == "append"
    assert members["merkleProofs"] == [["0x2"]]
    assert decode_request(split_body(body), CircuitKind.BATCH_APPEND) == request
    assert batch_circuit(request).name == "batch_append_32_1"


def test_proof__encoded__has_the_documented_form() -> None:
    number = "0x" + "0" * 63 + "1"
    proof = ProofJson(ar=(number, number), bs=((number, number), (number, number)), krs=(number, number))
    body = encode_proof(proof)
    assert len(body) == 579
    assert list(json.loads(body)) == ["ar", "bs", "krs"]
    assert decode_proof(body) == proof


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"null", b'{"ar":["1"],"bs":[["1","1"],["1","1"]],"krs":["1","1"]}', b'{"ar":5}', b"[" * 9999],
)
def test_proof__malformed__is_refused(body: bytes) -> None:
    with pytest.raises(WireError):
        decode_proof(body)


def test_encode_request__without_a_public_input_hash__leaves_the_member_out() -> None:
    for request in (InclusionRequest(state_tree_height=26), NonInclusionRequest(), CombinedRequest()):
        body = encode_request(request)
        assert b"publicInputHash" not in body
        assert decode_request(split_body(body), CircuitKind(request.circuit_type)) == request
    assert b'"publicInputHash":"0x1"' in encode_request(InclusionRequest(public_input_hash="0x1"))


@pytest.mark.parametrize("spelling", [b"null", b'""'])
def test_envelope__public_input_hash_null_or_empty__is_version_1(spelling: bytes) -> None:
    envelope = Envelope.read(b'{"circuitType":"inclusion","stateTreeHeight":26,"publicInputHash":' + spelling + b"}")
    assert envelope.version == 1


@pytest.mark.parametrize("height", [b"4294967296", b"9" * 4000, b"1e308"])
def test_envelope__height_beyond_32_bits__is_cut_short(height: bytes) -> None:
    envelope = Envelope.read(b'{"circuitType":"inclusion","stateTreeHeight":' + height + b"}")
    assert envelope.state_tree_height == 2**32
