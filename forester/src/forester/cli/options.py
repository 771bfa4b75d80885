"""Options that follow from the table of settings, and words that options take."""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import click

from forester.settings.model import Settings
from forester.settings.sources import flag, variable

Function = TypeVar("Function", bound=Callable[..., Any])

_FLAG_WORDS = {"enable_priority_fees", "api_server_public_bind"}
_WORDS = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}


class Amount(click.ParamType[float]):
    """An amount of SOL: a number from 0 on."""

    name = "sol"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; a usage error for what is none, or negative."""
        try:
            amount = float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number", param, ctx)
        if not 0 <= amount < math.inf:
            self.fail(f"{value!r} is not an amount of SOL", param, ctx)
        return amount


class BooleanWord(click.ParamType[bool]):
    """true or false, as a word."""

    name = "true|false"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bool:
        """Return the word's meaning; a usage error for other words."""
        if isinstance(value, bool):
            return value
        if str(value).lower() not in _WORDS:
            self.fail(f"{value!r} is neither true nor false", param, ctx)
        return _WORDS[str(value).lower()]


def setting_options(*names: str) -> Callable[[Function], Function]:
    """Give a command the options of settings; values stay text, as ``load_settings`` validates them all together."""

    def decorate(function: Function) -> Function:
        for name in reversed(names):
            function = _option(name)(function)
        return function

    return decorate


def _option(name: str) -> Callable[[Function], Function]:
    field = Settings.model_fields[name]
    default = "" if field.default in (None, ()) else f" Default: {str(field.default).lower()}."
    words: dict[str, Any] = {"is_flag": False, "flag_value": "true"} if name in _FLAG_WORDS else {}
    return click.option(
        flag(name),
        name,
        metavar="TEXT" if not words else "[true|false]",
        multiple=name == "tree_ids",
        help=f"{(field.description or '').strip()}{default} [{variable(name)}]",
        **words,
    )


min_balance_option = click.option(
    "--min-balance", type=Amount(), default="0.01", show_default=True, help="Least balance of the payer, SOL."
)

output_option = click.option(
    "--output",
    type=click.Choice(["text", "json"], case_sensitive=False),
    default="text",
    show_default=True,
    help="Form of the answer.",
)
