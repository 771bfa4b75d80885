"""Published keys in their prepared key: the golden proofs bit for bit, in the store and by command."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from circuit_inputs import circuit_inputs
from click.testing import CliRunner
from golden_vectors import UNBLINDED, load, proof_points, vector_named
from in_process_service import CONVERTED, circuit
from prepared_file import all_but_notes
from prometheus_client import CollectorRegistry

from prover.cli.main import cli
from prover.errors import KernelMisused
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Backend, Engine
from prover.keys.prepared import folding, prepared_keys
from prover.keys.prepared.preparation import PreparedKeys
from prover.keys.store.key_store import KeyStore
from prover.observability.metrics import Metrics

PROVER = Path(sys.executable).with_name("prover")
GOLDEN = ("inclusion_32_1", "mainnet_inclusion_26_1", "non-inclusion_40_1")
BACKENDS = [Backend.PORTABLE, Backend.ADX, Backend.AVX2, Backend.AVX512, Backend.IFMA]
BATCH = "prover/batch_append_32_10"
BLINDING = (bytes(31) + b"\x11", bytes(31) + b"\x07")
DEADLINE_S = 120


def scalars(values: list[int]) -> bytes:
    return b"".join(value.to_bytes(32, "big") for value in values)


def engine_of(backend: Backend, threads: int = 0) -> Engine:
    try:
        return Engine(threads=threads, backend=backend)
    except KernelMisused:
        pytest.skip(f"the {backend.name} backend does not run on this CPU")


@pytest.mark.parametrize(
    ("name", "backend"),
    [*((name, Backend.AUTO) for name in GOLDEN), *((GOLDEN[0], backend) for backend in BACKENDS)],
    ids=lambda value: value.name.lower() if isinstance(value, Backend) else value,
)
@pytest.mark.sampled(4)
def test_prove__prepared_published_key__gives_the_golden_proof(
    reference_keys_dir: Path, tmp_path: Path, name: str, backend: Backend
) -> None:
    vector = load(f"gnark/{name}.json")
    golden = proof_points(vector["unblinded"])
    inputs = scalars(circuit_inputs(vector["request"]))
    source = reference_keys_dir / f"{name}.key"
    with engine_of(backend) as engine:
        assert prepared_keys.prepare(engine, source, tmp_path)
        with prepared_keys.load(engine, source, tmp_path) as key:
            assert key.info.mapped_bytes
            assert key.prove(inputs, blinding=UNBLINDED).points == golden


@pytest.mark.parametrize(
    ("name", "backend", "mebibytes"),
    [(GOLDEN[0], Backend.AUTO, 64), (GOLDEN[0], Backend.ADX, 12), ("non-inclusion_40_1", Backend.AUTO, 24)],
    ids=str,
)
@pytest.mark.sampled(1)
def test_prove__published_key_with_tables__gives_the_golden_proof(
    reference_keys_dir: Path, tmp_path: Path, name: str, backend: Backend, mebibytes: int
) -> None:
    vector = load(f"gnark/{name}.json")
    golden = proof_points(vector["unblinded"])
    inputs = scalars(circuit_inputs(vector["request"]))
    source = reference_keys_dir / f"{name}.key"
    with engine_of(backend) as engine:
        assert prepared_keys.prepare(engine, source, tmp_path, table_bytes=mebibytes << 20)
        with prepared_keys.load(engine, source, tmp_path) as key:
            assert 0 < key.info.table_bytes <= mebibytes << 20
            assert key.prove(inputs, blinding=UNBLINDED).points == golden
            key.verifying_key.verify(key.prove(inputs).points, inputs[: 32 * key.info.public_inputs])
    with engine_of(backend, 16) as many, prepared_keys.load(many, source, tmp_path) as key:
        assert key.prove(inputs, blinding=UNBLINDED).points == golden


@pytest.mark.parametrize(
    ("name", "mebibytes"), [(GOLDEN[0], 0), (GOLDEN[0], 64), ("mainnet_inclusion_26_1", 0)], ids=str
)
@pytest.mark.sampled(1)
def test_prove__published_key_folded__gives_the_golden_proof(
    reference_keys_dir: Path, tmp_path: Path, name: str, mebibytes: int
) -> None:
    """The first on the whole coset, the last on a part of it."""
    vector = load(f"gnark/{name}.json")
    golden = proof_points(vector["unblinded"])
    inputs = scalars(circuit_inputs(vector["request"]))
    source = reference_keys_dir / f"{name}.key"
    with Engine() as engine:
        assert prepared_keys.prepare(engine, source, tmp_path, table_bytes=mebibytes << 20, fold=True)
        with prepared_keys.load(engine, source, tmp_path) as key:
            assert key.info.fold_bytes > 0
            assert (key.info.table_bytes > 0) == (mebibytes > 0)
            assert key.prove(inputs, blinding=UNBLINDED).points == golden
            key.verifying_key.verify(key.prove(inputs).points, inputs[: 32 * key.info.public_inputs])
    for threads in (3, 48):
        with Engine(threads) as many, prepared_keys.load(many, source, tmp_path) as key:
            assert key.prove(inputs, blinding=UNBLINDED).points == golden


def assert_same_proofs(source: Path, inputs: bytes, folder: Path) -> None:
    with Engine() as engine:
        plain, origin = prepared_keys.load_with_origin(engine, source)
        with plain:
            assert prepared_keys.prepare_loaded(plain, origin, engine, source, folder, CancelFlag())
            with prepared_keys.load(engine, source, folder) as mapped:
                assert mapped.info.mapped_bytes
                first, second = (key.prove(inputs, blinding=BLINDING).points for key in (plain, mapped))
                assert first == second
                mapped.verifying_key.verify(first, inputs[: 32 * mapped.info.public_inputs])


def test_prove__prepared_key_of_the_later_format__equals_the_source(later_format_dir: Path, tmp_path: Path) -> None:
    inputs = scalars(circuit_inputs(load("gnark/inclusion_32_1.json")["request"]))
    assert_same_proofs(later_format_dir / circuit(CONVERTED).key_file, inputs, tmp_path)


@pytest.mark.reference_batch_keys
@pytest.mark.sampled(0)
def test_prove__prepared_batch_key__equals_the_source(reference_batch_keys_dir: Path, tmp_path: Path) -> None:
    vector = vector_named(BATCH)
    source = reference_batch_keys_dir / circuit(vector.circuit).earlier_key_file
    assert_same_proofs(source, scalars(circuit_inputs(vector.request)), tmp_path)


def test_store__opened_again__maps_what_it_prepared(reference_keys_dir: Path, tmp_path: Path) -> None:
    small = circuit("v2_inclusion_32_1")
    source = Path(shutil.copy(reference_keys_dir / small.earlier_key_file, tmp_path))
    found = []
    with Engine() as engine:
        for _ in range(2):
            folder = PreparedKeys(tmp_path / prepared_keys.FOLDER)
            metrics = Metrics(CollectorRegistry())
            store = KeyStore(tmp_path, engine, metrics, prepared_keys=folder)
            key = store.get(small, CancelFlag())
            found.append((key.info.mapped_bytes > 0, metrics.key_bytes._value.get() < 400_000))
            deadline = time.monotonic() + DEADLINE_S
            while not prepared_keys.path_of(engine, source, folder.folder).exists():
                assert time.monotonic() < deadline
                time.sleep(0.01)
            store.close()
    assert found == [(False, False), (True, True)]


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(PROVER), *map(str, words)], capture_output=True, text=True, check=False)


def test_keys_prepare__folder_file_and_selection__prepares_each_once(reference_keys_dir: Path, tmp_path: Path) -> None:
    first, second = circuit("v1_inclusion_26_1"), circuit("v2_inclusion_32_1")
    for chosen in (first, second):
        shutil.copy(reference_keys_dir / chosen.earlier_key_file, tmp_path)
    answer = run("keys", "prepare", "--keys-dir", tmp_path, "--circuit", first.name, "--no-fold")
    assert (answer.returncode, answer.stdout) == (0, "1 keys prepared, 0 already present\n"), answer.stderr
    answer = run("keys", "prepare", "--keys-dir", tmp_path, "--no-fold")
    assert (answer.returncode, answer.stdout) == (0, "1 keys prepared, 1 already present\n"), answer.stderr
    elsewhere = ("--no-fold", "--prepared-dir", tmp_path / "elsewhere")
    answer = run("keys", "prepare", tmp_path / second.earlier_key_file, *elsewhere)
    assert (answer.returncode, answer.stdout) == (0, "1 keys prepared, 0 already present\n"), answer.stderr
    assert len(all_but_notes(tmp_path / prepared_keys.FOLDER)) == 2
    (plain,) = all_but_notes(tmp_path / "elsewhere")
    size = plain.stat().st_size
    answer = run("keys", "prepare", tmp_path / second.earlier_key_file, *elsewhere, "--table-memory", "64")
    assert (answer.returncode, answer.stdout) == (0, "1 keys prepared, 0 already present\n"), answer.stderr
    assert size < plain.stat().st_size <= size + (64 << 20)


def is_folded(key: Path) -> bool:
    """Return whether the prepared key is folded, as a prover would map it."""
    with Engine() as engine, prepared_keys.load(engine, key, key.parent / prepared_keys.FOLDER) as found:
        assert found.info.mapped_bytes
        return found.info.fold_bytes > 0


def test_keys_prepare__published_key__is_folded_unless_requested_otherwise_and_stays_so(
    reference_keys_dir: Path, tmp_path: Path
) -> None:
    key = Path(shutil.copy(reference_keys_dir / circuit("v2_non-inclusion_40_1").earlier_key_file, tmp_path))
    found = []
    for words in (("--no-fold",), ("--no-fold",), (), (), ("--fold",), ("--no-fold",)):
        answer = run("keys", "prepare", key, *words)
        assert answer.returncode == 0, answer.stderr
        assert "is not folded" not in answer.stderr
        found.append((answer.stdout, is_folded(key)))
    made, there = "1 keys prepared, 0 already present\n", "0 keys prepared, 1 already present\n"
    assert found == [(made, False), (there, False), (made, True), (there, True), (there, True), (there, True)]


def test_keys_prepare__key_that_takes_more_than_is_cheap__stays_plain_and_is_named(
    reference_keys_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit lies between the two keys, which take 0.1 and 0.6 million multiplications of points."""
    monkeypatch.setattr(folding, "CHEAP_MULTIPLICATIONS", 300_000)
    small, large = (
        Path(shutil.copy(reference_keys_dir / circuit(name).earlier_key_file, tmp_path))
        for name in ("v2_inclusion_32_1", "v2_non-inclusion_40_1")
    )
    answer = CliRunner().invoke(cli, ["keys", "prepare", "--threads", "1", str(small), str(large)])
    assert answer.exit_code == 0, answer.output
    assert answer.stdout == "2 keys prepared, 0 already present\n"
    assert f"{large} is not folded: folding takes 0.6 million multiplications of points, about " in answer.stderr
    assert " on 1 thread of this machine: --fold does it" in answer.stderr
    assert f"{small} is not folded" not in answer.stderr
    assert (is_folded(small), is_folded(large)) == (True, False)
    answer = CliRunner().invoke(cli, ["keys", "prepare", "--no-fold", str(large)])
    assert "is not folded" not in answer.stderr


def test_keys_prepare__nothing_to_prepare__fails_with_a_remedy(tmp_path: Path) -> None:
    answer = run("keys", "prepare", "--keys-dir", tmp_path)
    assert answer.returncode == 78
    assert "has none of the selected keys" in answer.stderr
    assert "prover download" in answer.stderr
    answer = run("keys", "prepare", "--keys-dir", tmp_path / "none")
    assert answer.returncode == 78
    assert answer.stderr.startswith(f"error: --keys-dir: {tmp_path / 'none'} does not exist; choose another, or run")


def test_keys_prepare__misnamed_or_broken_key__fails_and_writes_nothing(
    reference_keys_dir: Path, tmp_path: Path
) -> None:
    first, second = circuit("v1_inclusion_26_1"), circuit("v2_inclusion_32_1")
    path = Path(shutil.copy(reference_keys_dir / first.earlier_key_file, tmp_path / second.key_file))
    answer = run("keys", "prepare", "--keys-dir", tmp_path)
    assert answer.returncode == 65
    assert first.name in answer.stderr
    path.write_bytes(path.read_bytes()[:-1000])
    answer = run("keys", "prepare", path)
    assert answer.returncode == 65
    assert path.name in answer.stderr
    assert all_but_notes(tmp_path / prepared_keys.FOLDER) == []


def test_keys_prepare__files_and_a_selection__is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "x.key").write_bytes(b"")
    assert run("keys", "prepare", tmp_path / "x.key", "--circuit", "inclusion").returncode == 2


def test_prove__with_a_prepared_key_next_to_it__proves_from_that(reference_keys_dir: Path, tmp_path: Path) -> None:
    vector = vector_named("prover/v2_inclusion_32_1")
    source = Path(shutil.copy(reference_keys_dir / circuit(vector.circuit).earlier_key_file, tmp_path))
    assert run("keys", "prepare", source, "--no-fold").returncode == 0
    answer = subprocess.run(
        [str(PROVER), "prove", "--key", str(source)], input=vector.body, capture_output=True, check=False
    )
    assert answer.returncode == 0, answer.stderr


def test_keys_verify__damaged_prepared_key__is_bad_until_it_is_made_again(
    reference_keys_dir: Path, tmp_path: Path
) -> None:
    small = circuit("v1_inclusion_26_1")
    shutil.copy(reference_keys_dir / small.earlier_key_file, tmp_path)
    assert run("keys", "prepare", "--keys-dir", tmp_path, "--no-fold").returncode == 0
    assert "its prepared key" in run("keys", "verify", "--keys-dir", tmp_path).stdout
    (form,) = all_but_notes(tmp_path / prepared_keys.FOLDER)
    data = bytearray(form.read_bytes())
    data[len(data) // 2] ^= 1
    form.unlink()
    form.write_bytes(data)
    answer = run("keys", "verify", "--keys-dir", tmp_path)
    assert answer.returncode == 1
    assert form.name in answer.stdout
    assert "checksum" in answer.stdout
    assert run("keys", "prepare", "--keys-dir", tmp_path, "--force", "--no-fold").returncode == 0
    assert run("keys", "verify", "--keys-dir", tmp_path).returncode == 0
