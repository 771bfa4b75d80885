"""Options about keys that several commands share: circuits, folder, server."""

from collections.abc import Callable
from pathlib import Path

import click

from prover.cli.options.settings import Function, SettingOption
from prover.keys.catalogue.circuits import CIRCUIT_GROUPS, UnknownCircuit, circuits_named
from prover.keys.catalogue.run_modes import KeySet, RunMode
from prover.keys.catalogue.selection import CircuitSelection
from prover.settings import KeySettings

DEFAULT_DIRECTORY = Path("proving-keys")
MODES = [mode.value for mode in RunMode]
_DEFAULTS = KeySettings()


def names_of(_: click.Context, __: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Split names at commas and check them; a callback of options."""
    names = tuple(name.strip() for word in value for name in word.split(",") if name.strip())
    try:
        circuits_named(names)
    except UnknownCircuit as error:
        raise click.BadParameter(str(error)) from error
    return names


def circuit_option(variable: str | None = None, what: str = "") -> Callable[[Function], Function]:
    """Add ``--circuit``, repeatable and with commas."""
    return click.option(
        "--circuit",
        "circuits",
        multiple=True,
        metavar="NAME",
        callback=names_of,
        envvar=variable,
        show_envvar=bool(variable),
        help=f"{what or 'Circuits'} by name: {', '.join(CIRCUIT_GROUPS)}, or a key: v2_inclusion_32_1. Repeatable.",
    )


def run_mode_option(variable: str | None = None, what: str = "") -> Callable[[Function], Function]:
    """Add ``--run-mode``."""
    return click.option(
        "--run-mode",
        type=click.Choice(MODES),
        envvar=variable,
        show_envvar=bool(variable),
        help=what or "Circuits, by role.",
    )


def set_option(variable: str | None = None) -> Callable[[Function], Function]:
    """Add ``--set``."""
    return click.option(
        "--set",
        "key_set",
        type=click.Choice([key_set.value for key_set in KeySet]),
        default=KeySet.SPECIFICATION.value,
        show_default=True,
        envvar=variable,
        show_envvar=bool(variable),
        help="Table of run modes: the circuits that a role needs, or the wider sets that the reference downloads.",
    )


keys_dir_option = SettingOption(
    "keys.directory",
    "--keys-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_DIRECTORY,
    show_default=True,
    metavar="DIR",
    help="Directory of the keys.",
)

prepared_dir_option = SettingOption(
    "keys.prepared_directory",
    "--prepared-dir",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    show_default="prepared/ next to the key",
    help="Directory of the prepared keys.",
)

manifest_option = SettingOption(
    "keys.manifest",
    "--manifest",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help='File with pinned keys, {"keys": [{"name", "size", "sha256"}]}; replaces the CHECKSUM list.',
)

download_url_option = SettingOption(
    "keys.download_url",
    "--download-url",
    metavar="URL",
    default=_DEFAULTS.download_url,
    show_default=True,
    help="Base URL of the key files and their CHECKSUM list.",
)


def selection_from(run_mode: str | None, circuits: tuple[str, ...], key_set: str) -> CircuitSelection:
    """Return the selection of the options; everything if none is given."""
    return CircuitSelection.of(RunMode(run_mode) if run_mode else None, circuits, KeySet(key_set))
