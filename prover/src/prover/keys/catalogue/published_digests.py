"""Published sizes and digests of key files: a CHECKSUM list, or a pinned manifest.

``published_keys.json`` next to this module pins the keys with known digests: those of the reference's package for
developers, under their earlier names.
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from prover.errors import SettingsInvalid
from prover.keys.catalogue.list_file import read_list

CHECKSUM_LIST = "CHECKSUM"
"""Name of the list next to the key files, in the format of ``sha256sum``."""

PUBLISHED_MANIFEST = "published_keys.json"

_LINE = re.compile(r"([0-9a-fA-F]{64})[ \t]+\*?([^\s/\\]+)", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


class ExpectedFile(Struct, frozen=True):
    """Facts of a published key file: ``sha256`` in lower-case hex, ``size`` in bytes, None if unknown."""

    name: str
    sha256: str
    size: int | None = None


Expectations = Mapping[str, ExpectedFile]
"""Published files by name."""


def parse_checksum_list(text: str) -> Expectations:
    """Parse a CHECKSUM list: a digest, white space and a file name per line. Raises ValueError that names the line."""
    files: dict[str, ExpectedFile] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None:
            raise ValueError(f"line {number} is not a SHA-256 digest and a file name")
        files[match[2]] = ExpectedFile(match[2], match[1].lower())
    return files


def read_checksum_list(path: Path) -> Expectations:
    """Return the files of a CHECKSUM list on disk; raises SettingsInvalid."""
    try:
        return parse_checksum_list(read_list(path).decode("ascii"))
    except (OSError, ValueError) as error:
        raise SettingsInvalid(f"{path} cannot be used as a CHECKSUM list: {_reason(error)}") from error


def read_pinned_manifest(path: Path) -> Expectations:
    """Return the files of a manifest: ``{"keys": [{"name": …, "size": …, "sha256": …}]}``; more members are allowed.

    Raises SettingsInvalid that names the entry.
    """
    try:
        return _parse_manifest(path.read_bytes())
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise SettingsInvalid(f"{path} cannot be used as a manifest of keys: {_reason(error)}") from error


@cache
def published_keys() -> Expectations:
    """Return the files of the built-in manifest."""
    return _parse_manifest(Path(__file__).with_name(PUBLISHED_MANIFEST).read_bytes())


def _parse_manifest(text: bytes) -> Expectations:
    value = json.loads(text)
    entries = value["keys"] if isinstance(value, dict) and "keys" in value else value
    if not isinstance(entries, list):
        raise TypeError('it has no list "keys"')
    files = [_expected_file(number, entry) for number, entry in enumerate(entries)]
    return {file.name: file for file in files}


def _expected_file(number: int, entry: Any) -> ExpectedFile:
    wanted = "name, size in bytes and sha256 in lower-case hex"
    if not isinstance(entry, dict):
        raise TypeError(f"keys[{number}] is not an object with {wanted}")
    name, size, digest = entry.get("name"), entry.get("size"), entry.get("sha256")
    if not (isinstance(name, str) and type(size) is int and size >= 0 and isinstance(digest, str)):
        raise TypeError(f"keys[{number}] lacks {wanted}")
    if not _DIGEST.fullmatch(digest) or not name or "/" in name or "\\" in name:
        raise ValueError(f"keys[{number}] lacks {wanted}")
    return ExpectedFile(name, digest, size)


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
