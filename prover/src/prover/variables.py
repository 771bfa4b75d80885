"""Environment variables: unknown ones with our prefix, and secrets in files that variables name."""

import re
from collections.abc import Iterator, Mapping, Set
from difflib import get_close_matches
from pathlib import Path

from prover.errors import SettingsInvalid
from shared.process.encoding import NOT_UTF_8, is_utf_8
from shared.process.service_links import is_service_link
from shared.process.shown_path import shown_path

PREFIX = "PROVER_"
REFERENCE_VARIABLES = (
    "PROVER_API_KEY",
    "PROVER_MAX_CONCURRENCY",
    "PROVER_MAX_PENDING_DEVNET",
    "PROVER_MAX_PENDING_MAINNET",
    "PROVER_TOTAL_MEMORY_GB",
)
"""Variables of the reference that share our prefix."""
_IN_FILES = ("PROVER_API_KEY", "REDIS_URL")
"""Variables of the reference whose value may be in a file that <VARIABLE>_FILE names."""

_OF_FORESTERS = re.compile(
    r"PROVER_((APPEND_|UPDATE_|ADDRESS_APPEND_)?URL(_FILE)?|NETWORK|POLLING_INTERVAL_MS|MAX_WAIT_TIME_SECS)"
)
"""Variables of foresters that share an environment with a prover."""
_OF_ADDRESSES = ("PORT", "HOST", "ADDRESS")
"""Names, without the prefix, of variables that are meant to choose the address of the API."""
_MIN_SIMILARITY = 0.85
"""Minimum similarity of a suggested name, compared without the prefix that all names share."""


class Secret:
    """A text that representations, and so logs and errors, do not show. Empty is false."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return f"Secret({'**********' if self else ''})"

    def __bool__(self) -> bool:
        return bool(self._text)

    def reveal(self) -> str:
        """Return the text."""
        return self._text


def with_secret_files(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with the secrets that are in files; a variable comes before its file.

    An empty file means the same as an empty variable. Raises SettingsInvalid that names the file or the variable,
    never its content.
    """
    found = dict(environment)
    for name in _IN_FILES:
        if not is_utf_8(environment.get(name, "")):
            raise SettingsInvalid(f"{name}: {NOT_UTF_8}", names=(name,))
        path = environment.get(_file_variable(name))
        if path and not environment.get(name):
            found[name] = _secret_in(Path(path), _file_variable(name))
    return found


def _file_variable(name: str) -> str:
    return f"{name}_FILE"


def _secret_in(path: Path, origin: str) -> str:
    try:
        return path.read_text().strip()
    except OSError as error:
        shown = shown_path(path)
        raise SettingsInvalid(
            f"{origin}: cannot read {shown}: {error.strerror}; correct the path or the mode"
        ) from None
    except UnicodeDecodeError:
        raise SettingsInvalid(f"{origin}: {path} is not a text file") from None


def unknown_names(environment: Mapping[str, str], known: Set[str]) -> Iterator[str]:
    """Yield one sentence per variable with our prefix that no known program uses."""
    names = {name.removeprefix(PREFIX) for name in {*known, *REFERENCE_VARIABLES, *map(_file_variable, _IN_FILES)}}
    for variable, value in sorted(environment.items()):
        name = variable.upper()
        if not name.startswith(PREFIX) or name.removeprefix(PREFIX) in names or _is_foreign(name, value):
            continue
        yield f"{variable} is not a setting of the prover{_suggestion(name.removeprefix(PREFIX), names)}"


def _suggestion(name: str, names: Set[str]) -> str:
    if name in _OF_ADDRESSES:
        return f"; set {PREFIX}HTTP__ADDRESS=HOST:PORT, or --prover-address, instead"
    if any(known.startswith(f"{name}__") for known in names):
        return f"; its settings are {PREFIX}{name}__<NAME>"
    close = get_close_matches(name, names, n=1, cutoff=_MIN_SIMILARITY)
    return f"; did you mean {PREFIX}{close[0]}?" if close else ""


def _is_foreign(name: str, value: str) -> bool:
    if "__" in name:
        return False
    return _OF_FORESTERS.fullmatch(name) is not None or is_service_link(name, value, prefix=PREFIX)
