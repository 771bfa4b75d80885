"""The key files of a folder: which circuit has one, and whether a file is what its name claims."""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from prover.errors import KeyMissing, KeyUnavailable, MisnamedKey, UnsupportedKey
from prover.kernel.engine import LoadedKey
from prover.keys.files.key_description import PRELUDE_BYTES, WORD_BYTES, circuit_of, header_of, is_earlier_proving_key
from shared.circuit_id import KEY_SUFFIX, CircuitId
from shared.logs import get_logger

_log = get_logger(__name__)

Fingerprint = tuple[str, int, int, int, int]

MISSING_REMEDY = "run `prover download`, start with --auto-download, or put it into the keys directory (--keys-dir)"
UNREADABLE_REMEDY = "remove it, or put the key file in its place"
_RESIDENT_PER_FILE_BYTE = {False: 1.8, True: 1.0}
"""Points are compressed in key files, and constraints verbose in those of generation 0.8 (True)."""


def find_key(directory: Path, circuit: CircuitId) -> Path:
    """Return the key file of a circuit, under its current or an earlier name; raises KeyMissing."""
    for name in circuit.key_files:
        path = directory / name
        if _fault_of(path) is None:
            return path
    raise KeyMissing(circuit.key_file, MISSING_REMEDY)


@dataclass(frozen=True)
class Unreadable:
    """What has the name of a key and is no file that can be read; ``fault`` says what it is."""

    path: Path
    fault: str


@dataclass(frozen=True)
class FolderKeys:
    """The keys of a folder by the circuit that their names claim."""

    files: Mapping[CircuitId, Path]
    unreadable: Mapping[CircuitId, Unreadable]
    """Of circuits that have no file under another name either."""


def keys_of_folder(directory: Path) -> FolderKeys:
    """Look through a folder; nothing is found in one that is not there."""
    try:
        paths = sorted(path for path in directory.iterdir() if path.suffix == KEY_SUFFIX)
    except OSError:
        paths = []
    files: dict[CircuitId, Path] = {}
    unreadable: dict[CircuitId, Unreadable] = {}
    for path in paths:
        circuit = CircuitId.from_key_file(path.name)
        if circuit is None:
            continue
        try:
            files[circuit] = find_key(directory, circuit)
        except KeyMissing:
            fault = _fault_of(path)
            if fault is not None and os.path.lexists(path):  # else it was removed or replaced meanwhile
                unreadable[circuit] = Unreadable(path, fault)
    return FolderKeys(files, unreadable)


def installed_keys(directory: Path) -> Mapping[CircuitId, Path]:
    """Return the key files of a folder by circuit; what is no file is left out, with a warning for each name."""
    found = keys_of_folder(directory)
    for entry in found.unreadable.values():
        _warn_once(entry)
    return found.files


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
        status = path.stat()
    except OSError as error:
        raise KeyUnavailable(f"key file {path.name} cannot be read: {error.strerror}") from error
    return path.name, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


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


def _fault_of(path: Path) -> str | None:
    """Say why what is at a path can be no key file; None if it is a regular file."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return "a link to a file that is not there"
    except OSError as error:
        return f"not readable: {error.strerror}"
    if stat.S_ISREG(mode):
        return None
    return "a folder" if stat.S_ISDIR(mode) else "no regular file"


@cache  # probes look into the folder every few seconds
def _warn_once(entry: Unreadable) -> None:
    _log.warning("key_unreadable", path=str(entry.path), detail=f"it is {entry.fault}", remedy=UNREADABLE_REMEDY)
