#!/usr/bin/env python3
"""Check the wheels for this machine as a user installs them: `make release-check`.

They are built, installed into an empty environment, and run from there in an empty folder with a PATH that has no
compiler: proofs by every backend of this CPU and by the command line, `prover check`, `forester --version`.
`release_check.py speed` also compares the CPU time of proofs with that of the local build, alternately.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import release_version
from release import ReleaseFailed, build_wheels, environment_of, install_wheels

WORKSPACE = Path(__file__).resolve().parents[2]
KEYS = WORKSPACE / "keys-cache/reference/0.27.0/proving-keys"
VECTORS = WORKSPACE / "prover/tests/vectors/prover"
KEY, REQUEST = KEYS / "inclusion_32_1.key", VECTORS / "v2_inclusion_32_1.json"
BACKENDS = {"x86_64": ("portable", "adx", "avx2", "avx512", "ifma"), "aarch64": ("portable", "aarch64")}
"""Backends that the kernel of a wheel has, by architecture; the CPU decides which one runs."""
MAX_SLOWDOWN = 1.03
_ROUNDS = 15
_ALTERNATIONS = 5


def missing_backends(wheel: Path, architecture: str) -> list[str]:
    """Return the backends that the kernel of a wheel lacks, by the names of their tables."""
    with zipfile.ZipFile(wheel) as archive:
        kernel = archive.read("prover/kernel/_native.abi3.so")
    return [name for name in BACKENDS[architecture] if f"g16_backend_{name}\0".encode() not in kernel]


class Installation:
    """An environment in which only wheels are, and what a user runs in it."""

    def __init__(self, python: Path, folder: Path) -> None:
        self._python, self._folder = python, folder
        self._environment = {"PATH": str(python.parent), "HOME": str(folder)}
        compilers = [name for name in ("cc", "gcc", "clang", "zig") if shutil.which(name, path=str(python.parent))]
        if compilers:
            raise ReleaseFailed(f"the environment is meant to have no compiler, and has {compilers}")

    def run(self, *words: str | Path, given: bytes = b"", status: int = 0) -> str:
        """Run a program of the environment; return its output. Raises ReleaseFailed if it exits otherwise."""
        answer = subprocess.run(
            [self._python.parent / words[0], *words[1:]],
            input=given,
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            check=False,
        )
        if answer.returncode != status:
            output = (answer.stdout + answer.stderr).decode()
            raise ReleaseFailed(f"{words[0]} {words[1]} exited with {answer.returncode} instead of {status}:\n{output}")
        return answer.stdout.decode()

    def proofs(self, rounds: int) -> Mapping[str, float]:
        """Prove and verify with every backend; return the shortest CPU times in milliseconds."""
        return _proofs(self._python, rounds, self._folder, self._environment)


def _proofs(python: Path, rounds: int, folder: Path, environment: Mapping[str, str]) -> Mapping[str, float]:
    words = [python, WORKSPACE / "prover/scripts/installed_proofs.py", KEY]
    answer = subprocess.run(
        [*words, REQUEST, str(rounds)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        raise ReleaseFailed(f"proofs by the backends failed:\n{answer.stderr}")
    times: dict[str, float] = json.loads(answer.stdout)
    return times


def install(wheels: Sequence[Path], folder: Path) -> Installation:
    """Install the wheels and their locked dependencies into an empty environment."""
    python = environment_of("check", "prover", "forester", empty=True)
    install_wheels(python, wheels)
    installation = Installation(python, folder)
    places = "import forester, prover, shared; print(*(m.__path__[0] for m in (forester, prover, shared)))"
    for place in installation.run("python", "-c", places).split():
        if not Path(place).is_relative_to(python.parents[1]):
            raise ReleaseFailed(f"a module is imported from {place}, not from the wheels")
    return installation


def check_commands(installation: Installation) -> None:
    """Run the main job as the README has it, and what a new user runs first. Raises ReleaseFailed."""
    number = release_version.version()
    for program, words in (("prover", "version"), ("forester", "--version")):
        said = installation.run(program, words)
        if number not in said:
            raise ReleaseFailed(f"{program} {words} says {said.strip()!r} instead of {number}")
    public = json.loads(REQUEST.read_bytes())["publicInputHash"]
    proof = installation.run("prover", "prove", "--key", KEY, given=REQUEST.read_bytes()).encode()
    verify = ("prover", "verify", "--key", KEY, "--public-input")
    installation.run(*verify, public, given=proof)
    installation.run(*verify, "0x01", given=proof, status=1)
    installation.run(
        "prover", "check", "--keys-dir", KEYS, "--prover-address=127.0.0.1:0", "--metrics-address=127.0.0.1:0"
    )
    installation.run("forester", "status", "--help")


def compare_speed(installation: Installation, folder: Path) -> dict[str, float]:
    """Return, by backend, the CPU time of a proof by the wheel over that by the local build, measured alternately."""
    local: dict[str, float] = {}
    wheel: dict[str, float] = {}
    for _ in range(_ALTERNATIONS):
        here = _proofs(Path(sys.executable), _ROUNDS, folder, os.environ)
        for best, found in ((local, here), (wheel, installation.proofs(_ROUNDS))):
            best.update({name: min(time, best.get(name, time)) for name, time in found.items()})
    for name, time in wheel.items():
        print(f"{name:10} {local[name]:8.2f} ms local {time:8.2f} ms wheel")
    return {name: time / local[name] for name, time in wheel.items()}


def main() -> int:
    """Check the wheels; return the exit status."""
    architecture = platform.machine()
    try:
        wheels = build_wheels(architecture, WORKSPACE / ".state/release/wheels")
        [prover] = [wheel for wheel in wheels if wheel.name.startswith("zkc_prover")]
        missing = missing_backends(prover, architecture)
        if missing:
            raise ReleaseFailed(f"{prover.name} lacks the backends {missing}")
        with tempfile.TemporaryDirectory() as folder:
            installation = install(wheels, Path(folder))
            proved = installation.proofs(1)
            if proved.keys() != _proofs(Path(sys.executable), 1, Path(folder), os.environ).keys():
                raise ReleaseFailed(
                    f"of the backends that the local build finds the wheel's kernel runs {list(proved)} only"
                )
            check_commands(installation)
            if sys.argv[1:] == ["speed"]:
                slow = {
                    name: ratio
                    for name, ratio in compare_speed(installation, Path(folder)).items()
                    if ratio > MAX_SLOWDOWN
                }
                if slow:
                    raise ReleaseFailed(f"proofs by the wheel take longer than by the local build: {slow}")
    except (ReleaseFailed, release_version.VersionsDiffer) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"release-check: {', '.join(wheel.name for wheel in wheels)} prove with {', '.join(proved)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
