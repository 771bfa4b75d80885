"""Commands that make keys on a GPU, which is software: the processor's bytes, and what happens when it fails."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from prepared_file import all_but_notes
from service_process import environment

PROVER = Path(sys.executable).with_name("prover")
SIZES = ("--circuit", "inclusion", "--inclusion-tree-height", "1", "--inclusion-compressed-accounts", "1")
FAULTS = "GROTH16_CUDA_HOST_FAULTS"


def run(*words: str | Path, variables: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    kept = {name: value for name, value in environment().items() if not name.startswith("COVERAGE")}
    call = [str(PROVER), *map(str, words)]
    return subprocess.run(call, capture_output=True, env=kept | dict(variables or {}), timeout=300, check=False)


def setup(key: Path, *words: str | Path, fault: str = "") -> subprocess.CompletedProcess[bytes]:
    outputs = ("--output", key, "--output-vkey", key.with_suffix(".vkey"), "--seed", "gpu")
    return run("setup", *SIZES, *outputs, *words, variables={FAULTS: fault})


def fold(key: Path, folder: Path, *words: str | Path, fault: str = "") -> subprocess.CompletedProcess[bytes]:
    return run("keys", "prepare", "--fold", "--prepared-dir", folder, *words, key, variables={FAULTS: fault})


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key with known secrets, made on the processor."""
    path = tmp_path_factory.mktemp("keys") / "a_INSECURE.key"
    answer = setup(path)
    assert answer.returncode == 0, answer.stderr.decode()
    return path


@pytest.fixture(scope="module")
def folded(key: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Its prepared form with folded bases, made on the processor."""
    folder = tmp_path_factory.mktemp("folded")
    answer = fold(key, folder)
    assert answer.returncode == 0, answer.stderr.decode()
    return only(folder)


def only(folder: Path) -> bytes:
    [file] = all_but_notes(folder)
    return file.read_bytes()


def test_setup__on_a_gpu__gives_the_key_of_the_processor(key: Path, tmp_path: Path, cuda_host_library: Path) -> None:
    answer = setup(tmp_path / key.name, "--device", "cuda", "--cuda-library", cuda_host_library)
    assert answer.returncode == 0, answer.stderr.decode()
    assert b"GPU in software" in answer.stderr
    assert (tmp_path / key.name).read_bytes() == key.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in key.parent.iterdir())


def test_setup__whose_gpu_fails__falls_back_under_auto_and_leaves_nothing_under_cuda(
    key: Path, tmp_path: Path, cuda_host_library: Path
) -> None:
    fault = "setup=wrong@5"
    refused = setup(tmp_path / key.name, "--device", "cuda", "--cuda-library", cuda_host_library, fault=fault)
    assert refused.returncode not in (0, 1)
    assert b"GPU" in refused.stderr
    assert b"Traceback" not in refused.stderr
    assert not list(tmp_path.iterdir())
    made = setup(tmp_path / key.name, "--device", "auto", "--cuda-library", cuda_host_library, fault=fault)
    assert made.returncode == 0, made.stderr.decode()
    assert b"key_made_on_processor" in made.stderr
    assert (tmp_path / key.name).read_bytes() == key.read_bytes()


def test_setup__without_the_gpu_that_was_asked_for__is_refused_before_it_compiles(tmp_path: Path) -> None:
    answer = setup(tmp_path / "a_INSECURE.key", "--device", "cuda", "--cuda-library", tmp_path / "absent.so")
    assert answer.returncode == 78
    assert b"absent.so" in answer.stderr
    assert not list(tmp_path.iterdir())


def test_prepare__folding_on_a_gpu__gives_the_file_of_the_processor_once(
    key: Path, folded: bytes, tmp_path: Path, cuda_host_library: Path
) -> None:
    words = ("--device", "cuda", "--cuda-library", cuda_host_library)
    answer = fold(key, tmp_path, *words)
    assert answer.returncode == 0, answer.stderr.decode()
    assert b"1 keys prepared" in answer.stdout
    assert only(tmp_path) == folded
    assert b"0 keys prepared, 1 already present" in fold(key, tmp_path, *words).stdout


def test_prepare__whose_gpu_fails__falls_back_under_auto_and_leaves_the_plain_form_under_cuda(
    key: Path, folded: bytes, tmp_path: Path, cuda_host_library: Path
) -> None:
    fault = "fold=lost@2"
    refused = fold(key, tmp_path, "--device", "cuda", "--cuda-library", cuda_host_library, fault=fault)
    assert refused.returncode not in (0, 1)
    assert b"GPU" in refused.stderr
    assert len(only(tmp_path)) < len(folded)
    made = fold(key, tmp_path, "--device", "auto", "--cuda-library", cuda_host_library, fault=fault)
    assert made.returncode == 0, made.stderr.decode()
    assert b"key_made_on_processor" in made.stderr
    assert only(tmp_path) == folded


def test_prepare__without_folding__needs_no_gpu(key: Path, tmp_path: Path) -> None:
    absent = ("--device", "cuda", "--cuda-library", tmp_path / "x")
    answer = run("keys", "prepare", "--no-fold", "--prepared-dir", tmp_path, *absent, key)
    assert answer.returncode == 0, answer.stderr.decode()
