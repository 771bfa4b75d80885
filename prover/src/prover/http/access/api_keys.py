"""API keys: named, with a role, from settings and a file that may change while the server runs.

Only digests are kept in memory. A comparison takes the same time for every key: it reads all of them.
"""

import enum
import hashlib
import hmac
import re
import time
from pathlib import Path

from msgspec import Struct

from prover.errors import SettingsInvalid
from prover.settings import HttpSettings
from shared.process.logs import get_logger
from shared.process.shown_path import shown_path

_log = get_logger(__name__)

_ENTRY = re.compile(r"(?P<name>[A-Za-z0-9._-]{1,64})(?::(?P<role>[a-z]+))?\s*=\s*(?P<key>[!-~]+)", re.ASCII)
_MINIMUM_KEY_CHARACTERS = 8
_GUESSABLE_BELOW_CHARACTERS = 16
"""Shorter keys are accepted with a warning: the reference accepts any."""
_CHECK_EVERY_S = 1.0
_OTHERS_MAY_READ = 0o004
SHORT_DETAIL = f"keys of fewer than {_GUESSABLE_BELOW_CHARACTERS} characters can be guessed"
SHORT_REMEDY = "replace them by random ones, for example from `openssl rand -hex 32`"
REFERENCE_NAME = "default"
"""Name of the one key of PROVER_API_KEY."""


class Role(enum.Enum):
    """Permissions of a key."""

    PROVE = "prove"
    ADMIN = "admin"


class ApiKey(Struct, frozen=True):
    """One key; ``digest`` is the SHA-256 of its text."""

    name: str
    role: Role
    digest: bytes
    is_short: bool = False
    """True if the text has fewer than 16 characters."""


class ApiKeys:
    """The keys of a server. Without keys every client may do everything except administration."""

    def __init__(self, settings: HttpSettings) -> None:
        """Read all keys. Raises SettingsInvalid with the source and line, never the key."""
        self._fixed = _fixed_keys(settings)
        self._file = settings.api_keys_file
        self._fingerprint: tuple[int, int, int] | None = None
        self._checked = 0.0
        self._from_file: tuple[ApiKey, ...] = ()
        if self._file is not None:
            self._from_file = self._read(self._file)
            self._checked = time.monotonic()
        self._require_distinct((*self._fixed, *self._from_file))

    @property
    def required(self) -> bool:
        """True if requests need a key."""
        return bool(self._fixed) or self._file is not None

    def short_names(self) -> list[str]:
        """Return the names of keys with fewer than 16 characters, which can be guessed."""
        return [key.name for key in (*self._fixed, *self._from_file) if key.is_short]

    def find(self, given: str) -> ApiKey | None:
        """Return the key with this text, in a time that does not depend on similar keys."""
        self._refresh()
        digest = hashlib.sha256(given.encode("utf-8", "surrogateescape")).digest()
        found = None
        for key in (*self._fixed, *self._from_file):
            if hmac.compare_digest(key.digest, digest):
                found = key
        return found

    def reload(self) -> bool:
        """Read the file again; return False and keep the earlier keys if it cannot be read."""
        if self._file is None:
            return True
        try:
            keys = self._read(self._file)
            self._require_distinct((*self._fixed, *keys))
        except SettingsInvalid as error:
            _log.error("api_keys_not_reloaded", detail=error.detail)
            return False
        self._from_file = keys
        _log.info("api_keys_reloaded", names=[key.name for key in keys])
        self.warn_of_short_keys()
        return True

    def warn_of_short_keys(self) -> None:
        """Log the names of keys that can be guessed, if any."""
        if names := self.short_names():
            _log.warning("api_keys_guessable", names=names, detail=SHORT_DETAIL, remedy=SHORT_REMEDY)

    def _refresh(self) -> None:
        """Read the file again if it changed; checks at most once a second."""
        now = time.monotonic()
        if self._file is None or now - self._checked < _CHECK_EVERY_S:
            return
        self._checked = now
        if _fingerprint(self._file) != self._fingerprint:
            self.reload()

    def _read(self, path: Path) -> tuple[ApiKey, ...]:
        self._fingerprint = _fingerprint(path)
        try:
            text = path.read_text()
            mode = path.stat().st_mode
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise SettingsInvalid(f"PROVER_HTTP__API_KEYS_FILE: cannot read {shown_path(path)}: {reason}") from None
        if mode & _OTHERS_MAY_READ:
            _log.warning("api_keys_world_readable", file=str(path), remedy="chmod o-r")
        keys = parse_keys(text, str(path))
        if not keys:
            raise SettingsInvalid(f"API key file {path} contains no key")
        return keys

    @staticmethod
    def _require_distinct(keys: tuple[ApiKey, ...]) -> None:
        names = [key.name for key in keys]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise SettingsInvalid(f"API keys need different names; given twice: {', '.join(twice)}")


def parse_keys(text: str, source: str) -> tuple[ApiKey, ...]:
    """Read entries ``NAME=KEY`` and ``NAME:ROLE=KEY``, one per line; ``#`` begins a comment line.

    Raises SettingsInvalid that names source and line.
    """
    keys = []
    for number, line in enumerate(text.splitlines(), 1):
        entry = line.strip()
        if not entry or entry.startswith("#"):
            continue
        match = _ENTRY.fullmatch(entry)
        if match is None:
            raise SettingsInvalid(f"{source}, line {number}: write NAME=KEY or NAME:admin=KEY")
        keys.append(_key(match["name"], match["role"] or Role.PROVE.value, match["key"], f"{source}, line {number}"))
    return tuple(keys)


def _key(name: str, role: str, text: str, source: str) -> ApiKey:
    if role not in {known.value for known in Role}:
        raise SettingsInvalid(f"{source}: the roles are {' and '.join(known.value for known in Role)}")
    if len(text) < _MINIMUM_KEY_CHARACTERS:
        raise SettingsInvalid(f"{source}: a key has at least {_MINIMUM_KEY_CHARACTERS} characters")
    return _api_key(name, Role(role), text)


def _api_key(name: str, role: Role, text: str) -> ApiKey:
    return ApiKey(name, role, hashlib.sha256(text.encode()).digest(), len(text) < _GUESSABLE_BELOW_CHARACTERS)


def _fixed_keys(settings: HttpSettings) -> tuple[ApiKey, ...]:
    keys = parse_keys(settings.api_keys.reveal().replace(",", "\n"), "PROVER_HTTP__API_KEYS")
    single = settings.api_key.reveal()
    if not single:
        return keys
    # The reference accepts any text here, and its one key has every right.
    return (_api_key(REFERENCE_NAME, Role.ADMIN, single), *keys)


def _fingerprint(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
