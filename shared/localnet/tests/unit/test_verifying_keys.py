"""Verifying keys read from files and from programs, and replaced in programs."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from recorded import recorded

from localnet.chain.artefacts import Artefacts, load_artefacts
from localnet.chain.simulated_proofs import simulated_key
from localnet.chain.verifying_keys import (
    VerifyingKey,
    VerifyingKeyInvalid,
    keys_in_programs,
    parse_verifying_key,
    with_verifying_keys,
)
from shared.requests.proof_compression import compress_proof
from shared.requests.proof_wire import ProofJson

G1_X_1 = bytes([0x80]) + bytes(30) + bytes([1])


@pytest.fixture(scope="module")
def published() -> Artefacts:
    return load_artefacts()


def test_keys_in_programs__published_files__match_the_recorded_digests(published: Artefacts) -> None:
    import hashlib

    facts = recorded("vk_offsets")["programs"]
    keys = keys_in_programs(published)
    for file in ("account_compression", "light_system_program_pinocchio"):
        for name, fact in facts[f"0.28.3/{file}.so"]["keys"].items():
            assert hashlib.sha256(keys[name].main).hexdigest().startswith(fact["sha256_main"])


def test_with_verifying_keys__one_key__changes_that_key_only(published: Artefacts) -> None:
    before = keys_in_programs(published)
    facts = recorded("batch_append_tx")["vk"]
    key = VerifyingKey(bytes.fromhex(facts["main_448"]), bytes.fromhex(facts["ic_128"]))
    after = keys_in_programs(with_verifying_keys(published, {"batch_append_32_10": key}))
    assert after["batch_append_32_10"] == key
    assert {name for name in after if after[name] != before[name]} == {"batch_append_32_10"}


@pytest.mark.parametrize(
    ("name", "public_inputs", "message"),
    [("batch_append_32_11", 1, "no program"), ("batch_append_32_10", 2, "expects 1 public inputs, the key has 2")],
)
def test_with_verifying_keys__key_that_does_not_fit__is_refused(
    published: Artefacts, name: str, public_inputs: int, message: str
) -> None:
    with pytest.raises(VerifyingKeyInvalid, match=message):
        with_verifying_keys(published, {name: simulated_key(public_inputs)})


def test_with_verifying_keys__program_of_another_build__is_refused(published: Artefacts) -> None:
    other = {**published.programs, "account_compression.so": published.programs["account_compression.so"] + b"\0"}
    with pytest.raises(VerifyingKeyInvalid, match="not the published file"):
        with_verifying_keys(dataclasses.replace(published, programs=other), {"batch_append_32_10": simulated_key(1)})


@pytest.mark.parametrize("ending", [b"", bytes(8)])
def test_parse_verifying_key__of_either_generation__is_read(ending: bytes) -> None:
    key = simulated_key(1)
    main, spare = key.main, bytes(64)
    raw = main[:64] + spare + main[64:320] + spare + main[320:] + (2).to_bytes(4, "big") + key.ic + ending
    text = f"[{' '.join(map(str, raw))}]".encode()
    assert parse_verifying_key(text) == key


@pytest.mark.parametrize("data", [b"", b"[1 2 3]", b"[300]", bytes(356), G1_X_1 + bytes(260)])
def test_parse_verifying_key__other_bytes__are_refused(data: bytes) -> None:
    with pytest.raises(VerifyingKeyInvalid):
        parse_verifying_key(data)


@pytest.mark.parametrize("name", ["batch_append_tx", "batch_nullify_tx", "batch_update_address_tree_tx"])
def test_compress_proof__recorded_answer_of_the_prover__is_what_the_instruction_carried(name: str) -> None:
    facts = recorded(name)
    proof = msgspec.convert(facts["prover_response"], ProofJson)
    assert compress_proof(proof).data.hex() == facts["compressed_proof"]
