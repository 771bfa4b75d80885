"""Exported verifying keys are those of the on-chain programs, and of the reference's own setup."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from golden_vectors import BATCH, PUBLISHED, load
from in_process_service import VerifyingKeyOf, circuit
from independent_groth16 import on_chain_block
from sampling import FULL

from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Encoding
from prover.keys.store.key_store import KeyStore

PROGRAMS: dict[str, Any] = load("onchain/vk_offsets.json")["programs"]
SYSTEM_PROGRAMS = ("light_system_program_pinocchio.so", "light_system_program.so")


def on_chain_name(name: str) -> str:
    return name.split("_", 1)[1].replace("non-inclusion", "non_inclusion")


@pytest.mark.parametrize("program", SYSTEM_PROGRAMS)
@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_verifying_key__of_a_published_key__is_the_one_on_chain(
    name: str,
    program: str,
    published_keys: KeyStore,
    verifying_key_of: VerifyingKeyOf,
    reference_programs_dir: Path,
) -> None:
    offsets = PROGRAMS[f"0.27.0/{program}"]
    offset = offsets["keys"].get(on_chain_name(name))
    if offset is None:
        assert program == "light_system_program.so"
        assert name.startswith("v2_")  # the older program knows version 1 only
        return
    image = (reference_programs_dir / program).read_bytes()
    assert hashlib.sha256(image).hexdigest() == offsets["sha256"]
    main, ic = on_chain_block(verifying_key_of(published_keys, name))
    assert image[offset["main"] : offset["main"] + 448] == main
    assert image[offset["ic"] : offset["ic"] + 64 * offset["n_ic"]] == ic


def test_verifying_keys__all_published__are_in_one_program() -> None:
    on_chain = PROGRAMS["0.27.0/light_system_program_pinocchio.so"]["keys"]
    assert {on_chain_name(name) for name in PUBLISHED} <= set(on_chain)
    assert len(PUBLISHED) == 18


@pytest.mark.reference_batch_keys
@pytest.mark.parametrize("name", sorted(BATCH) if FULL else ["batch_update_32_10"])
def test_verifying_key__of_a_batch_key__is_the_text_of_the_setup(
    name: str, batch_keys: KeyStore, reference_batch_keys_dir: Path
) -> None:
    key = batch_keys.get(circuit(name), CancelFlag())
    text = reference_batch_keys_dir / circuit(name).earlier_key_file.replace(".key", ".vkey")
    raw = bytes(map(int, text.read_text().strip().strip("[]").split()))
    assert key.verifying_key.write(Encoding.RAW) == raw
