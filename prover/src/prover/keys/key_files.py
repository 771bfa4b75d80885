"""The key files of a folder: which circuit has one, and whether a file is what its name claims."""

import os
from collections.abc import Mapping
from pathlib import Path

from prover.errors import KeyMissing, KeyUnavailable, MisnamedKey, UnsupportedKey
from prover.kernel.engine import LoadedKey
from prover.keys.gnark_format import PRELUDE_BYTES, WORD_BYTES, circuit_of, header_of, is_earlier_proving_key
from shared.circuit_id import KEY_SUFFIX, CircuitId

Fingerprint = tuple[str, int, int, int]

MISSING_REMEDY = "run `prover download`, start with --auto-download, or put it into the keys directory (--keys-dir)"
_RESIDENT_PER_FILE_BYTE = {False: 1.8, True: 1.0}
"""Points are compressed in key files, and constraints verbose in those of generation 0.8 (True)."""


def find_key(directory: Path, circuit: CircuitId) -> Path:
    """Return the key file of a circuit, under its current or an earlier name; raises KeyMissing."""
    for name in circuit.key_files:
        path = directory / name
        if path.is_file():
            return path
    raise KeyMissing(circuit.key_file, MISSING_REMEDY)


def installed_keys(directory: Path) -> Mapping[CircuitId, Path]:
    """Return the key files of a folder by the circuit that their names claim; none for a folder that is not there."""
    try:
        names = sorted(path.name for path in directory.iterdir() if path.suffix == KEY_SUFFIX)
    except OSError:
        return {}
    found = (CircuitId.from_key_file(name) for name in names)
    return {circuit: find_key(directory, circuit) for circuit in found if circuit is not None}


def check_name(key: LoadedKey, circuit: CircuitId, path: Path) -> None:
    """Raise UnsupportedKey or MisnamedKey unless a key is of the circuit that its file name claims."""
    held = circuit_of(key.info)
    if held is None:
        raise UnsupportedKey(f"key file {path.name} holds a circuit that this prover does not know")
    if held != circuit:
        raise MisnamedKey(f"key file {path.name} holds {held.name}; rename it to {held.key_file}")


def fingerprint_of(path: Path) -> Fingerprint:
    """What changes when a file does; raises KeyUnavailable."""
    try:
        stat = path.stat()
    except OSError as error:
        raise KeyUnavailable(f"key file {path.name} cannot be read: {error.strerror}") from error
    return path.name, stat.st_size, stat.st_mtime_ns, stat.st_ino


def resident_estimate(path: Path, circuit: CircuitId) -> int:
    """Memory that the key of a circuit will take once loaded, told from its file's size; raises KeyUnavailable."""
    wrapper_bytes = WORD_BYTES * len(header_of(circuit))
    try:
        with path.open("rb") as file:
            start = file.read(wrapper_bytes + PRELUDE_BYTES)
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise KeyUnavailable(f"key file {path.name} cannot be read: {error.strerror}") from error
    return int(size * _RESIDENT_PER_FILE_BYTE[is_earlier_proving_key(start[wrapper_bytes:])])
