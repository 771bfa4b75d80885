"""Sources of settings: flag, environment, secret file, ``.env`` file, default, in this order.

The variable of a setting is its name in capitals, as the reference has it (``RPC_URL``), or that with FORESTER_ before
it, which comes first. A setting that may grant access, and the derivation key, can also be read from the file that
``<VARIABLE>_FILE`` names, or from the file of that name, in small letters, in the folder FORESTER_SECRETS_DIR;
``.env`` may also name these.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from dotenv import dotenv_values
from pydantic import SecretStr, ValidationError

from forester.environment import DOTENV
from forester.errors import SettingsInvalid
from forester.log_level import LOG_LEVEL
from forester.redaction import remember_secret, remember_url
from forester.settings.key_files import read_key_file
from forester.settings.model import Settings, is_in_files, is_key_pair
from shared.process.encoding import NOT_UTF_8, is_utf_8
from shared.process.service_links import is_service_link
from shared.process.shown_path import shown_path

Value = TypeVar("Value")
Candidate = tuple[str | SecretStr, str]
"""A value with its origin; a SecretStr is the content of a key file, which is never a path."""

PREFIX = "FORESTER_"
SECRETS_FOLDER = "FORESTER_SECRETS_DIR"
UNKNOWN_REMEDY = "correct or remove it"
"""Remedy for an unknown variable."""
_MIN_SIMILARITY = 0.7
"""Minimum similarity of a suggested variable, compared without the prefix that all have."""
_OTHER_VARIABLES = {
    "derivation": "DERIVATION_PUBKEY",
    "send_tx_rate_limit": "SEND_TRANSACTION_RATE_LIMIT",
    "photon_rate_limit": "PHOTON_RATE_LIMIT",
}
_OTHER_FLAGS = {
    "tree_ids": "--tree-id",
    "journal_path": "--journal",
    "forester_api_urls": "--forester-api-url",
    "prover_network": "--network",
    "light_pda_programs": "--light-pda-program",
}

_EXPECTED = {
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number with fewer digits",
    "float_parsing": "a number",
    "finite_number": "a number",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le:.15g}",
    "literal_error": "{expected}",
}
"""What a value must be, by the kind of pydantic's error and with the values of its context."""


class FlagInvalid(SettingsInvalid, exit_code=2):
    """A flag has an invalid value."""


@dataclass(frozen=True)
class Loaded:
    """Settings with the origin of each value: ``--flag``, ``VARIABLE``, a file, or ``default``."""

    settings: Settings
    origins: Mapping[str, str]


def variable(name: str) -> str:
    """Return the environment variable of a setting, as the reference spells it."""
    return _OTHER_VARIABLES.get(name, name.upper())


def _spellings(name: str) -> tuple[str, str]:
    """Return the variables of a setting, that with our prefix first."""
    return f"{PREFIX}{variable(name)}", variable(name)


def flag(name: str) -> str:
    """Return the command-line option of a setting."""
    return _OTHER_FLAGS.get(name, f"--{name.replace('_', '-')}")


def load_settings(
    flags: Mapping[str, Any] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    dotenv: Path | None = None,
    only: tuple[str, ...] | None = None,
) -> Loaded:
    """Read the settings named in ``only`` (None: all); the rest keep their defaults.

    ``flags`` are values of the command line, None if not given. Raises SettingsInvalid with every problem and the
    origin of its value; with exit status 2 if all are flags.
    """
    environment = os.environ if environment is None else environment
    from_file = {name: value for name, value in _from_dotenv(dotenv or DOTENV) if name not in environment}
    _require_folder(environment, SECRETS_FOLDER)
    _require_folder(from_file, f"{SECRETS_FOLDER} in .env")
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for name in Settings.model_fields if only is None else only:
        given = (flags or {}).get(name)
        if given not in (None, ()):
            values[name], origins[name] = given, flag(name)
            continue
        found = next(_candidates(name, environment, from_file), None)
        if found is not None:
            values[name], origins[name] = found
        else:
            origins[name] = "default"
    settings = _validated(values, origins)
    _remember(settings)
    return Loaded(settings, origins)


def _from_dotenv(path: Path) -> list[tuple[str, str]]:
    try:
        return [(name, value) for name, value in dotenv_values(path).items() if value]
    except OSError as error:
        raise _dotenv_invalid(path, f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise _dotenv_invalid(path, "is not UTF-8 text") from None


def _dotenv_invalid(path: Path, fault: str) -> SettingsInvalid:
    with contextlib.suppress(OSError):  # the working directory may be gone
        path = path.absolute()
    return SettingsInvalid(f".env: {fault}; correct {path}, or move it away")


def _candidates(name: str, environment: Mapping[str, str], from_file: Mapping[str, str]) -> Iterator[Candidate]:
    names = _spellings(name)
    for source, where in ((environment, ""), (from_file, " in .env")):
        for spelled in names:
            if source.get(spelled):
                yield source[spelled], f"{spelled}{where}"
        if is_in_files(name):
            yield from _files(names, source, is_key_pair(name))


def _files(names: tuple[str, ...], source: Mapping[str, str], key_pair: bool) -> Iterator[Candidate]:
    for spelled in names:
        if source.get(f"{spelled}_FILE"):
            path = Path(source[f"{spelled}_FILE"])
            yield _read(path, f"{spelled}_FILE", key_pair), f"{spelled}_FILE ({path})"
    if source.get(SECRETS_FOLDER):
        for spelled in names:
            path = Path(source[SECRETS_FOLDER]) / spelled.lower()
            # Empty files, like empty variables, are not set: compose cannot leave a secret out.
            if path.is_file() and (text := _read(path, SECRETS_FOLDER, key_pair)):
                yield text, str(path)


def _require_folder(source: Mapping[str, str], origin: str) -> None:
    """Raise SettingsInvalid for a missing folder of secrets, whose settings would silently be missing."""
    if not source.get(SECRETS_FOLDER):
        return
    folder = Path(source[SECRETS_FOLDER])
    try:
        # Fails for a path that is not a folder, and for a folder that may not be searched.
        (folder / "..").stat()
    except OSError as error:
        raise SettingsInvalid(
            f"{origin}: cannot look into {folder}: {error.strerror}; set it to the folder of the secrets, or unset it"
        ) from None


def _read(path: Path, origin: str, key_pair: bool) -> str | SecretStr:
    try:
        return SecretStr(read_key_file(path, mounted=True)) if key_pair else path.read_text().strip()
    except OSError as error:
        raise SettingsInvalid(f"{origin}: cannot read {shown_path(path)}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsInvalid(f"{origin}: {path} is not a text file") from None
    except ValueError as error:
        raise SettingsInvalid(f"{origin}: {error}") from None


def _validated(values: dict[str, Any], origins: Mapping[str, str]) -> Settings:
    garbled = [origins[name] for name, value in values.items() if not is_utf_8(value)]
    if garbled:
        kind = FlagInvalid if all(origin.startswith("--") for origin in garbled) else SettingsInvalid
        raise kind("; ".join(f"{origin}: {NOT_UTF_8}" for origin in garbled))
    try:
        return Settings(**values)
    except ValidationError as error:
        problems, seen = [], []
        for item in error.errors(include_input=False, include_url=False):
            name = str(item["loc"][0]) if item["loc"] else ""
            origin = origins.get(name, "")
            seen.append(origin)
            text = _fault(item)
            problems.append(f"{origin}: {text}" if origin else text)
        kind = FlagInvalid if all(origin.startswith("--") for origin in seen) else SettingsInvalid
        raise kind("; ".join(dict.fromkeys(problems))) from None


def _fault(item: Mapping[str, Any]) -> str:
    expected = _EXPECTED.get(item["type"])
    if expected is None:
        return str(item["msg"]).removeprefix("Value error, ")
    return f"expected {expected.format(**item.get('ctx', {}))}".replace("'", "")


def _remember(settings: Settings) -> None:
    for name in Settings.model_fields:
        values = getattr(settings, name)
        for value in values if isinstance(values, tuple) else (values,):
            if isinstance(value, SecretStr):
                if name.endswith(("_url", "_urls")):
                    remember_url(value.get_secret_value())
                else:
                    remember_secret(value.get_secret_value())


def given(value: Value | None) -> Value:
    """Return a value that ``require`` has checked."""
    if value is None:
        raise SettingsInvalid("a needed setting was not required before")
    return value


def revealed(*secrets: SecretStr | None) -> list[str]:
    """Return the values of the secrets that are set."""
    return [secret.get_secret_value() for secret in secrets if secret is not None]


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Return one sentence per variable with our prefix that is neither a setting nor set by Kubernetes."""
    names = {name: _spellings(name) for name in Settings.model_fields}
    of_files = {f"{spelled}_FILE" for name, spellings in names.items() if is_in_files(name) for spelled in spellings}
    known = {*chain.from_iterable(names.values()), *of_files, SECRETS_FOLDER, LOG_LEVEL}
    without_prefix = {name.removeprefix(PREFIX) for name in known if name.startswith(PREFIX)}
    sentences = []
    for name, value in sorted(environment.items()):
        if not name.startswith(PREFIX) or name in known or is_service_link(name, value, prefix=PREFIX):
            continue
        close = get_close_matches(name.removeprefix(PREFIX), without_prefix, n=1, cutoff=_MIN_SIMILARITY)
        suggestion = f"; did you mean {PREFIX}{close[0]}?" if close else ""
        sentences.append(f"{name} is not a setting of the forester{suggestion}")
    return sentences


def require(settings: Settings, *names: str) -> None:
    """Raise SettingsInvalid that names every missing setting, its option and its variable."""
    missing = [name for name in names if getattr(settings, name) is None]
    if missing:
        raise SettingsInvalid(
            "; ".join(f"missing {name}: pass {flag(name)} or set {variable(name)}" for name in missing)
        )
