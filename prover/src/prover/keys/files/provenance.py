"""Origin of keys: a record next to a key, or the manifest of a whole folder of keys.

The format of key files has no field for it, and readers of the format would fail on one.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from msgspec import Struct, convert
from msgspec.json import decode
from msgspec.structs import asdict

from prover.errors import SettingsInvalid
from prover.kernel.engine import Readable
from prover.keys.catalogue.list_file import read_list
from prover.keys.files.atomic_file import atomic_file, require_free

MANIFEST = "manifest.json"
RECORD_SUFFIX = ".json"
_DIGEST_STEP = 2**24


class KeyRecord(Struct, frozen=True, forbid_unknown_fields=True):
    """A locally made key. ``size`` in bytes and ``sha256`` in hex are those of the key file.

    ``development``: its secrets existed in one process. ``seeded``: they are derived from a seed that others may know.
    """

    name: str
    size: int
    sha256: str
    circuit: str
    development: bool
    seeded: bool

    def to_json(self) -> str:
        """Return the record as the text of its file."""
        return json.dumps(asdict(self), indent=2) + "\n"

    def describes(self, path: Path, checkpoint: Callable[[], None] | None = None) -> bool:
        """Return whether a file has the size and the digest of this record."""
        try:
            if path.stat().st_size != self.size:
                return False
            return sha256_of_file(path, checkpoint) == self.sha256
        except OSError:
            return False


def record_path(key: Path) -> Path:
    """Return the path of the record of a key."""
    return key.with_name(key.name + RECORD_SUFFIX)


def sha256_of(pieces: Iterable[Readable], checkpoint: Callable[[], None] | None = None) -> str:
    """Return the digest of bytes in pieces, in hex; ``checkpoint`` is called before each and may raise to stop."""
    digest = hashlib.sha256()
    for piece in pieces:
        if checkpoint is not None:
            checkpoint()
        digest.update(piece)
    return digest.hexdigest()


def sha256_of_file(path: Path, checkpoint: Callable[[], None] | None = None) -> str:
    """Return the digest of a file in hex; raises OSError."""
    with path.open("rb") as file:
        return sha256_of(iter(lambda: file.read(_DIGEST_STEP), b""), checkpoint)


def record_of(key: Path, checkpoint: Callable[[], None] | None = None) -> KeyRecord | None:
    """Return the record that describes a key file, its own or one of the folder's manifest; None if there is none."""
    own = _read_record(record_path(key))
    listed = read_manifest(key.parent, lenient=True).get(key.name)
    return next((record for record in (own, listed) if record is not None and record.describes(key, checkpoint)), None)


def recorded_digest(key: Path) -> bytes | None:
    """Return the digest in the record next to a key, even if it describes another file; None if there is none."""
    record = _read_record(record_path(key))
    try:
        return None if record is None else bytes.fromhex(record.sha256)
    except ValueError:
        return None


def require_free_record(key: Path, *, force: bool) -> None:
    """Raise SettingsInvalid unless the record may be written: without ``force`` it replaces only an earlier record."""
    path = record_path(key)
    require_free(path, force=force or _read_record(path) is not None)


def forget_record(key: Path) -> None:
    """Remove the record of a key that was replaced by one of unknown origin."""
    if _read_record(record_path(key)) is not None:
        record_path(key).unlink(missing_ok=True)


def read_manifest(folder: Path, *, lenient: bool = False) -> dict[str, KeyRecord]:
    """Return the records of the manifest of a folder by file name; empty if there is no manifest.

    Raises SettingsInvalid for a malformed manifest, unless ``lenient``.
    """
    path = folder / MANIFEST
    try:
        value = json.loads(read_list(path))
        records = convert(value["keys"], list[KeyRecord])
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        if lenient:
            return {}
        raise SettingsInvalid(f"{path} is not a manifest of keys; move it away or choose another folder") from error
    return {record.name: record for record in records}


def write_manifest(folder: Path, records: Mapping[str, KeyRecord]) -> None:
    """Write the manifest of a folder atomically."""
    keys = [asdict(record) for _, record in sorted(records.items())]
    value = {"development": True, "note": "made locally: the maker of these keys could forge proofs", "keys": keys}
    with atomic_file(folder / MANIFEST, force=True) as file:
        file.write((json.dumps(value, indent=2) + "\n").encode())


def _read_record(path: Path) -> KeyRecord | None:
    try:
        return decode(read_list(path), type=KeyRecord)
    except (OSError, ValueError):
        return None
