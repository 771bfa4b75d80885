"""Boolean flags that also take a word, as the reference's launcher writes them."""

import click
from click.core import ParameterSource

from prover.errors import AddressUnavailable, SettingsInvalid
from shared.process.command_line import Command

_TRUE = frozenset({"true", "1", "t"})
_FALSE = frozenset({"false", "0", "f"})


class FlagWords(Command):
    """A command whose boolean flags also take a word: ``--flag true``, ``--flag=false``.

    The reference's launcher passes ``--auto-download true``; what follows the word still counts. A malformed value is
    wrong usage if an option gave it, and an invalid configuration if a variable did. An address that cannot be used is
    named after the variable that gave it, if one did.
    """

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; raises click.UsageError if SettingsInvalid is of values of options alone."""
        try:
            return super().invoke(ctx)
        except AddressUnavailable as error:
            detail = error.detail
            for name in error.names:
                detail = detail.replace(name, setting_name(ctx, name))
            raise AddressUnavailable(detail) from error
        except SettingsInvalid as error:
            options = {name: _option_given(ctx, name) for name in error.names}
            if not options or not all(options.values()):
                raise
            detail = error.detail
            for name, option in options.items():
                detail = detail.replace(name, option or name)
            raise click.UsageError(detail, ctx) from error

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Remove the words, then parse as usual."""
        flags = {
            name
            for parameter in self.params
            if isinstance(parameter, click.Option) and parameter.is_flag
            for name in parameter.opts
        }
        return super().parse_args(ctx, _without_words(args, flags))


def setting_name(ctx: click.Context, option: str) -> str:
    """Return the variable that gave the value of an option, or else the option."""
    for parameter in ctx.command.params:
        if option in parameter.opts and parameter.name is not None and isinstance(parameter.envvar, str):
            is_variable = ctx.get_parameter_source(parameter.name) is ParameterSource.ENVIRONMENT
            return parameter.envvar if is_variable else option
    return option


def _option_given(ctx: click.Context, name: str) -> str | None:
    """Return the option on the command line that has a name or the variable of it; None if there is none."""
    for parameter in ctx.command.params:
        variables = [parameter.envvar] if isinstance(parameter.envvar, str) else parameter.envvar or ()
        if name in (*parameter.opts, *variables) and parameter.name is not None:
            given = ctx.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
            return parameter.opts[0] if given else None
    return None


def _without_words(args: list[str], flags: set[str]) -> list[str]:
    kept: list[str] = []
    rest = iter(args)
    pending: str | None = None
    for word in rest:
        if pending is not None:
            flag, pending = pending, None
            if word.lower() in _FALSE:
                continue
            kept.append(flag)
            if word.lower() in _TRUE:
                continue
        name, equals, value = word.partition("=")
        if name in flags and equals and value.lower() in _TRUE | _FALSE:
            kept += [name] if value.lower() in _TRUE else []
        elif word in flags and word != "--help":
            pending = word
        else:
            kept.append(word)
    return kept if pending is None else [*kept, pending]
