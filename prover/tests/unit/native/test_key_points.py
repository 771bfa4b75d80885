"""Key files: what is read from them, what is refused and how, and the verifying key alone."""

from __future__ import annotations

import struct
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from kernel_library import BACKENDS, Kernel, Outcome, P, R
from key_file import Field, layout, proof_bytes, tiny_key, vectors
from reference_curve import (
    G1,
    G2,
    g1_bytes,
    g1_compressed,
    g2_compressed,
    g2_raw,
    multiply,
    twist_at,
    word,
)
from sampling import FULL

FORMAT_VERSIONS = ["0.8", "0.14"]
any_format = pytest.mark.parametrize("format_version", FORMAT_VERSIONS)
OFF_SUBGROUP = next(point for x in range(1, 20) if (point := twist_at((x, 1))) is not None)
KINDS = {"other": 7}


@pytest.fixture(scope="module", params=BACKENDS)
def kernel(request: pytest.FixtureRequest, testing_library: Path) -> Generator[Kernel]:
    opened = Kernel(testing_library, request.param, threads=2)
    yield opened
    opened.close()


def tiny(format_version: str) -> tuple[bytes, dict[str, Field]]:
    data = tiny_key(format_version)
    return data, layout(data, 16, format_version == "0.14")


def replace(data: bytes, field: Field, value: bytes, at: int = 0) -> bytes:
    """Return the file with bytes of a field overwritten."""
    start = field.start + at
    return data[:start] + value + data[start + len(value) :]


def splice(data: bytes, field: Field, value: bytes, at: int = 0, removed: int | None = None) -> bytes:
    """Return the file with `removed` bytes of a field (all without it) exchanged for a value of any length."""
    start = field.start + at
    end = field.end if removed is None else start + removed
    return data[:start] + value + data[end:]


def refused(kernel: Kernel, data: bytes) -> Outcome:
    outcome, key = kernel.load_key(data)
    assert key is None
    assert 0 < len(outcome.message) < 256
    assert outcome.offset <= len(data)
    return outcome


@any_format
def test_tiny_key__as_it_is__loads_with_its_numbers(kernel: Kernel, format_version: str) -> None:
    data, fields = tiny(format_version)
    outcome, key = kernel.load_key(data)
    assert key is not None, outcome
    info = key.describe()
    assert info["kind"] == KINDS["other"]
    assert info["format_version"] == 1 + FORMAT_VERSIONS.index(format_version)
    assert (info["header"], info["header_words"]) == ([1, 1, 0, 0], 4)
    assert (info["constraints"], info["wires"], info["public_inputs"], info["secret_inputs"]) == (11, 13, 1, 2)
    assert (info["domain_size"], info["points_k"], info["points_z"]) == (16, 11, 15)
    assert info["points_a"] == (fields["A"].end - fields["A"].start) // 32
    assert info["points_b"] == (fields["B2"].end - fields["B2"].start) // 64
    assert info["proving_key_offset"] == 16
    assert info["verifying_key_offset"] == fields["vk.alpha"].start
    assert info["constraint_system_offset"] == fields["constraint system"].start
    assert info["file_bytes"] == len(data)
    vk = key.verifying_key
    assert vk.public_inputs == 1
    assert vk.encode(raw=False) == data[fields["vk.alpha"].start : fields["constraint system"].start]
    key.destroy()


@any_format
@pytest.mark.parametrize("case", ["z0", "z6"])
def test_tiny_key__golden_proofs__verify_only_as_they_are(kernel: Kernel, format_version: str, case: str) -> None:
    _, key = kernel.load_key(tiny_key(format_version))
    assert key is not None
    row = vectors("tiny.json")["cases"][case]
    proof, inputs = proof_bytes(row["proof"]), [int(value, 16) for value in row["public"]]
    vk = key.verifying_key
    assert vk.verify(proof, inputs).status == "ok"
    assert vk.verify(proof, [inputs[0] ^ 1]).status == "proof_rejected"
    assert vk.verify(proof, [inputs[0] + R]).status == "invalid_argument"
    assert vk.verify(proof, []).status == "invalid_argument"
    assert vk.verify(proof, [*inputs, 0]).status == "invalid_argument"
    swapped = proof[192:] + proof[64:192] + proof[:64]
    assert vk.verify(swapped, inputs).status == "proof_rejected"
    assert vk.verify(proof[:64] + g2_raw(OFF_SUBGROUP) + proof[192:], inputs).status == "malformed_proof"
    for start in range(0, 256, 32):
        changed = bytearray(proof)
        changed[start + 31] ^= 1
        assert vk.verify(bytes(changed), inputs).status == "malformed_proof"
        assert vk.verify(proof[:start] + word(P) + proof[start + 32 :], inputs).status == "malformed_proof"
    key.destroy()


@any_format
def test_verifying_key__from_toxic_waste__is_the_one_of_the_file(kernel: Kernel, format_version: str) -> None:
    waste = {name: int(value, 16) for name, value in vectors("tiny.json")["toxic_waste"].items()}
    _, key = kernel.load_key(tiny_key(format_version))
    assert key is not None
    raw = key.verifying_key.encode(raw=True)
    expected = g1_bytes(multiply(G1, waste["alpha"])) + g1_bytes(multiply(G1, waste["beta"]))
    expected += g2_raw(multiply(G2, waste["beta"])) + g2_raw(multiply(G2, waste["gamma"]))
    expected += g1_bytes(multiply(G1, waste["delta"])) + g2_raw(multiply(G2, waste["delta"]))
    assert raw[: len(expected)] == expected
    key.destroy()


@pytest.mark.parametrize("name", ["inclusion_32_1", "non-inclusion_40_1", "mainnet_inclusion_26_1"])
def test_published_verifying_key__alone__encodes_as_gnark_and_verifies(kernel: Kernel, name: str) -> None:
    golden = vectors(f"{name}.json")
    order = ("alpha_g1", "beta_g1", "beta_g2", "gamma_g2", "delta_g1", "delta_g2")
    files = {}
    for form in ("compressed", "raw"):
        row = golden["vk"][form]
        count = struct.pack(">I", len(row["k_g1"]))
        files[form] = bytes.fromhex("".join(row[f] for f in order)) + count + bytes.fromhex("".join(row["k_g1"]))
    inputs = [int(value, 16) for value in golden["public_inputs"]]
    for tail in (b"", bytes(8)):
        for data in files.values():
            outcome, vk = kernel.load_vk(data + tail)
            assert vk is not None, outcome
            assert vk.public_inputs == len(inputs)
            assert vk.encode(raw=False) == files["compressed"] + tail
            assert vk.encode(raw=True) == files["raw"] + tail
            assert vk.verify(proof_bytes(golden["proof"]), inputs).status == "ok"
            assert vk.verify(proof_bytes(golden["proof"]), [*inputs[:-1], inputs[-1] ^ 1]).status == "proof_rejected"
            vk.destroy()


@pytest.mark.unchecked
@pytest.mark.parametrize("name", ["inclusion_32_1", "non-inclusion_40_1", "mainnet_inclusion_26_1"])
@pytest.mark.sampled(3)
def test_published_key__whole_file__has_the_golden_numbers(kernel: Kernel, reference_keys_dir: Path, name: str) -> None:
    golden = vectors(f"{name}.json")
    data = (reference_keys_dir / f"{name}.key").read_bytes()
    fields = layout(data, 16, newer=False)
    for short in ("A", "B", "Z", "K", "B2"):
        field, size = fields[short], 64 if short == "B2" else 32
        assert data[field.start : field.start + 2 * size].hex() == "".join(golden["pk"][f"{short}_first2"])
        assert data[field.end - size : field.end].hex() == golden["pk"][f"{short}_last"]
    outcome, key = kernel.load_key(data)
    assert key is not None, outcome
    info = key.describe()
    assert info["verifying_key_offset"] == golden["sections"]["vk_offset"]
    assert info["constraint_system_offset"] == golden["sections"]["cs_offset"]
    assert info["points_a"] == golden["sections"]["pk_A"]["count"]
    assert info["points_b"] == golden["sections"]["pk_B2"]["count"]
    assert (info["wires"], info["domain_size"]) == (golden["pk"]["nb_wires"], golden["domain"]["n"])
    proof, inputs = proof_bytes(golden["proof"]), [int(value, 16) for value in golden["public_inputs"]]
    assert key.verifying_key.verify(proof, inputs).status == "ok"
    key.destroy()


KINDS_OF_FILES = {
    "inclusion_32_1": (1, 2),
    "mainnet_inclusion_26_2": (1, 1),
    "non-inclusion_26_2": (2, 1),
    "non-inclusion_40_1": (2, 2),
    "combined_26_2_1": (3, 1),
    "combined_32_40_1_1": (3, 2),
}


SMALLEST, *OTHERS = KINDS_OF_FILES if FULL else ("inclusion_32_1", "non-inclusion_26_2", "combined_26_2_1")
"""Of all kinds and both versions."""


@pytest.mark.parametrize("name", [SMALLEST, *(pytest.param(name, marks=pytest.mark.unchecked) for name in OTHERS)])
@pytest.mark.sampled(3, checked=1)
def test_published_key__by_its_content__has_the_kind_of_its_name(
    kernel: Kernel, reference_keys_dir: Path, name: str
) -> None:
    outcome, key = kernel.load_key((reference_keys_dir / f"{name}.key").read_bytes())
    assert key is not None, outcome
    info = key.describe()
    assert (info["kind"], info["version"]) == KINDS_OF_FILES[name]
    key.destroy()


@any_format
def test_key__with_raw_points_mixed_in__loads(kernel: Kernel, format_version: str) -> None:
    data, fields = tiny(format_version)
    waste = {name: int(value, 16) for name, value in vectors("tiny.json")["toxic_waste"].items()}
    # From the end to the beginning, so that the offsets before stay right.
    data = splice(data, fields["vk.gamma2"], g2_raw(multiply(G2, waste["gamma"])))
    data = splice(data, fields["delta2"], g2_raw(multiply(G2, waste["delta"])))
    z = multiply(G1, (pow(waste["tau"], 16, R) - 1) * pow(waste["delta"], -1, R) % R)
    assert data[fields["Z"].start : fields["Z"].start + 32] == g1_compressed(z)
    data = splice(data, fields["Z"], g1_bytes(z), removed=32)
    data = splice(data, fields["beta"], g1_bytes(multiply(G1, waste["beta"])))
    outcome, key = kernel.load_key(data)
    assert key is not None, outcome
    row = vectors("tiny.json")["cases"]["z0"]
    assert key.verifying_key.verify(proof_bytes(row["proof"]), [int(row["public"][0], 16)]).status == "ok"
    key.destroy()


@any_format
def test_key__with_a_raw_point_off_the_curve__is_malformed_at_its_position(kernel: Kernel, format_version: str) -> None:
    data, fields = tiny(format_version)
    z = fields["Z"]
    outcome = refused(kernel, splice(data, z, word(1) + word(3), at=64, removed=32))
    assert (outcome.status, outcome.offset) == ("malformed_key", z.start + 64)
    assert outcome.message == "proving key: Z[2] is not on the curve"
    moved = splice(splice(data, z, b"\xff" * 32, at=64, removed=32), z, g1_bytes(G1), removed=32)
    outcome = refused(kernel, moved)
    assert (outcome.status, outcome.offset) == ("malformed_key", z.start + 96)


def u32(value: int) -> bytes:
    return struct.pack(">I", value)


def u64(value: int) -> bytes:
    return struct.pack(">Q", value)


CHANGES_OF_FIELDS = [
    ("n", u64(32), 0, "no evaluation domain"),
    ("n", u64(0), 0, "no evaluation domain"),
    ("n", u64(15), 0, "no evaluation domain"),
    ("n", u64(2**29), 0, "no evaluation domain"),
    ("1/n", word(R), 0, "no evaluation domain"),
    ("w", word(1), 0, "the generator does not fit"),
    ("w", word(R), 0, "the generator does not fit"),
    ("1/w", word(1), 0, "the generator's inverse does not fit"),
    ("coset", word(7), 0, "the coset generator does not fit"),
    ("1/coset", word(7), 0, "the coset generator's inverse does not fit"),
    ("alpha", b"\x40" + bytes(31), 0, "proving key: alpha is the point at infinity"),
    ("delta", b"\xff" * 32, 0, "proving key: delta has a coordinate at or above"),
    ("A", b"\x40" + bytes(31), 32, "proving key: A[1] is the point at infinity"),
    ("B", b"\x40" + bytes(30) + b"\x01", 0, "proving key: B[0] carries the infinity flag"),
    ("K", b"\x80" + bytes(30) + b"\x04", 0, "proving key: K[0] has an x coordinate"),
    ("Z", b"\xff" * 32, 5 * 32, "proving key: Z[5] has a coordinate at or above"),
    ("B2", b"\x40" + bytes(63), 64, "proving key: B2[1] is the point at infinity"),
    ("B2", g2_compressed(OFF_SUBGROUP), 64, "proving key: B2[1] is not in the group of order r"),
    ("beta2", g2_compressed(OFF_SUBGROUP), 0, "proving key: beta2 is not in the group of order r"),
    ("beta2", g2_compressed(G2), 0, "do not belong together"),
    ("delta2", g2_compressed(G2), 0, "do not belong together"),
    ("A.count", u32(2**32 - 1), 0, "4294967295 points do not fit"),
    ("B.count", u32(2**20), 0, "1048576 points do not fit"),
    ("Z.count", u32(2**20), 0, "1048576 points do not fit"),
    ("K.count", u32(2**20), 0, "1048576 points do not fit"),
    ("B2.count", u32(2**20), 0, "1048576 points do not fit"),
    ("wires", u64(2**40), 0, "the infinity maps do not fit"),
    ("wires", u64(2**64 - 1), 0, "the infinity maps do not fit"),
    ("absent A", u64(0), 0, "infinity map A:"),
    ("absent B", u64(2**63), 0, "infinity map B:"),
    ("map A", b"\x02", 0, "infinity map A: flag 0 is neither 0 nor 1"),
    ("map B", b"\xff", 12, "infinity map B: flag 12 is neither 0 nor 1"),
    ("vk.alpha", g1_compressed(G1), 0, "verifying key: alpha is not the one of the proving key"),
    ("vk.beta", g1_compressed(G1), 0, "verifying key: beta is not the one"),
    ("vk.delta", g1_compressed(G1), 0, "verifying key: delta is not the one"),
    ("vk.beta2", g2_compressed(G2), 0, "verifying key: beta2 is not the one"),
    ("vk.delta2", g2_compressed(G2), 0, "verifying key: delta2 is not the one"),
    ("vk.gamma2", g2_compressed(OFF_SUBGROUP), 0, "verifying key: gamma2 is not in the group of order r"),
    ("vk.gamma2", b"\x40" + bytes(63), 0, "verifying key: gamma2 is the point at infinity"),
    ("vk.K", b"\x40" + bytes(31), 32, "verifying key: K[1] is the point at infinity"),
    ("vk.K", b"\xff" * 32, 0, "verifying key: K[0] has a coordinate at or above"),
    ("vk.K.count", u32(0), 0, "verifying key: K is empty"),
    ("vk.K.count", u32(2**30), 0, "1073741824 points do not fit"),
]


def offset_of(fields: dict[str, Field], name: str, at: int, text: str) -> int:
    """Return the place that the error of a changed field should name."""
    if "no evaluation domain" in text:
        return 0
    if "do not belong together" in text:
        return fields["alpha"].start
    if "is not the one" in text:
        return fields["vk.alpha"].start
    return fields[name.replace("absent", "map")].start + at


@any_format
@pytest.mark.parametrize(("name", "value", "at", "text"), CHANGES_OF_FIELDS, ids=lambda value: str(value)[:30])
def test_key__with_a_bad_field__is_malformed_and_says_where(
    kernel: Kernel, format_version: str, name: str, value: bytes, at: int, text: str
) -> None:
    data, fields = tiny(format_version)
    outcome = refused(kernel, replace(data, fields[name], value, at))
    assert outcome.status == "malformed_key"
    assert text in outcome.message
    assert outcome.offset == offset_of(fields, name, at, text)


@any_format
@pytest.mark.parametrize("name", ["A", "B", "K"])
def test_key__with_one_point_less_in_a_slice__is_malformed(kernel: Kernel, format_version: str, name: str) -> None:
    data, fields = tiny(format_version)
    count = (fields[name].end - fields[name].start) // 32
    shorter = splice(data, fields[name], b"", at=0, removed=32)
    outcome = refused(kernel, replace(shorter, fields[f"{name}.count"], u32(count - 1)))
    assert outcome.status == "malformed_key"


@any_format
@pytest.mark.parametrize("change", [-1, 1])
def test_key__with_a_wrong_number_of_quotient_points__is_malformed(
    kernel: Kernel, format_version: str, change: int
) -> None:
    data, fields = tiny(format_version)
    count = (fields["Z"].end - fields["Z"].start) // 32
    first = data[fields["Z"].start : fields["Z"].start + 32]
    data = splice(data, fields["Z"], first * (1 + change), removed=32)
    outcome = refused(kernel, replace(data, fields["Z.count"], u32(count + change)))
    assert outcome.status == "malformed_key"
    assert "does not fit the domain" in outcome.message


@any_format
@pytest.mark.parametrize("letter", ["A", "B"])
def test_key__with_two_flags_of_a_map_exchanged__does_not_fit_the_constraints(
    kernel: Kernel, format_version: str, letter: str
) -> None:
    data, fields = tiny(format_version)
    field = fields[f"map {letter}"]
    flags = bytearray(data[field.start : field.end])
    present, absent = flags.index(0), flags.index(1)
    flags[present], flags[absent] = 1, 0
    outcome = refused(kernel, replace(data, field, bytes(flags)))
    assert outcome.status == "malformed_key"
    assert f"infinity map {letter} does not fit the constraints" in outcome.message


def test_key__of_the_later_format__accepts_both_values_of_the_flag(kernel: Kernel) -> None:
    data, fields = tiny("0.14")
    assert data[fields["flag"].start] == 1
    _, key = kernel.load_key(replace(data, fields["flag"], b"\x00"))
    assert key is not None
    key.destroy()
    assert refused(kernel, replace(data, fields["flag"], b"\x02")).status == "malformed_key"


@pytest.mark.parametrize(("name", "at"), [("commitments", 3), ("vk.commitments", 3), ("vk.commitments", 7)])
def test_key__with_commitments__is_unsupported(kernel: Kernel, name: str, at: int) -> None:
    data, fields = tiny("0.14")
    outcome = refused(kernel, replace(data, fields[name], b"\x01", at))
    assert (outcome.status, outcome.offset) == ("unsupported_key", fields[name].start)


@any_format
def test_key__followed_by_more_bytes__is_malformed(kernel: Kernel, format_version: str) -> None:
    for tail in (b"\x00", bytes(64), b"\xff" * 5):
        assert refused(kernel, tiny_key(format_version) + tail).status == "malformed_key"


@any_format
@pytest.mark.sampled(3, checked=2)
def test_key__cut_anywhere__is_malformed(kernel: Kernel, format_version: str) -> None:
    data = tiny_key(format_version)
    for size in [*range(0, 300, 7), *range(300, len(data), 61), len(data) - 1]:
        assert refused(kernel, data[:size]).status == "malformed_key", size


@any_format
def test_key__with_the_other_wrapper_length__is_still_recognised(kernel: Kernel, format_version: str) -> None:
    outcome, key = kernel.load_key(u32(32) + u32(10) + tiny_key(format_version)[16:])
    assert key is not None, outcome
    info = key.describe()
    assert (info["kind"], info["header"][:2], info["header_words"]) == (KINDS["other"], [32, 10], 2)
    key.destroy()


@any_format
def test_key__read_as_the_other_format__is_malformed(kernel: Kernel, format_version: str) -> None:
    data, fields = tiny(format_version)
    field = Field(fields["alpha"].start, fields["alpha"].start)
    other = data[: field.start - 1] + data[field.start :] if format_version == "0.14" else splice(data, field, b"\x01")
    assert refused(kernel, other).status == "malformed_key"


@any_format
def test_key__loaded_with_a_raised_cancel_flag__is_cancelled(kernel: Kernel, format_version: str) -> None:
    outcome, key = kernel.load_key(tiny_key(format_version), cancelled=True)
    assert (outcome.status, key) == ("cancelled", None)


@any_format
@pytest.mark.sampled(3, checked=2)
def test_verifying_key_alone__cut_or_with_more_bytes__is_malformed(kernel: Kernel, format_version: str) -> None:
    data, fields = tiny(format_version)
    alone = data[fields["vk.alpha"].start : fields["constraint system"].start]
    whole = {len(alone)} | ({len(alone) - 8} if format_version == "0.14" else set())
    for size in range(len(alone)):
        if size not in whole:
            outcome, vk = kernel.load_vk(alone[:size])
            assert (outcome.status, vk) == ("malformed_key", None), size
    for tail in (b"\x00", bytes(9), bytes(16)):
        outcome, vk = kernel.load_vk(alone + tail)
        assert (outcome.status, vk) == ("malformed_key", None)


def test_verifying_key_alone__with_commitments__is_unsupported(kernel: Kernel) -> None:
    data, fields = tiny("0.8")
    alone = data[fields["vk.alpha"].start : fields["constraint system"].start]
    assert kernel.load_vk(alone + u32(1) + u32(0))[0].status == "unsupported_key"
    assert kernel.load_vk(alone + u32(0) + u32(1))[0].status == "unsupported_key"


def test_verifying_key_alone__without_use_of_the_one_wire__is_accepted(kernel: Kernel) -> None:
    data, fields = tiny("0.8")
    start = fields["vk.alpha"].start
    infinity = replace(data, fields["vk.K"], b"\x40" + bytes(31))
    alone = infinity[start : fields["constraint system"].start]
    outcome, vk = kernel.load_vk(alone)
    assert vk is not None, outcome
    assert vk.encode(raw=False) == alone
    row: Any = vectors("tiny.json")["cases"]["z0"]
    assert vk.verify(proof_bytes(row["proof"]), [int(row["public"][0], 16)]).status == "proof_rejected"
    assert vk.verify(proof_bytes(row["proof"]), [0]).status == "proof_rejected"
    vk.destroy()
