"""Keys of gnark 0.14 made from 0.8 ones: the writer against known bytes, the kernel against the writer."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

import pytest
from circuit_inputs import KEY_FILES, circuit_inputs
from constraint_system_hooks import FORMAT_014, Hooks
from gnark_conversion import convert_key, decode_cbor, encode_cbor, instructions_of, key_sections, levels_of
from golden_vectors import load, request_vectors

# Converted files have the size of genuine ones where both format versions name the inputs alike.
SAME_NAMES = {"v2_inclusion_32_1"}


@pytest.fixture(scope="module")
def hooks(testing_library: Path) -> Hooks:
    return Hooks(testing_library)


def test_convert_key__tiny_key__gives_the_golden_bytes() -> None:
    tiny = load("gnark/tiny.json")
    assert convert_key(bytes.fromhex(tiny["key_v0_8_hex"])).hex() == tiny["key_v0_14_hex"]


def test_encode_cbor__decoded_system__is_unchanged() -> None:
    key = bytes.fromhex(load("gnark/tiny.json")["key_v0_8_hex"])
    data = key[key_sections(key).verifying_key_end :]
    assert encode_cbor(decode_cbor(data)[0]) == data


@pytest.mark.unchecked
@pytest.mark.parametrize(
    "circuit", ["v1_inclusion_26_1", "v2_inclusion_32_1", "v2_non-inclusion_40_1", "v1_combined_26_26_1_1"]
)
@pytest.mark.sampled(2)
def test_convert_key__published_key__has_the_instructions_of_gnark_014(
    hooks: Hooks, reference_keys_dir: Path, circuit: str
) -> None:
    path = reference_keys_dir / KEY_FILES[circuit]
    key = path.read_bytes()
    stats = load("circuits/r1cs_stats.json")["circuits"][circuit]
    system, _ = decode_cbor(key, key_sections(key).verifying_key_end)
    out = instructions_of(system)
    assert hashlib.sha256(struct.pack(f"<{len(out.words)}I", *out.words)).hexdigest() == stats["calldataSha256"]
    levels = b"".join(struct.pack(f"<{len(ids) + 1}I", len(ids), *ids) for ids in levels_of(out))
    assert hashlib.sha256(levels).hexdigest() == stats["levelsSha256"]

    converted = convert_key(key)
    known = {row["file"]: row["size"] for row in load("gnark/keys.json")["rows"] if row["gnark"] == "0.14.0"}
    if circuit in SAME_NAMES:
        assert len(converted) == known[f"{circuit}.key"]
    offset = key_sections(converted, format_014=True).verifying_key_end
    cs = hooks.read(converted[offset:], FORMAT_014, offset)
    original = hooks.read_key(path)
    assert cs.digest() == original.digest()
    assert cs.coefficients() == original.coefficients()
    assert cs.counts == original.counts
    vector = next(v for v in request_vectors() if v.circuit == circuit and v.name.startswith("circuits/"))
    solution = cs.solve(circuit_inputs(vector.request))
    assert hashlib.sha256(solution.wires).hexdigest() == vector.witness_sha256
