"""The stages of gpu.sh that a machine without a GPU can run: gpu_proof by a C compiler alone, on the CUDA library of software."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "gpu.sh"


class Machine:
    """A folder of builds and results, and the library that stands for a GPU."""

    def __init__(self, folder: Path, library: Path) -> None:
        self.results, self.keys = folder / "results", folder / "keys"
        self.library = shutil.copy(library, folder / "library.so")
        self._variables = {"GPU_BUILD": str(folder), "GPU_LIBRARY": str(self.library)}

    def run(self, *words: str, **variables: str) -> str:
        """What a stage said on standard error; it must pass."""
        environment = {name: value for name, value in os.environ.items() if name not in ("AGAIN", "PEER")}
        answer = subprocess.run(
            [SCRIPT, *words], env=environment | self._variables | variables, capture_output=True, text=True, timeout=1200
        )
        assert answer.returncode == 0, answer.stdout + answer.stderr
        return answer.stderr

    def lines(self, pattern: str) -> list[dict[str, object]]:
        """The JSON lines of results."""
        return [json.loads(line) for path in sorted(self.results.glob(pattern)) for line in path.read_text().splitlines()]


@pytest.mark.timeout(1800)
def test_stages__without_a_gpu__test_and_measure_the_library_of_software(
    cuda_host_library: Path, tmp_path: Path
) -> None:
    machine = Machine(tmp_path, cuda_host_library)
    machine.run("kernel")
    machine.run("keys", "tiny")
    machine.run("test")
    checks = machine.lines("test_*.jsonl")
    assert {check["ok"] for check in checks} == {True}
    details = [str(check["detail"]) for check in checks]
    assert any("threads at once" in detail for detail in details)
    assert any("batch, re-randomised" in detail for detail in details)
    assert any("chains of the witness on the device" in detail for detail in details)
    assert any("trusted setup" in detail for detail in details)
    assert "all of it passed before" in machine.run("test")

    soak = {"SOAK_PROOFS": "2100", "SOAK_KEY": str(machine.keys / "tiny.key")}
    machine.run("soak", **soak)
    (total,) = machine.lines("soak.json")
    assert total["pieces"] == 3
    assert int(str(total["verified"])) >= 2100
    assert "all of it passed before" in machine.run("soak", **soak)

    # Another build of the library, by its bytes.
    with Path(machine.library).open("ab") as file:
        file.write(b"\0")
    assert "passed before" not in machine.run("test")

    machine.run("bench")
    (proof,) = machine.lines("proof_tiny.json")
    assert (proof["key"], proof["verified"]) == ("tiny.key", True)
