"""Builds for aarch64 and their emulation: proofs, and the instructions that one takes."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

SERVICE = Path(__file__).resolve().parents[3]
BUILT_BY_THE_GATE = SERVICE / "build/aarch64/prove_file"
"""Compiled quickly; ``make native-compilers`` builds it."""
FIRST, SECOND = (7).to_bytes(32, "big"), (11).to_bytes(32, "big")
"""Blinding values of prove_file."""
_SYSROOT = "/usr/aarch64-linux-gnu"
_CHOICES = {"portable": "1", "aarch64": "6"}


@dataclass(frozen=True)
class Emulated:
    """A program for aarch64."""

    program: Path

    @property
    def missing(self) -> str | None:
        """Return why it cannot run here, or None."""
        if shutil.which("qemu-aarch64") is None:
            return "qemu-aarch64 is not installed (Debian: qemu-user)"
        return None if self.program.exists() else f"{self.program} is not built: make native-compilers"

    def prove(self, key: Path, inputs: bytes, folder: Path, backend: str = "", count: int = 1) -> tuple[str, bytes]:
        """Return the name of the backend, and the proof of some inputs."""
        source, proof = folder / "inputs", folder / "proof"
        source.write_bytes(inputs)
        words = [str(self.program), str(key), str(source), str(proof)]
        if backend:
            words += [_CHOICES[backend], str(count)]
        answer = self._run(words)
        return answer.stdout.strip(), proof.read_bytes()

    def instructions(self, plugin: Path, key: Path, inputs: Path, backend: str) -> int:
        """Return the instructions of one proof: the difference between runs that make two and one."""
        counts = []
        for count in ("1", "2"):
            words = ["-plugin", str(plugin), str(self.program), str(key), str(inputs), "/dev/null"]
            answer = self._run([*words, _CHOICES[backend], count])
            found = re.search(r"^(\d+) instructions$", answer.stderr, flags=re.MULTILINE)
            assert found, answer.stderr
            counts.append(int(found[1]))
        return counts[1] - counts[0]

    def _run(self, words: list[str]) -> subprocess.CompletedProcess[str]:
        answer = subprocess.run(["qemu-aarch64", "-L", _SYSROOT, *words], capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stderr
        return answer


def counting_plugin(folder: Path) -> Path:
    """Return the plugin of qemu that counts instructions, compiled into a folder."""
    source, plugin = SERVICE / "native/tests/qemu_instructions.c", folder / "instructions.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(plugin), str(source)], check=True)
    return plugin
