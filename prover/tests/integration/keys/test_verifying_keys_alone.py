"""Verifying keys read out of key files without loading them, and out of files of their own."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest
from golden_vectors import PUBLISHED
from in_process_service import CONVERTED, circuit

from prover.errors import MalformedKey
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine
from prover.keys.files.verifying_keys import VerifyingKeys, verifying_key_bytes
from prover.keys.store.key_store import KeyStore


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_verifying_key__of_a_key_file__is_that_of_the_loaded_key(name: str, published_keys: KeyStore) -> None:
    loaded = published_keys.get(circuit(name), CancelFlag()).verifying_key.write()
    assert verifying_key_bytes(published_keys.find(circuit(name)), circuit(name)) == loaded


def test_verifying_key__of_the_later_generation__is_that_of_the_loaded_key(later_generation_keys: KeyStore) -> None:
    wanted = circuit(CONVERTED)
    loaded = later_generation_keys.get(wanted, CancelFlag()).verifying_key.write()
    assert verifying_key_bytes(later_generation_keys.find(wanted), wanted) == loaded


def test_verifying_key__of_a_changed_file__is_read_again(
    published_keys: KeyStore, engine: Engine, tmp_path: Path
) -> None:
    wanted = circuit("v2_inclusion_32_1")
    keys, file = VerifyingKeys(tmp_path, engine), tmp_path / wanted.key_file
    assert (keys.has(wanted), keys.find(wanted)) == (False, None)
    shutil.copyfile(published_keys.find(wanted), file)
    found = keys.find(wanted)
    assert found is not None
    assert keys.find(wanted) is found
    file.write_bytes(b"no key")
    assert keys.find(wanted) is None


def test_key_file__of_another_circuit__has_none(published_keys: KeyStore) -> None:
    with pytest.raises(MalformedKey, match="not the key of the circuit"):
        verifying_key_bytes(published_keys.find(circuit("v2_inclusion_32_1")), circuit("v2_inclusion_32_2"))


@pytest.mark.parametrize("generation", ["0.8", "0.14"])
def test_key_file__damaged_anywhere__has_none_or_one_that_the_kernel_checks(
    published_keys: KeyStore, later_generation_keys: KeyStore, engine: Engine, tmp_path: Path, generation: str
) -> None:
    wanted, file = circuit(CONVERTED), tmp_path / "damaged.key"
    keys = published_keys if generation == "0.8" else later_generation_keys
    data = keys.find(wanted).read_bytes()
    seed = int(os.environ.get("ZKC_SEED", "0")) or random.SystemRandom().randrange(2**32)
    numbers = random.Random(seed)
    for _ in range(200):
        bad = bytearray(data[:4096] if numbers.random() < 0.5 else data)
        for _ in range(numbers.randint(1, 3)):
            bad[numbers.randrange(min(len(bad), 600))] ^= 1 << numbers.randrange(8)
        file.write_bytes(bad)
        try:
            engine.load_verifying_key(verifying_key_bytes(file, wanted)).close()
        except MalformedKey:
            continue
