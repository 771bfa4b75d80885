"""Texts that decoders refuse and the reference accepts: halves of surrogate pairs, numbers that are null."""

import json

import pytest

from shared.requests.circuit_id import CircuitKind
from shared.requests.proof_wire import (
    Envelope,
    InclusionRequest,
    NonInclusionRequest,
    WireError,
    decode_request,
    split_body,
)
from shared.requests.proof_wire_leniency import without_lone_surrogates

HEAD = b'{"circuitType":"inclusion","stateTreeHeight":32,'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (rb"\ud800", rb"\ufffd"),
        (rb"\uDFFFx", rb"\ufffdx"),
        (rb"\ud83d\ude00", rb"\ud83d\ude00"),
        (rb"\ude00\ud83d\ude00\ud83d", rb"\ufffd\ud83d\ude00\ufffd"),
        (rb"\ud800\u0041", rb"\ufffd\u0041"),
        (rb"\uD83D\n\uDE00", rb"\ufffd\n\ufffd"),
        (rb"\\ud800", rb"\\ud800"),
        (rb"\\\ud800", rb"\\\ufffd"),
        (rb"\\ud83d\ude00", rb"\\ud83d\ufffd"),
        (rb"\ud7ff\ue000\u00e9\"", rb"\ud7ff\ue000\u00e9\""),
        (rb"\ud80", rb"\ud80"),
    ],
)
def test_lone_surrogates__of_a_text__are_replaced_and_nothing_else(text: bytes, expected: bytes) -> None:
    assert without_lone_surrogates(text) == expected


@pytest.mark.parametrize("value", [rb'"\ud800"', rb'"\udc00"', rb'"\ud800\ud800"', rb'{"\ud800":["\udfff\\\\"]}'])
@pytest.mark.parametrize("end", [b"}", b',"y":1}'])
def test_request__with_a_lone_surrogate_in_an_ignored_member__is_read(value: bytes, end: bytes) -> None:
    body = HEAD + b'"x":' + value + end
    assert Envelope.read(body).state_tree_height == 32
    assert decode_request(split_body(body), CircuitKind.INCLUSION) == InclusionRequest(state_tree_height=32)


def test_envelope__tree_with_a_lone_surrogate__has_the_replacement_in_its_name() -> None:
    assert Envelope.read(HEAD + b'"treeId":"a\\ud800"}').tree_id == "a\ufffd"


@pytest.mark.parametrize(
    ("end", "message"),
    [
        (rb'"x":"\u1"}', "invalid character"),
        (rb'"x":"\ud800","y":"\u1"}', "invalid character"),
        (rb'"x":"\ud800",}', "trailing comma"),
        (rb'"x":"\ud800"', "the text ends too early"),
        (rb'"x":"\ud8', "the text ends too early"),
    ],
)
def test_envelope__of_a_broken_text__says_truncated_only_if_it_is(end: bytes, message: str) -> None:
    with pytest.raises(WireError, match=message) as caught:
        Envelope.read(HEAD + end)
    assert "truncated" not in str(caught.value)


@pytest.mark.parametrize("kind", CircuitKind)
def test_request__with_null_numbers__is_that_without_them(kind: CircuitKind) -> None:
    names = ("stateTreeHeight", "addressTreeHeight", "height", "treeHeight", "batchSize", "startIndex")
    body = json.dumps(dict.fromkeys(names)).encode()
    assert decode_request(split_body(body), kind) == decode_request({}, kind)


def test_request__with_null_numbers_in_its_elements__has_zeros_there() -> None:
    account = b'{"pathIndex":null,"nextIndex":null,"root":"0x1","pathElements":["0x2"]}'
    request = decode_request(
        split_body(b'{"x":"\\ud800","newAddresses":[%b,%b]}' % (account, account)), CircuitKind.NON_INCLUSION
    )
    assert isinstance(request, NonInclusionRequest)
    assert [(a.path_index, a.next_index, a.root, a.path_elements) for a in request.new_addresses] == [
        (0, 0, "0x1", ("0x2",))
    ] * 2


@pytest.mark.parametrize(
    ("members", "path"),
    [
        ({"pathIndex": None, "leaf": None}, "$.inputCompressedAccounts[0].leaf"),
        ({"pathIndex": None, "pathElements": [None]}, "$.inputCompressedAccounts[0].pathElements[0]"),
        ({"pathIndex": None, "root": 5}, "$.inputCompressedAccounts[0].root"),
        ({"pathIndex": None, "root": 2**4000}, "$.inputCompressedAccounts[0].root"),
        ({"pathIndex": 1.0}, "$.inputCompressedAccounts[0].pathIndex"),
    ],
)
def test_request__with_null_numbers_and_a_wrong_type__names_the_latter(members: dict[str, object], path: str) -> None:
    with pytest.raises(WireError) as caught:
        decode_request(split_body(json.dumps({"inputCompressedAccounts": [members]}).encode()), CircuitKind.INCLUSION)
    assert caught.value.path == path


def test_path_indices__with_a_null__are_refused() -> None:
    with pytest.raises(WireError, match=r"pathIndices\[1\]"):
        decode_request(split_body(b'{"pathIndices":[0,null]}'), CircuitKind.BATCH_UPDATE)


@pytest.mark.parametrize("value", [5, [], {}, True])
def test_public_input_hash__of_a_wrong_type__is_ignored_in_version_1_alone(value: object) -> None:
    body = json.dumps({"stateTreeHeight": 26, "publicInputHash": value}).encode()
    assert decode_request(split_body(body), CircuitKind.INCLUSION, 1) == InclusionRequest(state_tree_height=26)
    with pytest.raises(WireError) as caught:
        decode_request(split_body(body), CircuitKind.INCLUSION, 2)
    assert caught.value.path == "$.publicInputHash"


def test_request__with_a_null_and_a_number_out_of_range__names_an_existing_position() -> None:
    body = b'{"batchSize":null,"startIndex":1e400}'
    with pytest.raises(WireError, match=r"failed to parse JSON: .*out of range") as raised:
        decode_request(split_body(body), CircuitKind.BATCH_APPEND)
    assert raised.value.path == "$.startIndex"
