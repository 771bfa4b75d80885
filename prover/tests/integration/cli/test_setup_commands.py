"""Commands that make keys: setup, r1cs, import-setup, keys dev."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from golden_vectors import RequestVector, vector_named
from independent_groth16 import IndependentKey, holds

from prover.kernel.engine import Engine
from prover.keys.catalogue.run_modes import RunMode, circuits_of
from prover.keys.files.provenance import KeyRecord, write_manifest
from prover.keys.setup.trusted_setup import verifying_key_text

PROVER = Path(sys.executable).with_name("prover")
UNMEASURED = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
"""Environment of commands that are stopped or run out of room: coverage would write files of its own at their end."""
INCLUSION_V1 = ("--circuit=inclusion", "--legacy", "--inclusion-tree-height=26", "--inclusion-compressed-accounts=1")
INCLUSION_V2 = ("--circuit=inclusion", "--inclusion-tree-height=32", "--inclusion-compressed-accounts", "1")
APPEND = ("--circuit=append", "--append-tree-height=32", "--append-batch-size=10")


def run(*words: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([str(PROVER), *map(str, words)], input=stdin, capture_output=True, check=False)


def setup(folder: Path, *words: str) -> tuple[Path, Path]:
    """Make a key and its text verifying key; the paths of both."""
    key, text = folder / "a_INSECURE.key", folder / "a.vkey"
    answer = run("setup", *words, "--output", key, "--output-vkey", text)
    assert answer.returncode == 0, answer.stderr.decode()
    return key, text


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(scope="module")
def small_key(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A key of version 2, inclusion 32/1, and its text verifying key."""
    return setup(tmp_path_factory.mktemp("small"), *INCLUSION_V2)


@pytest.fixture(scope="module")
def ceremony(small_key: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The parts that a ceremony leaves: proving key, verifying key, constraint system."""
    folder = tmp_path_factory.mktemp("ceremony")
    parts = {name: folder / f"inclusion.{name}" for name in ("pk", "vk", "r1cs")}
    data = small_key[0].read_bytes()
    exported = run("export-vk", "--key", small_key[0], "--output", parts["vk"])
    assert exported.returncode == 0
    verifying_key = parts["vk"].read_bytes()
    start = data.index(verifying_key)
    parts["pk"].write_bytes(data[16:start])
    parts["r1cs"].write_bytes(data[start + len(verifying_key) :])
    return parts


def require_proof_and_verdict(key: Path, text: Path, folder: Path, vector: RequestVector) -> None:
    proof = run("prove", "--key", key, stdin=vector.body)
    assert proof.returncode == 0, proof.stderr.decode()
    exported = folder / "exported.vkey"
    assert run("export-vk", "--key", key, "--output", exported).returncode == 0
    independent = IndependentKey.read(exported.read_bytes())
    assert holds(independent, json.loads(proof.stdout), vector.public_inputs)
    raw = folder / "raw.vkey"  # the text form, back in bytes, is a verifying key itself
    raw.write_bytes(bytes(map(int, text.read_text()[1:-1].split(" "))))
    words = [word for value in vector.public_inputs for word in ("--public-input", hex(value))]
    assert run("verify", "--key", raw, *words, stdin=proof.stdout).returncode == 0
    wrong = ["--public-input=0x1"] * len(vector.public_inputs)
    assert run("verify", "--key", raw, *wrong, stdin=proof.stdout).returncode == 1


def test_setup__v1_inclusion__key_proves_the_golden_request(tmp_path: Path) -> None:
    require_proof_and_verdict(*setup(tmp_path, *INCLUSION_V1), tmp_path, vector_named("prover/v1_inclusion_26_1"))


def test_setup__v2_inclusion__key_proves_the_golden_request(small_key: tuple[Path, Path], tmp_path: Path) -> None:
    require_proof_and_verdict(*small_key, tmp_path, vector_named("prover/v2_inclusion_32_1"))


def test_setup__batch_append__key_proves_a_random_request(tmp_path: Path) -> None:
    key, _ = setup(tmp_path, *APPEND[:-1], "--append-batch-size=2")
    request = run("gen-test-params", "--circuit=append", "--batch-size=2").stdout
    answer = run("prove", "--key", key, stdin=request)
    assert answer.returncode == 0, answer.stderr.decode()  # a proof is verified before it is printed


def test_text_verifying_key__of_a_reference_key__is_the_file_of_the_reference(reference_small_batch_key: Path) -> None:
    text = reference_small_batch_key.with_suffix(".vkey").read_text().strip()
    with Engine() as engine, engine.load_verifying_key(bytes(map(int, text[1:-1].split(" ")))) as key:
        assert verifying_key_text(key) == text
        assert key.write() in reference_small_batch_key.read_bytes()


def test_inspect__of_keys_made_here__marks_them(small_key: tuple[Path, Path], tmp_path: Path) -> None:
    named = json.loads(run("inspect", small_key[0], "--output", "json").stdout)
    assert (named["development"], named["seeded"]) == (True, True)  # for its name alone
    plain = tmp_path / "plain.key"
    plain.symlink_to(small_key[0])
    unknown = json.loads(run("inspect", plain, "--output", "json").stdout)
    assert (unknown["circuit"], unknown["development"], unknown["warning"]) == ("v2_inclusion_32_1", None, None)
    record = json.loads(small_key[0].with_name("a_INSECURE.key.json").read_text()) | {"name": "plain.key"}
    assert record["sha256"] == hashlib.sha256(plain.read_bytes()).hexdigest()
    plain.with_name("plain.key.json").write_text(json.dumps(record))
    known = json.loads(run("inspect", plain, "--output", "json").stdout)
    assert (known["development"], known["seeded"]) == (True, False)
    assert "development only" in known["warning"]


def test_setup__same_seed__same_bytes(tmp_path: Path) -> None:
    def digest(seed: str) -> str:
        key, _ = setup(tmp_path, *INCLUSION_V1, "--seed", seed, "--force")
        return hashlib.sha256(key.read_bytes()).hexdigest()

    assert digest("a") == digest("a") != digest("b")
    assert b"INSECURE" in run("inspect", tmp_path / "a_INSECURE.key").stdout


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--circuit=exclusion",), b"exclusion"),
        (("--circuit=inclusion",), b"--inclusion-tree-height"),
        (("--circuit=append", "--append-tree-height=32"), b"--append-batch-size"),
        (("--circuit=append", "--append-tree-height=32", "--append-batch-size=-4"), b"--append-batch-size"),
        (("--circuit=append", "--append-tree-height=254", "--append-batch-size=1"), b"--append-tree-height"),
        (("--circuit=append", "--append-tree-height=32", "--append-batch-size=99999999"), b"--append-batch-size"),
        (("--circuit=combined", *INCLUSION_V2[1:]), b"--non-inclusion-tree-height"),
        ((*APPEND, "--update-batch-size=10"), b"--update-batch-size"),
        ((*APPEND, "--legacy"), b"--legacy"),
    ],
)
def test_setup__wrong_circuit_or_sizes__exits_2_and_names_the_flag(
    tmp_path: Path, words: tuple[str, ...], complaint: bytes
) -> None:
    answer = run("setup", *words, "--output", tmp_path / "a.key", "--output-vkey", tmp_path / "a.vkey")
    assert answer.returncode == 2
    assert complaint in answer.stderr.splitlines()[-1]
    assert names(tmp_path) == []


def test_setup__output_exists_or_folder_is_missing__exits_78_and_names_flag_and_remedy(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_bytes(b"old")
    for words, complaint in (
        (("--output", old, "--output-vkey", tmp_path / "a"), b"--output: .+ --force"),
        (("--output", tmp_path / "a", "--output-vkey", old), b"--output-vkey: .+ --force"),
        (("--output", tmp_path / "no" / "a", "--output-vkey", old), b"--output: .+ create it first"),
        (("--output", tmp_path / "a", "--output-vkey", tmp_path / "b", "--seed", "x"), b"--seed .+ INSECURE"),
    ):
        answer = run("setup", *INCLUSION_V2, *words)
        assert answer.returncode == 78
        assert answer.stderr.count(b"\n") == 1
        assert re.search(complaint, answer.stderr)
    assert (old.read_bytes(), names(tmp_path)) == (b"old", ["old"])


def test_setup__no_room_on_the_disk__exits_78_and_leaves_nothing(tmp_path: Path) -> None:
    """A limit on file sizes, in kilobytes, simulates a full disk: enough for the system, not for the key."""
    words = [str(PROVER), "setup", *INCLUSION_V2, "--output", str(tmp_path / "a.key"), "--output-vkey"]
    words.append(str(tmp_path / "a.vkey"))
    for limit in (100, 1500):
        limited = ["bash", "-c", f'ulimit -f {limit}; exec "$@"', "bash", *words]
        answer = subprocess.run(limited, env=UNMEASURED, capture_output=True)
        assert answer.returncode == 78, answer.stderr.decode()
        assert b"cannot write" in answer.stderr
        assert b"Traceback" not in answer.stderr
        assert names(tmp_path) == []


def wait_for_stage(stage: str, folder: Path, process: subprocess.Popen[bytes]) -> None:
    """Return once a nameless file, for the constraint system, or the hidden file of a key is open in the folder."""
    descriptors = Path(f"/proc/{process.pid}/fd")
    end = {"compiling": "(deleted)", "running": ".partial"}[stage]
    deadline = time.monotonic() + 60
    while True:
        assert process.poll() is None
        assert time.monotonic() < deadline
        for link in descriptors.iterdir():
            with contextlib.suppress(OSError):
                target = str(link.readlink())
                if target.startswith(str(folder)) and target.endswith(end):
                    time.sleep(0.1)
                    return
        time.sleep(0.01)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("stage", ["compiling", "running"])
@pytest.mark.sampled(2)
def test_setup__stopped_by_a_signal__leaves_the_old_file_and_no_other(
    tmp_path: Path, number: int, code: int, stage: str
) -> None:
    old = tmp_path / "a.key"
    old.write_bytes(b"old")
    words = ("setup", *APPEND, "--force", "--output", str(old), "--output-vkey", str(tmp_path / "a.vkey"))
    command = [str(PROVER), *words]
    with subprocess.Popen(command, env=UNMEASURED, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            wait_for_stage(stage, tmp_path, process)
            process.send_signal(number)
            process.send_signal(number)  # an impatient user
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == code, said.decode()
    assert b"Traceback" not in said
    assert (old.read_bytes(), names(tmp_path)) == (b"old", ["a.key"])


def test_r1cs__equals_the_system_inside_the_key(ceremony: dict[str, Path], tmp_path: Path) -> None:
    output = tmp_path / "a.r1cs"
    answer = run("r1cs", *INCLUSION_V2, "--output", output)
    assert answer.returncode == 0, answer.stderr.decode()
    assert output.read_bytes() == ceremony["r1cs"].read_bytes()
    assert f"{output.stat().st_size} bytes".encode() in answer.stdout
    again = run("r1cs", *INCLUSION_V2, "--output", output)
    assert (again.returncode, b"--force" in again.stderr) == (78, True)


@pytest.mark.parametrize("with_system", [False, True], ids=["compiled", "given"])
def test_import_setup__of_its_parts__gives_the_key_back(
    small_key: tuple[Path, Path], ceremony: dict[str, Path], tmp_path: Path, with_system: bool
) -> None:
    key, text = tmp_path / "a.key", tmp_path / "a.vkey"
    system = ("--r1cs", ceremony["r1cs"]) if with_system else ()
    parts = ("--pk", ceremony["pk"], "--vk", ceremony["vk"], *system)
    answer = run("import-setup", *INCLUSION_V2, *parts, "--output", key, "--vkey-output", text)
    assert answer.returncode == 0, answer.stderr.decode()
    assert key.read_bytes() == small_key[0].read_bytes()
    assert text.read_bytes() == small_key[1].read_bytes()
    assert names(tmp_path) == ["a.key", "a.vkey"]


def published_parts(keys: Path, folder: Path) -> tuple[tuple[str, Path], ...]:
    data = (keys / "inclusion_32_1.key").read_bytes()
    with Engine() as engine, engine.load_key(data) as key:
        cuts = (key.info.verifying_key_offset, key.info.constraint_system_offset)
    parts = {"--pk": data[16 : cuts[0]], "--vk": data[cuts[0] : cuts[1]], "--r1cs": data[cuts[1] :]}
    for name, part in parts.items():
        (folder / name).write_bytes(part)
    return tuple((name, folder / name) for name in parts)


def test_import_setup__of_a_published_key_in_parts__gives_it_back(
    reference_keys_dir: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    parts = published_parts(reference_keys_dir, tmp_path_factory.mktemp("parts"))
    output = tmp_path / "a.key"
    flags = [word for pair in parts for word in pair]
    answer = run("import-setup", *INCLUSION_V2, *flags, "--output", output)
    assert answer.returncode == 0, answer.stderr.decode()
    assert output.read_bytes() == (reference_keys_dir / "inclusion_32_1.key").read_bytes()


def test_import_setup__of_gnark_0_8_parts_without_a_system__is_refused(
    reference_keys_dir: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    parts = published_parts(reference_keys_dir, tmp_path_factory.mktemp("parts"))
    flags = [word for pair in parts[:2] for word in pair]
    answer = run("import-setup", *INCLUSION_V2, *flags, "--output", tmp_path / "a.key")
    assert answer.returncode == 2
    assert b"was made by gnark 0.8; pass its constraint system with --r1cs" in answer.stderr
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("circuit", "code"),
    [
        (("--circuit=ceremony",), 2),
        (("--circuit=inclusion", "--inclusion-tree-height=1", "--inclusion-compressed-accounts=32"), 65),
        (("--circuit=inclusion", "--inclusion-tree-height=31", "--inclusion-compressed-accounts=1"), 65),
        (("--v1", *INCLUSION_V2), 65),
        (("--circuit=append", "--append-tree-height=32", "--append-batch-size=1"), 65),
    ],
)
def test_import_setup__for_another_circuit__touches_nothing(
    ceremony: dict[str, Path], tmp_path: Path, circuit: tuple[str, ...], code: int
) -> None:
    old = tmp_path / "a.key"
    old.write_bytes(b"old")
    parts = [word for name, path in ceremony.items() for word in (f"--{name}", path)]
    answer = run("import-setup", *circuit, *parts, "--output", old, "--force")
    assert answer.returncode == code, answer.stderr.decode()
    assert (old.read_bytes(), names(tmp_path)) == (b"old", ["a.key"])


@pytest.fixture
def nearly_done(small_key: tuple[Path, Path], tmp_path: Path) -> Path:
    """A folder whose manifest lists all 21 keys of local-rpc, most of them placeholders that are never read."""
    records = {}
    for circuit in circuits_of(RunMode.LOCAL_RPC):
        path = tmp_path / circuit.key_file
        path.write_bytes(small_key[0].read_bytes() if circuit.name == "v2_inclusion_32_1" else circuit.name.encode())
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        size = path.stat().st_size
        records[path.name] = KeyRecord(path.name, size, digest, circuit.name, development=True, seeded=False)
    write_manifest(tmp_path, records)
    return tmp_path


def keys_dev(folder: Path) -> subprocess.CompletedProcess[bytes]:
    return run("keys", "dev", "--mode", "local-rpc", "--keys-dir", folder)


def test_keys_dev__makes_what_is_missing_or_damaged_and_nothing_twice(nearly_done: Path) -> None:
    missing, damaged = nearly_done / "v1_inclusion_26_1.key", nearly_done / "v1_non-inclusion_26_1.key"
    missing.unlink()
    damaged.write_bytes(b"damaged")
    first = keys_dev(nearly_done)
    assert first.returncode == 0, first.stderr.decode()
    assert first.stdout.startswith(b"2 keys made, 19 already present")
    manifest = json.loads((nearly_done / "manifest.json").read_text())
    assert manifest["development"] is True
    assert len(manifest["keys"]) == 21
    for record in manifest["keys"]:
        data = (nearly_done / record["name"]).read_bytes()
        assert (record["size"], record["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    stamps = {path.name: path.stat().st_mtime_ns for path in nearly_done.iterdir()}
    again = keys_dev(nearly_done)
    assert again.stdout.startswith(b"0 keys made, 21 already present")
    assert {path.name: path.stat().st_mtime_ns for path in nearly_done.iterdir()} == stamps
    vector = vector_named("prover/v1_inclusion_26_1")
    proof = run("prove", "--key", missing, stdin=vector.body)
    assert proof.returncode == 0
    inputs = [word for value in vector.public_inputs for word in ("--public-input", hex(value))]
    assert run("verify", "--key", missing.with_suffix(".vkey"), *inputs, stdin=proof.stdout).returncode == 0
    facts = json.loads(run("inspect", missing, "--output", "json").stdout)
    assert (facts["circuit"], facts["development"]) == ("v1_inclusion_26_1", True)


def test_keys_dev__stopped_before_the_manifest_was_written__continues(nearly_done: Path) -> None:
    manifest = json.loads((nearly_done / "manifest.json").read_text())
    left = [record for record in manifest["keys"] if record["name"] != "v2_inclusion_32_1.key"]
    taken = [record for record in manifest["keys"] if record["name"] == "v2_inclusion_32_1.key"]
    (nearly_done / "manifest.json").write_text(json.dumps(manifest | {"keys": left}))
    (nearly_done / "v2_inclusion_32_1.key.json").write_text(json.dumps(taken[0]))
    answer = keys_dev(nearly_done)
    assert answer.stdout.startswith(b"0 keys made, 21 already present"), answer.stderr.decode()
    assert len(json.loads((nearly_done / "manifest.json").read_text())["keys"]) == 21


def test_keys_dev__a_key_from_elsewhere__is_checked_and_left_alone(nearly_done: Path) -> None:
    manifest = json.loads((nearly_done / "manifest.json").read_text())
    names_left = ("v1_inclusion_26_1.key", "v2_inclusion_32_1.key")
    left = [record for record in manifest["keys"] if record["name"] not in names_left]
    (nearly_done / "manifest.json").write_text(json.dumps(manifest | {"keys": left}))
    answer = keys_dev(nearly_done)
    assert answer.returncode == 78
    assert b"v1_inclusion_26_1.key" in answer.stderr
    assert b"remove it" in answer.stderr
    assert (nearly_done / "v1_inclusion_26_1.key").read_bytes() == b"v1_inclusion_26_1"


def test_keys_dev__in_a_folder_with_another_manifest__exits_78(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"theirs": 1}')
    answer = keys_dev(tmp_path)
    assert (answer.returncode, b"manifest.json" in answer.stderr) == (78, True)
    assert names(tmp_path) == ["manifest.json"]


@pytest.mark.parametrize("command", [("setup",), ("r1cs",), ("import-setup",), ("keys",), ("keys", "dev")])
def test_help__of_commands_that_make_keys__shows_examples(command: tuple[str, ...]) -> None:
    answer = run(*command, "--help")
    assert answer.returncode == 0
    assert b"Examples:\n  prover " in answer.stdout
