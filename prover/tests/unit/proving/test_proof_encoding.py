"""Proof points and their JSON."""

import json

import pytest
from golden_vectors import load
from hypothesis import given
from hypothesis import strategies as st

from prover.errors import MalformedProof
from prover.proving.proof_encoding import read_proof, to_json, to_points
from shared.requests.proof_wire import ProofJson, decode_proof, encode_proof
from shared.trees.field import BASE_MODULUS

coordinates = st.lists(st.integers(0, BASE_MODULUS - 1), min_size=8, max_size=8)


@given(coordinates)
def test_proof__any_coordinates__round_trip_in_579_bytes(values: list[int]) -> None:
    points = b"".join(value.to_bytes(32, "big") for value in values)
    body = encode_proof(to_json(points))
    assert len(body) == 579
    assert read_proof(body) == points


def test_proof__imaginary_part__comes_first() -> None:
    points = b"".join(index.to_bytes(32, "big") for index in range(8))
    proof = to_json(points)
    assert [int(text, 16) for text in (*proof.ar, *proof.bs[0], *proof.bs[1], *proof.krs)] == list(range(8))


def test_proof__of_the_golden_file__is_read_unpadded_and_unprefixed() -> None:
    golden = load("gnark/inclusion_32_1.json")["proof"]
    padded = decode_proof(json.dumps(golden).encode())

    def shorten(text: str) -> str:
        return text.removeprefix("0x").lstrip("0").upper()

    short = ProofJson(
        ar=(shorten(padded.ar[0]), shorten(padded.ar[1])),
        bs=((shorten(padded.bs[0][0]), shorten(padded.bs[0][1])), (shorten(padded.bs[1][0]), shorten(padded.bs[1][1]))),
        krs=(shorten(padded.krs[0]), shorten(padded.krs[1])),
    )
    assert to_points(short) == to_points(padded)
    assert to_json(to_points(short)) == padded


@pytest.mark.parametrize(
    ("text", "path"), [("0xzz", "$.bs[1][0]"), (hex(BASE_MODULUS), "$.bs[1][0]"), ("-1", "$.bs[1][0]")]
)
def test_proof__with_a_bad_coordinate__is_malformed(text: str, path: str) -> None:
    proof = ProofJson(ar=("1", "2"), bs=(("3", "4"), (text, "6")), krs=("7", "8"))
    with pytest.raises(MalformedProof) as caught:
        to_points(proof)
    assert caught.value.path == path


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"ar":["1","2"]}'])
def test_proof__that_is_no_proof_json__is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedProof):
        read_proof(body)


def test_points__of_a_wrong_length__are_refused() -> None:
    with pytest.raises(ValueError, match="256 bytes"):
        to_json(bytes(255))
