"""gnark's byte forms of points: golden vectors, round trips and refusals, in both backends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_library import BACKENDS, Arithmetic, P, R
from key_file import proof_bytes, vectors
from reference_curve import (
    G1,
    G2,
    g1_at,
    g1_bytes,
    g1_compressed,
    g1_from_bytes,
    g2_bytes,
    g2_compressed,
    g2_from_bytes,
    g2_raw,
    multiply,
    negate,
    twist_at,
    word,
)

GOOD, NOT_CANONICAL, BAD_INFINITY, NO_ROOT, OFF_CURVE, OUTSIDE_SUBGROUP, AT_INFINITY = range(7)
ENCODING: Any = vectors("encoding.json")
DECODERS = {"G1": "encoding_g1_decode", "G2": "encoding_g2_decode"}


@pytest.fixture(scope="module", params=BACKENDS)
def arithmetic(request: pytest.FixtureRequest, testing_library: Path) -> Arithmetic:
    return Arithmetic(testing_library, request.param)


def decode(arithmetic: Arithmetic, group: str, data: bytes) -> tuple[int, int, list[Any]]:
    """Return points read before the first fault, the fault, the points."""
    code, out = arithmetic.answer(DECODERS[group], data, out_bytes=64 * 128)
    read, size = code >> 8, 64 if group == "G1" else 128
    parse: Any = g1_from_bytes if group == "G1" else g2_from_bytes
    return read, code & 0xFF, [parse(out[size * i : size * (i + 1)]) for i in range(read)]


@pytest.mark.parametrize("group", ["G1", "G2"])
@pytest.mark.parametrize("form", ["compressed", "raw"])
def test_golden_points__in_either_form__decode_to_multiples_of_the_generator(
    arithmetic: Arithmetic, group: str, form: str
) -> None:
    generator = G1 if group == "G1" else G2
    for row in ENCODING[group.lower()]:
        read, fault, points = decode(arithmetic, group, bytes.fromhex(row[form]))
        scalar = int(row["scalar"])
        if scalar == 0:
            assert (read, fault) == (0, AT_INFINITY)
        else:
            assert (fault, points) == (GOOD, [multiply(generator, scalar)])


@pytest.mark.parametrize("group", ["G1", "G2"])
def test_golden_points__encoded__equal_gnark(arithmetic: Arithmetic, group: str) -> None:
    for row in ENCODING[group.lower()]:
        if group == "G1":
            point = g1_bytes(multiply(G1, int(row["scalar"])))
            out = arithmetic.compute("encoding_g1_encode", point, out_bytes=96)
        else:
            point = g2_bytes(multiply(G2, int(row["scalar"])))
            out = arithmetic.compute("encoding_g2_encode", point, out_bytes=192)
        assert out.hex() == row["compressed"] + row["raw"]


@pytest.mark.parametrize("case", ENCODING["decode_cases"], ids=lambda case: case["case"])
def test_golden_decoding_cases__accepted_and_rejected__agree_with_gnark(
    arithmetic: Arithmetic, case: dict[str, str]
) -> None:
    read, fault, _ = decode(arithmetic, case["case"][:2], bytes.fromhex(case["hex"]))
    expected = {
        "accepted": {AT_INFINITY},
        "rejected": {NOT_CANONICAL, BAD_INFINITY, NO_ROOT, OFF_CURVE, OUTSIDE_SUBGROUP},
    }
    assert read == 0
    assert fault in expected[case["result"]]


@pytest.mark.parametrize("name", ["inclusion_32_1", "non-inclusion_40_1", "mainnet_inclusion_26_1"])
def test_published_points__of_a_proving_key__decode_to_points_with_that_encoding(
    arithmetic: Arithmetic, name: str
) -> None:
    golden = vectors(f"{name}.json")["pk"]
    for short in ("A", "B", "Z", "K", "B2"):
        encoded = bytes.fromhex("".join([*golden[f"{short}_first2"], golden[f"{short}_last"]]))
        read, fault, points = decode(arithmetic, "G2" if short == "B2" else "G1", encoded)
        assert (read, fault) == (3, GOOD)
        compress: Any = g2_compressed if short == "B2" else g1_compressed
        assert b"".join(map(compress, points)) == encoded
        if short == "B2":
            assert all(multiply(point, R) is None for point in points)
        else:
            assert all((y * y - x**3 - 3) % P == 0 for x, y in points)


def flagged(coordinate: int, flags: int, rest: bytes = b"") -> bytes:
    encoded = word(coordinate)
    return bytes([encoded[0] | flags]) + encoded[1:] + rest


X_OF_G1_OUTSIDE = next(x for x in range(1, 20) if g1_at(x) is None)
X_OF_TWIST_OUTSIDE = next((x, 0) for x in range(1, 20) if twist_at((x, 0)) is None)
OFF_SUBGROUP = next(point for x in range(1, 20) if (point := twist_at((x, 1))) is not None)

REFUSED = [
    ("G1", "x = p", flagged(P, 0x80), NOT_CANONICAL),
    ("G1", "x = 2^254 - 1", flagged(2**254 - 1, 0xC0), NOT_CANONICAL),
    ("G1", "no such x", flagged(X_OF_G1_OUTSIDE, 0x80), NO_ROOT),
    ("G1", "raw x = p", word(P) + word(2), NOT_CANONICAL),
    ("G1", "raw y = p + 2", word(1) + word(P + 2), NOT_CANONICAL),
    ("G1", "raw y with flag bits", word(1) + word(2 + 2**255), NOT_CANONICAL),
    ("G1", "raw off the curve", word(1) + word(3), OFF_CURVE),
    ("G1", "raw x = 0, y = 1", word(0) + word(1), OFF_CURVE),
    ("G1", "infinity with low bits in the first byte", b"\x41" + bytes(31), BAD_INFINITY),
    ("G1", "infinity with a last bit", b"\x40" + bytes(30) + b"\x01", BAD_INFINITY),
    ("G1", "infinity", b"\x40" + bytes(31), AT_INFINITY),
    ("G1", "raw infinity", bytes(64), AT_INFINITY),
    ("G2", "imaginary part of x = p", flagged(P, 0x80, word(1)), NOT_CANONICAL),
    ("G2", "real part of x = p", flagged(1, 0x80, word(P)), NOT_CANONICAL),
    ("G2", "real part of x with flag bits", flagged(1, 0x80, word(2**255)), NOT_CANONICAL),
    ("G2", "no such x", flagged(X_OF_TWIST_OUTSIDE[1], 0xC0, word(X_OF_TWIST_OUTSIDE[0])), NO_ROOT),
    ("G2", "outside the subgroup", g2_compressed(OFF_SUBGROUP), OUTSIDE_SUBGROUP),
    ("G2", "raw outside the subgroup", g2_raw(OFF_SUBGROUP), OUTSIDE_SUBGROUP),
    ("G2", "raw off the curve", g2_raw(((1, 2), (3, 4))), OFF_CURVE),
    ("G2", "raw real part of y = p", g2_raw(G2)[:96] + word(P), NOT_CANONICAL),
    ("G2", "infinity with a last bit", b"\x40" + bytes(62) + b"\x01", BAD_INFINITY),
    ("G2", "infinity with a bit in the real part", b"\x40" + bytes(31) + b"\x80" + bytes(31), BAD_INFINITY),
    ("G2", "infinity", b"\x40" + bytes(63), AT_INFINITY),
    ("G2", "raw infinity", bytes(128), AT_INFINITY),
]


@pytest.mark.parametrize(("group", "case", "encoded", "fault"), REFUSED, ids=lambda value: str(value)[:40])
@pytest.mark.parametrize("place", [0, 1, 3, 4, 6])
def test_decoding__bad_point_between_good_ones__is_refused_at_its_position(
    arithmetic: Arithmetic, group: str, case: str, encoded: bytes, fault: int, place: int
) -> None:
    good = g1_compressed(G1) if group == "G1" else g2_compressed(G2)
    raw = g1_bytes(G1) if group == "G1" else g2_raw(G2)
    others = [good, raw, good, good, raw, good, raw]
    data = b"".join([*others[:place], encoded, *others[place:]])
    assert decode(arithmetic, group, data)[:2] == (place, fault)


def test_decoding__two_bad_points__reports_the_first(arithmetic: Arithmetic) -> None:
    good, no_root, infinity = g1_compressed(G1), flagged(X_OF_G1_OUTSIDE, 0x80), bytes(64)
    assert decode(arithmetic, "G1", good + no_root + infinity)[:2] == (1, NO_ROOT)
    assert decode(arithmetic, "G1", good + infinity + no_root)[:2] == (1, AT_INFINITY)


POINTS = st.lists(st.tuples(st.integers(1, R - 1), st.booleans()), min_size=1, max_size=9)


@settings(max_examples=25, deadline=None)
@given(points=POINTS)
def test_decoding__mixed_compressed_and_raw_points__gives_each(
    arithmetic: Arithmetic, points: list[tuple[int, bool]]
) -> None:
    g1 = [(multiply(G1, scalar), raw) for scalar, raw in points]
    data = b"".join(g1_bytes(point) if raw else g1_compressed(point) for point, raw in g1)
    assert decode(arithmetic, "G1", data) == (len(points), GOOD, [point for point, _ in g1])
    g2 = [(multiply(G2, scalar), raw) for scalar, raw in points[:5]]
    data = b"".join(g2_raw(point) if raw else g2_compressed(point) for point, raw in g2)
    assert decode(arithmetic, "G2", data) == (len(g2), GOOD, [point for point, _ in g2])


@settings(max_examples=25, deadline=None)
@given(scalar=st.integers(1, R - 1))
def test_encoding__of_a_point_and_its_negative__equals_the_rules(arithmetic: Arithmetic, scalar: int) -> None:
    for point in (multiply(G1, scalar), negate(multiply(G1, scalar))):
        out = arithmetic.compute("encoding_g1_encode", g1_bytes(point), out_bytes=96)
        assert out == g1_compressed(point) + g1_bytes(point)
    for twisted in (multiply(G2, scalar), negate(multiply(G2, scalar))):
        out = arithmetic.compute("encoding_g2_encode", g2_bytes(twisted), out_bytes=192)
        assert out == g2_compressed(twisted) + g2_raw(twisted)


@settings(max_examples=200, deadline=None)
@given(data=st.binary(min_size=128, max_size=128), first=st.integers(0, 255))
def test_decoding__arbitrary_bytes__accepts_only_what_encodes_back(
    arithmetic: Arithmetic, data: bytes, first: int
) -> None:
    for group, compressed, size in (("G1", g1_compressed, 32), ("G2", g2_compressed, 64)):
        encoded = bytes([first]) + data[1 : size * (2 if first < 0x40 else 1)]
        _, fault, points = decode(arithmetic, group, encoded)
        if fault == GOOD:
            raw: Any = g1_bytes if group == "G1" else g2_raw
            assert encoded in {compressed(points[0]), raw(points[0])}


def test_proof__golden_one__decodes_and_encodes_back(arithmetic: Arithmetic) -> None:
    proof = proof_bytes(vectors("inclusion_32_1.json")["proof"])
    code, out = arithmetic.answer("encoding_proof", proof, out_bytes=256)
    assert (code, out) == (GOOD, proof)


@pytest.mark.parametrize(
    ("start", "replacement", "fault"),
    [
        (0, bytes(64), AT_INFINITY),
        (64, bytes(128), AT_INFINITY),
        (192, bytes(64), AT_INFINITY),
        (0, word(P), NOT_CANONICAL),
        (64, word(P), NOT_CANONICAL),
        (224, word(P), NOT_CANONICAL),
        (0, word(1) + word(3), OFF_CURVE),
        (192, word(1) + word(3), OFF_CURVE),
        (64, g2_raw(OFF_SUBGROUP), OUTSIDE_SUBGROUP),
        (0, g1_compressed(G1), NOT_CANONICAL),
    ],
)
def test_proof__with_a_bad_point__is_refused(
    arithmetic: Arithmetic, start: int, replacement: bytes, fault: int
) -> None:
    proof = proof_bytes(vectors("inclusion_32_1.json")["proof"])
    changed = proof[:start] + replacement + proof[start + len(replacement) :]
    assert arithmetic.answer("encoding_proof", changed)[0] == fault


def test_fault_texts__of_all_faults__are_different_sentences(arithmetic: Arithmetic) -> None:
    texts = {arithmetic.compute("encoding_fault_text", bytes([fault]), out_bytes=128) for fault in range(8)}
    assert len(texts) == 8
