"""Options from the table of settings, and types of option values."""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_args

import click

from forester.settings.model import WORDS, ProcessorMode, ProverNetwork, Settings
from forester.settings.sources import flag, variable

Function = TypeVar("Function", bound=Callable[..., Any])

_FLAG_WORDS = {"enable_priority_fees", "api_server_public_bind", "enable_compressible", "helius_rpc"}
_CHOICES = {"processor_mode": ProcessorMode, "prover_network": ProverNetwork}
_AMOUNTS = {"spending_budget_sol_per_hour", "rollover_max_sol"}
_REPEATABLE = {"tree_ids", "forester_api_urls", "light_pda_programs"}
_KEYS = {"payer", "derivation", "tree_ids", "group_authority", "lookup_table_address"}


class Amount(click.ParamType[float]):
    """An amount of SOL: a number not below 0."""

    name = "sol"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; a usage error for other text and negative numbers."""
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
        if str(value).lower() not in WORDS:
            self.fail(f"{value!r} is neither true nor false", param, ctx)
        return WORDS[str(value).lower()]


def setting_options(*names: str) -> Callable[[Function], Function]:
    """Return a decorator that adds the options of settings; values stay text, which ``load_settings`` validates."""

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
        metavar=_metavar(name),
        multiple=name in _REPEATABLE,
        help=f"{(field.description or '').strip()}{default} [{variable(name)}]",
        **words,
    )


def _metavar(name: str) -> str:
    """Return the name of a setting's value in the help."""
    if name in _FLAG_WORDS:
        return "[true|false]"
    if name in _CHOICES:
        return f"[{'|'.join(get_args(_CHOICES[name]))}]"
    if name.endswith(("_url", "_urls")):
        return "URL"
    if name in _KEYS:
        return "KEY"
    if name == "light_pda_programs":
        return "PROGRAM:DISCRIMINATOR"
    if name in _AMOUNTS:
        return "SOL"
    return "INTEGER" if "int" in str(Settings.model_fields[name].annotation) else "TEXT"


def refused_options(reasons: Mapping[str, str]) -> Callable[[Function], Function]:
    """Return a decorator that refuses options of the reference without effect here, with reasons; help omits them."""

    def decorate(function: Function) -> Function:
        for name in reasons:
            # Bare or with a value, as the reference accepts it: the reason matters, not the spelling.
            function = click.option(
                name, callback=_refusal(reasons[name]), expose_value=False, hidden=True, is_flag=False, flag_value=""
            )(function)
        return function

    return decorate


def _refusal(reason: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def refuse(context: click.Context, option: click.Parameter, value: Any) -> None:
        if value is not None:
            raise click.UsageError(f"{option.opts[0]} is an option of the reference only: {reason}", context)

    return refuse


min_balance_option = click.option(
    "--min-balance", type=Amount(), default="0.01", show_default=True, help="Minimum payer balance in SOL."
)

output_option = click.option(
    "--output",
    type=click.Choice(["text", "json"], case_sensitive=False),
    default="text",
    show_default=True,
    help="Output format.",
)
