"""The commands as a shell sees them: standard streams, exit codes, files."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from golden_vectors import BATCH, PUBLISHED, RequestVector, request_vectors, vector_named
from in_process_service import CONVERTED, VerifyingKeyOf, circuit, scalars
from independent_groth16 import IndependentKey, holds
from sampling import FULL

from prover.kernel.engine import Engine
from prover.keys.store.key_store import KeyStore
from prover.proving.proof_encoding import read_proof

PROVER = Path(sys.executable).with_name("prover")
SMALL = vector_named("prover/v1_inclusion_26_1")
HASHED = vector_named("prover/v2_inclusion_32_1")


def run(*words: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([str(PROVER), *map(str, words)], input=stdin, capture_output=True, check=False)


def public_input_words(values: Sequence[int]) -> list[str]:
    return [word for value in values for word in ("--public-input", hex(value))]


def one_vector_per_circuit() -> list[RequestVector]:
    """Return one example per circuit, of which `make test` uses one of each kind and version."""
    chosen: dict[object, RequestVector] = {}
    for vector in request_vectors():
        if vector.circuit in PUBLISHED | (BATCH if FULL else frozenset()):
            known = circuit(vector.circuit)
            chosen.setdefault(known if FULL else (known.kind, known.version), vector)
    return list(chosen.values())


@pytest.mark.parametrize(
    "vector",
    [
        pytest.param(
            vector, id=vector.circuit, marks=[pytest.mark.reference_batch_keys] if vector.circuit in BATCH else []
        )
        for vector in one_vector_per_circuit()
    ],
)
@pytest.mark.sampled(3)
def test_prove__every_kind_of_circuit__writes_a_proof_that_holds(
    vector: RequestVector, request: pytest.FixtureRequest, engine: Engine
) -> None:
    folder: Path = request.getfixturevalue(
        "reference_batch_keys_dir" if vector.circuit in BATCH else "reference_keys_dir"
    )
    answer = run("prove", "--key", folder / circuit(vector.circuit).earlier_key_file, stdin=vector.body)
    assert answer.returncode == 0, answer.stderr.decode()
    assert len(answer.stdout) == 580  # the proof and a line end
    store: KeyStore = request.getfixturevalue("batch_keys" if vector.circuit in BATCH else "published_keys")
    from prover.kernel.cancellation import CancelFlag

    exported = store.get(circuit(vector.circuit), CancelFlag()).verifying_key.write()
    with engine.load_verifying_key(exported) as key:
        key.verify(read_proof(answer.stdout), scalars(vector.public_inputs))


def test_prove__with_a_key_of_gnark_0_14__gives_a_proof_for_the_published_key(
    later_format_dir: Path, published_keys: KeyStore, verifying_key_of: VerifyingKeyOf
) -> None:
    answer = run("prove", "--key", later_format_dir / f"{CONVERTED}.key", stdin=HASHED.body)
    assert answer.returncode == 0, answer.stderr.decode()
    assert holds(verifying_key_of(published_keys, CONVERTED), json.loads(answer.stdout), HASHED.public_inputs)


@pytest.mark.parametrize("vector", [SMALL, HASHED], ids=lambda vector: vector.circuit)
@pytest.mark.sampled(1)
def test_verify__of_a_proof__exits_by_its_verdict(
    vector: RequestVector, reference_keys_dir: Path, tmp_path: Path
) -> None:
    key = reference_keys_dir / circuit(vector.circuit).earlier_key_file
    proof = run("prove", "--key", key, stdin=vector.body).stdout
    exported = tmp_path / "deep" / "er" / "a.vkey"
    written = run("export-vk", "-k", key, "--output", exported)
    assert written.returncode == 0
    assert str(exported.stat().st_size) in written.stdout.decode()

    right = public_input_words(vector.public_inputs)
    wrong = public_input_words((vector.public_inputs[0] + 1, *vector.public_inputs[1:]))
    for file in (key, exported):
        accepted = run("verify", "--key", file, *right, stdin=proof)
        assert (accepted.returncode, accepted.stdout) == (0, b"valid\n"), accepted.stderr.decode()
        rejected = run("verify", "--key", file, *wrong, "--output", "json", stdin=proof)
        assert rejected.returncode == 1
        assert json.loads(rejected.stdout)["valid"] is False
    joined = ",".join(hex(value) for value in vector.public_inputs)
    assert run("verify", "--key", exported, "--public-input", joined, stdin=proof).returncode == 0


def test_verify__of_what_is_no_proof__exits_1(reference_keys_dir: Path) -> None:
    key = reference_keys_dir / circuit(HASHED.circuit).earlier_key_file
    answer = run("verify", "--key", key, *public_input_words(HASHED.public_inputs), stdin=b"{}")
    assert answer.returncode == 1
    assert answer.stdout.startswith(b"invalid: ")


def test_prove__with_a_folder_of_keys__takes_that_of_the_request(
    reference_keys_dir: Path, published_keys: KeyStore, verifying_key_of: VerifyingKeyOf
) -> None:
    answer = run("prove", "--inclusion", "--keys-dir", reference_keys_dir, stdin=HASHED.body)
    assert answer.returncode == 0, answer.stderr.decode()
    assert holds(verifying_key_of(published_keys, HASHED.circuit), json.loads(answer.stdout), HASHED.public_inputs)


@pytest.mark.parametrize(("name", "code"), [("inclusion", 1), ("v2_inclusion_32_1", 1), ("append", 2)])
def test_verify__with_a_circuit__compares_it_with_the_key(reference_keys_dir: Path, name: str, code: int) -> None:
    key = reference_keys_dir / circuit(HASHED.circuit).earlier_key_file
    public = public_input_words(HASHED.public_inputs)
    answer = run("verify", "--keys-file", key, "--circuit", name, *public, stdin=b"{}")
    assert answer.returncode == code
    assert (b"--circuit is append, but inclusion_32_1.key holds v2_inclusion_32_1" in answer.stderr) is (code == 2)


@pytest.mark.parametrize("words", [(), ("--public-input", "0xzz"), ("--public-input", "1", "--public-input", "2")])
def test_verify__used_wrongly__exits_2(reference_keys_dir: Path, words: tuple[str, ...]) -> None:
    key = reference_keys_dir / circuit(HASHED.circuit).earlier_key_file
    answer = run("verify", "--key", key, *words, stdin=b"{}")
    assert answer.returncode == 2
    assert b"public" in answer.stderr


def test_verify__without_a_proof__says_where_it_must_be(reference_keys_dir: Path) -> None:
    key = reference_keys_dir / circuit(HASHED.circuit).earlier_key_file
    answer = run("verify", "--key", key, "--public-input", "0x1")
    assert answer.returncode == 1
    assert b"standard input is empty, where `prover verify` expects a proof" in answer.stdout
    assert b"prover verify ... < proof.json" in answer.stdout


def test_prove__unsatisfied__exits_1_and_names_the_member(reference_keys_dir: Path) -> None:
    key = reference_keys_dir / circuit(HASHED.circuit).earlier_key_file
    request = HASHED.request | {"publicInputHash": "0x1"}
    answer = run("prove", "--key", key, stdin=json.dumps(request).encode())
    assert (answer.returncode, answer.stdout) == (1, b"")
    assert b"a constraint is not satisfied: the public input hash is that of other inputs" in answer.stderr
    assert b"at $.publicInputHash" in answer.stderr


@pytest.mark.parametrize(
    ("stdin", "code", "words"),
    [
        (b"", 65, b"standard input is empty, where `prover prove` expects a request; pass it: prover prove ... < "),
        (b" \n", 65, b"standard input is empty"),
        (b"{", 65, b"failed to parse JSON"),
        (b"{}", 65, b"circuitType"),
        (SMALL.body, 65, b"the request is for v1_inclusion_26_1, but inclusion_32_1.key holds v2_inclusion_32_1"),
        (HASHED.body.replace(b'"0x', b'"0xz', 1), 65, b"invalid number"),
    ],
)
def test_prove__of_a_bad_request__exits_65(reference_keys_dir: Path, stdin: bytes, code: int, words: bytes) -> None:
    answer = run("prove", "--key", reference_keys_dir / "inclusion_32_1.key", stdin=stdin)
    assert (answer.returncode, answer.stdout) == (code, b"")
    assert words in answer.stderr


def test_commands__without_a_key_file__exit_2(tmp_path: Path) -> None:
    for words in (
        ("prove",),
        ("prove", "--key", tmp_path / "absent.key"),
        ("inspect", tmp_path / "absent.key"),
        ("x",),
    ):
        assert run(*words).returncode == 2


@pytest.mark.parametrize("content", [b"", b"nonsense", bytes(5000), b"[1 2 x]", b"[1 2 3]", b"[256]"])
@pytest.mark.sampled(3)
def test_commands__on_a_file_that_is_no_key__exit_65(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "x.key"
    file.write_bytes(content)
    for words in (("inspect", file), ("export-vk", "-k", file, "--output", tmp_path / "y"), ("prove", "--key", file)):
        answer = run(*words, stdin=HASHED.body)
        assert answer.returncode == 65, answer.stderr.decode()
        assert answer.stderr.startswith(b"error: ")
        assert b"Traceback" not in answer.stderr
    assert not (tmp_path / "y").exists()


@pytest.mark.parametrize("content", [b"", b"nonsense", b"[1 2 x]", b"[1 2 3]"])
def test_inspect__of_a_file_that_is_no_key__names_it_what_it_must_be_and_the_remedy(
    tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "notes.txt"
    file.write_bytes(content)
    for words in (("inspect", file), ("verify", "--key", file, "--public-input", "0x1")):
        text = run(*words, stdin=b"{}").stderr.decode()
        assert text.startswith("error: notes.txt is neither a proving key nor a verifying key")
        assert "`prover download`" in text
        assert "`prover export-vk`" in text


def test_inspect__of_a_proving_key__reports_what_it_is(
    reference_keys_dir: Path, published_keys: KeyStore, verifying_key_of: VerifyingKeyOf, tmp_path: Path
) -> None:
    misnamed = tmp_path / "something.bin"
    misnamed.symlink_to(reference_keys_dir / "combined_32_40_1_2.key")
    facts = json.loads(run("inspect", misnamed, "--output", "json").stdout)
    assert facts["file"] == "proving key"
    assert facts["circuit"] == "v2_combined_32_40_1_2"
    assert (facts["kind"], facts["version"], facts["format_version"]) == ("combined", 2, "0.8")
    assert (facts["heights"], facts["sizes"]) == ([32, 40], [1, 2])
    assert facts["constraints"] == 29680
    assert facts["public_inputs"] == 1
    key: IndependentKey = verifying_key_of(published_keys, "v2_combined_32_40_1_2")
    assert len(key.k) == 2
    exported = tmp_path / "a.vkey"
    run("export-vk", "--key", misnamed, "--output", exported)
    assert facts["verifying_key_sha256"] == hashlib.sha256(exported.read_bytes()).hexdigest()
    alone = json.loads(run("inspect", exported, "--output", "json").stdout)
    assert alone == {
        "file": "verifying key",
        "public_inputs": 1,
        "verifying_key_sha256": facts["verifying_key_sha256"],
    }
    text = run("inspect", misnamed).stdout.decode()
    assert re.search(r"^circuit +v2_combined_32_40_1_2$", text, re.MULTILINE)


def test_inspect__of_a_converted_key__reports_its_format_version(later_format_dir: Path) -> None:
    facts = json.loads(run("inspect", later_format_dir / f"{CONVERTED}.key", "--output", "json").stdout)
    assert (facts["format_version"], facts["circuit"]) == ("0.14", CONVERTED)


def test_version__first_number__is_the_interface_of_launchers() -> None:
    answer = run("version")
    found = re.search(rb"\d+\.\d+\.\d+", answer.stdout)
    assert answer.returncode == 0
    assert found is not None
    assert found.group() == b"2.0.7"
    assert b"zkc-prover" in answer.stdout


@pytest.mark.parametrize("command", [(), ("start",), ("prove",), ("verify",), ("inspect",), ("export-vk",)])
def test_help__of_every_command__shows_examples(command: tuple[str, ...]) -> None:
    answer = run(*command, "--help")
    assert answer.returncode == 0
    assert b"Examples:\n  prover " in answer.stdout


@pytest.mark.parametrize(
    "words", [("version",), ("--help",), ("keys", "list"), ("gen-test-params", "--circuit", "update")]
)
def test_output__that_cannot_be_written__is_one_line_and_exit_78(words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        answer = subprocess.run([str(PROVER), *words], stdout=full, stderr=subprocess.PIPE, check=False)
    assert answer.returncode == 78
    assert answer.stderr.decode() == (
        "error: the output cannot be written: No space left on device; make room, or write it elsewhere\n"
    )


def test_prove__whose_output_cannot_be_written__is_reported_in_one_line(reference_keys_dir: Path) -> None:
    key = reference_keys_dir / circuit(SMALL.circuit).earlier_key_file
    with Path("/dev/full").open("wb") as full:
        answer = subprocess.run(
            [str(PROVER), "--quiet", "prove", "--key", str(key)],
            input=SMALL.body,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert answer.returncode == 78
    assert answer.stderr.startswith(b"error: the output cannot be written: No space left on device; ")
    assert b"Traceback" not in answer.stderr


def test_output__that_nobody_reads__ends_without_words(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        answer = subprocess.run(
            [str(PROVER), "keys", "list", "--keys-dir", str(tmp_path)],
            stdout=closed,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (answer.returncode, answer.stderr) == (1, b"")


def wait_until_caught(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Return once the process has a handler of its own for a signal; Python comes with one for SIGINT alone."""
    deadline = time.monotonic() + 60
    while True:
        assert process.poll() is None
        assert time.monotonic() < deadline
        status = dict(line.split(":", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
        if int(status["SigCgt"], 16) >> (number - 1) & 1:
            return
        time.sleep(0.01)


@pytest.mark.reference_batch_keys
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_prove__stopped_by_a_signal__ends_soon_with_its_code(
    reference_batch_keys_dir: Path, number: int, code: int
) -> None:
    key = reference_batch_keys_dir / "update_32_10.key"
    with subprocess.Popen(
        [str(PROVER), "prove", "--key", str(key)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.write(vector_named("prover/batch_update_32_10").body)
        process.stdin.close()
        wait_until_caught(process, signal.SIGTERM)
        process.send_signal(number)
        assert process.wait(60) == code
        assert process.stdout is not None
        assert process.stdout.read() == b""
