"""Options for settings, which variables give, too."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import click

from prover.variables import PREFIX

Function = TypeVar("Function", bound=Callable[..., Any])

Overrides = dict[str, dict[str, Any]]
"""Values by group and name of the settings."""


class SettingOption:
    """Option for a setting such as ``http.address``, whose variable PROVER_HTTP__ADDRESS gives it, too."""

    def __init__(self, setting: str, spelling: str, **attributes: Any) -> None:
        self.group, _, self.name = setting.rpartition(".")
        self._parameter = spelling.removeprefix("--").replace("-", "_")
        variable = f"{PREFIX}{setting.replace('.', '__')}".upper()
        self._add = click.option(spelling, **{"envvar": variable, "show_envvar": True, **attributes})

    def __call__(self, command: Function) -> Function:
        """Add the option to a command."""
        return self._add(command)

    def value(self, options: Mapping[str, Any]) -> Any:
        """Return the value in the options of a command; None if it was not given."""
        return options.get(self._parameter)


def add_options(command: Function, options: Iterable[Callable[[Function], Function]]) -> Function:
    """Add options to a command, whose help shows them in this order."""
    for option in reversed([*options]):
        command = option(command)
    return command


def given_settings(table: Iterable[Callable[..., Any]], options: Mapping[str, Any]) -> Overrides:
    """Return the values of the options of a table that are for settings and were given."""
    found: Overrides = {}
    for option in table:
        if isinstance(option, SettingOption) and (value := option.value(options)) is not None:
            found.setdefault(option.group, {})[option.name] = value
    return found
