"""Verifying keys read out of key files without loading them, and out of files of their own."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from golden_vectors import PUBLISHED
from in_process_service import CONVERTED, circuit
from independent_groth16 import IndependentKey
from structlog.testing import capture_logs

from prover.errors import MalformedKey
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine
from prover.keys.catalogue.circuits import PUBLISHED_CIRCUITS
from prover.keys.catalogue.published_verifying_keys import published_verifying_keys
from prover.keys.files import verifying_keys
from prover.keys.files.verifying_keys import VerifyingKeys, load_verifying_key, verifying_key_bytes
from prover.keys.store.key_store import KeyStore
from shared.requests.circuit_id import CircuitId, CircuitKind

REGENERATE = Path(__file__).resolve().parents[3] / "scripts/regenerate_verifying_keys.py"


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_verifying_key__of_a_key_file__is_that_of_the_loaded_key(name: str, published_keys: KeyStore) -> None:
    loaded = published_keys.get(circuit(name), CancelFlag()).verifying_key.write()
    assert verifying_key_bytes(published_keys.find(circuit(name)), circuit(name)) == loaded


def test_verifying_key__of_the_later_format__is_that_of_the_loaded_key(later_format_keys: KeyStore) -> None:
    wanted = circuit(CONVERTED)
    loaded = later_format_keys.get(wanted, CancelFlag()).verifying_key.write()
    assert verifying_key_bytes(later_format_keys.find(wanted), wanted) == loaded


def test_verifying_key__of_a_changed_file__is_read_again(
    published_keys: KeyStore, engine: Engine, tmp_path: Path
) -> None:
    wanted = circuit("v2_inclusion_32_1")
    keys, file = VerifyingKeys(tmp_path, engine), tmp_path / wanted.key_file
    published = keys.find(wanted)
    assert len(published) == 2  # of both releases
    shutil.copyfile(published_keys.find(wanted), file)
    found = keys.find(wanted)
    assert [key.write() for key in found] == [verifying_key_bytes(file, wanted)]
    assert keys.find(wanted) is found
    file.write_bytes(b"no key")
    assert keys.find(wanted) == ()


def test_verifying_key__of_a_file_that_could_not_be_read_once__is_read_again(
    published_keys: KeyStore, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = circuit("v2_inclusion_32_1")
    keys = VerifyingKeys(published_keys.directory, engine)

    def fail(*_: object) -> bytes:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patched, capture_logs() as lines:
        patched.setattr(verifying_keys, "verifying_key_bytes", fail)
        assert keys.find(wanted) == ()
    assert [line["event"] for line in lines] == ["verifying_key_unreadable"]
    assert len(keys.find(wanted)) == 1


def test_key_file__of_another_circuit__has_none(published_keys: KeyStore) -> None:
    with pytest.raises(MalformedKey, match="not the key of the circuit"):
        verifying_key_bytes(published_keys.find(circuit("v2_inclusion_32_1")), circuit("v2_inclusion_32_2"))


def test_verifying_key_file__that_is_longer_than_its_size_said__is_read_to_a_bound(
    engine: Engine, tmp_path: Path
) -> None:
    pipe = tmp_path / "v2_inclusion_32_1.vkey"
    os.mkfifo(pipe)  # its size is 0, as is that of a file which grows after it was read

    def write() -> None:
        with contextlib.suppress(BrokenPipeError):
            pipe.write_bytes(bytes(2**22))

    writer = threading.Thread(target=write)
    writer.start()
    with pytest.raises(MalformedKey, match="neither a proving key nor a verifying key"):
        load_verifying_key(engine, pipe)
    writer.join()


@pytest.mark.parametrize("format_version", ["0.8", "0.14"])
def test_key_file__damaged_anywhere__has_none_or_one_that_the_kernel_checks(
    published_keys: KeyStore, later_format_keys: KeyStore, engine: Engine, tmp_path: Path, format_version: str
) -> None:
    wanted, file = circuit(CONVERTED), tmp_path / "damaged.key"
    keys = published_keys if format_version == "0.8" else later_format_keys
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


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_published_verifying_key__of_the_earlier_release__is_that_of_its_key_file(
    name: str, published_keys: KeyStore
) -> None:
    key = IndependentKey.read(published_verifying_keys(circuit(name))[-1])
    of_file = IndependentKey.read(verifying_key_bytes(published_keys.find(circuit(name)), circuit(name)))
    assert (key.alpha, key.beta, key.gamma, key.delta, key.k) == (
        of_file.alpha,
        of_file.beta,
        of_file.gamma,
        of_file.delta,
        of_file.k,
    )


def test_published_verifying_keys__of_all_circuits__have_their_public_inputs(engine: Engine, tmp_path: Path) -> None:
    keys = VerifyingKeys(tmp_path, engine)
    for circuit_id in PUBLISHED_CIRCUITS:
        inputs = 1 if circuit_id.version == 2 else 2 * sum(circuit_id.sizes)
        found = keys.find(circuit_id)
        assert {key.public_inputs for key in found} == {inputs}, circuit_id.name
    assert keys.find(CircuitId(CircuitKind.BATCH_UPDATE, 2, (32,), (2,))) == ()


def test_published_verifying_keys__made_again_from_the_programs__are_those_of_the_package(
    reference_programs_dir: Path,
) -> None:
    environment = os.environ | {"PYTHONPATH": str(REGENERATE.parents[2] / "shared/scripts")}
    words = [sys.executable, str(REGENERATE), "--check"]
    made = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert (made.returncode, made.stdout, made.stderr) == (0, "", "")
