"""Log level without ``-v`` and ``-q``: of FORESTER_LOG, else of RUST_LOG as the reference reads it.

RUST_LOG may be a filter of several directives, as ``warn,forester=debug``.
"""

from collections.abc import Mapping

from forester.errors import SettingsInvalid

LOG_LEVEL = "FORESTER_LOG"
"""Variable with a level for the forester alone."""

_REFERENCE_VARIABLE = "RUST_LOG"
_LEVELS = {
    "trace": "debug",
    "debug": "debug",
    "info": "info",
    "warn": "warning",
    "warning": "warning",
    "error": "error",
    "off": "error",
}
"""Words of both variables; there is no level below debug, and errors are always logged."""


def log_level(environment: Mapping[str, str]) -> str:
    """Return the level of the logs, ``info`` unless a variable names another.

    Raises SettingsInvalid for an unknown word in FORESTER_LOG. Directives of RUST_LOG for other programs, and invalid
    ones, are ignored.
    """
    own = environment.get(LOG_LEVEL, "").strip().lower()
    if not own:
        return _of_filter(environment.get(_REFERENCE_VARIABLE, ""))
    if own not in _LEVELS:
        raise SettingsInvalid(f"{LOG_LEVEL}: expected one of {', '.join(_LEVELS)}")
    return _LEVELS[own]


def _of_filter(text: str) -> str:
    """Return the level of a filter for the forester: that of its own directive, else that of all programs."""
    levels = {}
    for directive in text.lower().split(","):
        target, _, word = directive.strip().rpartition("=")
        if word in _LEVELS:
            levels[target] = _LEVELS[word]
    return levels.get("forester", levels.get("", "info"))
