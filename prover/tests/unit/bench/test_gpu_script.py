"""The kernel that gpu.sh compiles with a C compiler alone, which prover/CMakeLists.txt also builds."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path

import pytest

PROVER = Path(__file__).resolve().parents[3]
SCRIPT = PROVER / "bench" / "gpu.sh"
BACKEND = PROVER / "native" / "src" / "backend.c"


def cmake_options() -> dict[str, list[str]]:
    """Return the compiler's options of each backend that has some."""
    options: dict[str, list[str]] = {}
    for name, words in re.findall(
        r"^set\(groth16_options_(\w+) (.*)\)$", (PROVER / "CMakeLists.txt").read_text(), re.MULTILINE
    ):
        expanded = re.sub(r"\$\{groth16_options_(\w+)\}", lambda match: " ".join(options[match[1]]), words)
        options[name] = expanded.split()
    return options


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other CPUs have other backends")
def test_kernel__compiled_by_gpu_sh__has_every_backend_with_its_options(tmp_path: Path) -> None:
    compiler, calls = tmp_path / "cc", tmp_path / "calls"
    compiler.write_text(
        f'#!/bin/sh\necho "$*" >>"{calls}"\n'
        'while [ "$#" -gt 1 ]; do if [ "$1" = -o ]; then echo compiled >"$2"; fi; shift; done\n'
    )
    compiler.chmod(0o755)
    variables = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "GPU_BUILD": str(tmp_path / "build")}
    subprocess.run([SCRIPT, "kernel"], check=True, env=os.environ | variables, timeout=60)
    compiled = [line.split() for line in calls.read_text().splitlines()]
    known = set(re.findall(r"defined\(G16_COMPILE_(\w+)\)", BACKEND.read_text())) - {"AARCH64"}
    found = {}
    for words in compiled:
        for word in words:
            if word.startswith("-DG16_COMPILE_"):
                found[word.removeprefix("-DG16_COMPILE_")] = {
                    option for option in words if re.match("-m|-f(?!PIC)", option)
                }
    expected = cmake_options()
    assert {"portable", "avx2", "ifma"} <= {name.lower() for name in known}
    assert found == {name: set(expected.get(name.lower(), ())) for name in known}
    sources = (path.relative_to(BACKEND.parent).with_suffix("") for path in BACKEND.parent.rglob("*.c"))
    others = {str(source).replace("/", "_") for source in sources} - {"backend"}
    programs = {Path(words[words.index("-o") + 1]).name: words for words in compiled if "-c" not in words}
    assert set(programs) == {"gpu_proof", "gpu_setup", "gpu_model"}
    for name in ("gpu_proof", "gpu_setup"):
        linked = {Path(word).stem for word in programs[name] if word.endswith(".o")}
        assert linked == others | {f"backend_{name.lower()}" for name in known}


def test_script__asked_for_what_it_has_not__says_its_stages() -> None:
    answer = subprocess.run([SCRIPT, "polish"], capture_output=True, text=True, timeout=60)
    assert answer.returncode == 2
    assert "pack|run|soak" in answer.stderr


def test_peer__without_a_program__is_skipped_aloud(tmp_path: Path) -> None:
    variables = {name: value for name, value in os.environ.items() if name != "PEER"} | {"GPU_BUILD": str(tmp_path)}
    answer = subprocess.run([SCRIPT, "peer"], capture_output=True, text=True, env=variables, timeout=60)
    assert answer.returncode == 0
    assert "SKIPPED" in answer.stderr


def test_run__without_a_gpu__is_skipped_aloud(tmp_path: Path) -> None:
    variables = {name: value for name, value in os.environ.items() if name != "GPU_LIBRARY"}
    (tmp_path / "nvidia-smi").symlink_to("/bin/false")
    variables |= {"GPU_BUILD": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    answer = subprocess.run([SCRIPT, "run"], capture_output=True, text=True, env=variables, timeout=60)
    assert answer.returncode == 0
    assert "SKIPPED for want of a GPU" in answer.stderr
