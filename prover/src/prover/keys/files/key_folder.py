"""The key files of a folder by circuit, and checks of a file against its name."""

import os
import stat
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from msgspec import Struct

from prover.errors import KeyMissing, KeyUnavailable, MisnamedKey, SettingsInvalid, UnsupportedKey
from prover.kernel.engine import LoadedKey
from prover.keys.files.key_description import PRELUDE_BYTES, WORD_BYTES, circuit_of, header_of, is_gnark_08_proving_key
from shared.process.logs import get_logger
from shared.requests.circuit_id import KEY_SUFFIX, CircuitId

_log = get_logger(__name__)

FileIdentity = tuple[str, int, int, int, int]

MISSING_REMEDY = "run `prover download`, start with --auto-download, or copy it into the keys directory (--keys-dir)"
UNREADABLE_REMEDY = "remove it, or replace it with the key file"
_RESIDENT_PER_FILE_BYTE = {False: 1.8, True: 1.0}
"""Points are compressed in key files; constraints are verbose in those of gnark 0.8 (True)."""


def find_key(directory: Path, circuit: CircuitId) -> Path:
    """Return the key file of a circuit, under its current or an earlier name; raises KeyMissing."""
    for name in circuit.key_files:
        path = directory / name
        if _fault_of(path) is None:
            return path
    raise KeyMissing(circuit.key_file, MISSING_REMEDY)


class Unreadable(Struct, frozen=True):
    """An entry named like a key that is not a readable file; ``fault`` says what it is."""

    path: Path
    fault: str


class FolderKeys(Struct, frozen=True):
    """The keys of a folder by the circuit in their names."""

    files: Mapping[CircuitId, Path]
    unreadable: Mapping[CircuitId, Unreadable]
    """Entries of circuits that have no file under another name either."""


def keys_of_folder(directory: Path) -> FolderKeys:
    """Return the keys of a folder; none for a missing one."""
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


def folder_fault(directory: Path) -> str | None:
    """Return why a path cannot be a keys directory; None for a directory."""
    if directory.is_dir():
        return None
    return "is not a directory" if directory.exists() else "does not exist"


def require_folder(directory: Path) -> None:
    """Raise SettingsInvalid for a path of --keys-dir that cannot be a keys directory."""
    fault = folder_fault(directory)
    if fault is not None:
        raise SettingsInvalid(
            f"--keys-dir: {directory} {fault}; choose another, or run `prover download`, which makes it"
        )


def installed_keys(directory: Path) -> Mapping[CircuitId, Path]:
    """Return the key files of a folder by circuit; other entries are skipped, with one warning for each name."""
    found = keys_of_folder(directory)
    for entry in found.unreadable.values():
        _warn_once(entry)
    return found.files


def check_name(key: LoadedKey, circuit: CircuitId, path: Path) -> None:
    """Raise UnsupportedKey or MisnamedKey unless a key proves the circuit in its file name."""
    held = circuit_of(key.info)
    if held is None:
        raise UnsupportedKey(f"key file {path.name} holds a circuit that this prover does not know")
    if held != circuit:
        raise MisnamedKey(f"key file {path.name} holds {held.name}; rename it to {held.key_file}")


def file_identity(path: Path) -> FileIdentity:
    """Return values that change whenever a file changes; raises KeyUnavailable."""
    try:
        status = path.stat()
    except OSError as error:
        raise KeyUnavailable(f"key file {path.name} cannot be read: {error.strerror}") from error
    return path.name, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def resident_estimate(path: Path, circuit: CircuitId) -> int:
    """Return the estimated memory of a loaded key in bytes, from its file's size; raises KeyUnavailable."""
    wrapper_bytes = WORD_BYTES * len(header_of(circuit))
    try:
        with path.open("rb") as file:
            start = file.read(wrapper_bytes + PRELUDE_BYTES)
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise KeyUnavailable(f"key file {path.name} cannot be read: {error.strerror}") from error
    return int(size * _RESIDENT_PER_FILE_BYTE[is_gnark_08_proving_key(start[wrapper_bytes:])])


def _fault_of(path: Path) -> str | None:
    """Return why a path cannot be a key file; None if it is a regular file."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return "a link to a missing file"
    except OSError as error:
        return f"not readable: {error.strerror}"
    if stat.S_ISREG(mode):
        return None
    return "a folder" if stat.S_ISDIR(mode) else "not a regular file"


@cache  # probes read the folder every few seconds
def _warn_once(entry: Unreadable) -> None:
    _log.warning("key_unreadable", path=str(entry.path), detail=f"it is {entry.fault}", remedy=UNREADABLE_REMEDY)
