"""The verifying keys of a folder of proving keys, by their names in the programs."""

import os
import shutil
import subprocess
from pathlib import Path

from localnet.chain.artefacts import Artefacts
from localnet.chain.verifying_keys import (
    VerifyingKey,
    VerifyingKeyInvalid,
    keys_in_programs,
    parse_verifying_key,
    program_key_names,
)
from shared.requests.circuit_id import CircuitId

TREE_PROVER = Path(__file__).resolve().parents[5] / ".venv" / "bin" / "prover"


class KeyFolderUnusable(Exception):
    """A folder of keys cannot be used; the message names it and the remedy."""


def verifying_keys_of(folder: Path, artefacts: Artefacts) -> dict[str, VerifyingKey]:
    """Return the verifying keys of all proving keys in a folder that a program knows.

    For a key without a .vkey file, `prover export-vk` writes one next to it. Raise KeyFolderUnusable if there is no
    key, if one cannot be read, or if that command is missing.
    """
    known = keys_in_programs(artefacts)
    found: dict[str, VerifyingKey] = {}
    for path in sorted(folder.glob("*.key")):
        circuit = CircuitId.from_key_file(path.name)
        name = next((name for name in program_key_names(circuit) if name in known), None) if circuit else None
        if name is not None:
            found[name] = _read(path.with_suffix(".vkey"), path)
    if not found:
        message = f"{folder} holds no proving key of a circuit on the chain; make some with `make keys-dev`"
        raise KeyFolderUnusable(message)
    return found


def _read(path: Path, proving_key: Path) -> VerifyingKey:
    try:
        if not path.exists():
            _export(proving_key, path)
        return parse_verifying_key(path.read_bytes())
    except (OSError, VerifyingKeyInvalid) as error:
        raise KeyFolderUnusable(f"{path}: {error}; remove it, and it is made again") from error


def _export(proving_key: Path, path: Path) -> None:
    command = str(TREE_PROVER) if TREE_PROVER.exists() else shutil.which("prover")
    if command is None:
        message = f"{path} is missing and so is the `prover` command that writes it; build it with `make native`"
        raise KeyFolderUnusable(message)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    arguments = [command, "export-vk", "--key", str(proving_key), "--output", str(path)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, env=environment)  # noqa: S603
    if done.returncode:
        raise KeyFolderUnusable(f"`prover export-vk` of {proving_key} failed: {done.stderr.strip()}")
