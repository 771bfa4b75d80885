"""Options that several commands share."""

from collections.abc import Callable
from pathlib import Path

import click

from prover.cli.options.settings import Function, SettingOption
from prover.errors import SettingsInvalid
from prover.keys.catalogue.circuits import CIRCUIT_GROUPS, PUBLISHED_CIRCUITS, group_named
from prover.keys.files.atomic_file import require_free
from shared.requests.circuit_id import KEY_SUFFIX, CircuitId

EXISTING_FILE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)


def key_option(what: str, *, required: bool = True) -> Callable[[Function], Function]:
    """Add the option of a key file, in the spellings of the reference and ours."""
    spellings = ("-k", "--keys-file", "--key", "key")
    return click.option(*spellings, type=EXISTING_FILE, required=required, metavar="FILE", help=what)


def _circuit_names(_: click.Context, __: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Split names at commas and check them. Keys need not be published ones."""
    names = tuple(name.strip() for word in value for name in word.split(",") if name.strip())
    for name in names:
        if group_named(name) is None and _single(name) is None:
            groups = ", ".join(CIRCUIT_GROUPS)
            raise click.BadParameter(f"unknown circuit {name!r}; choose from {groups}, or name a key")
    return names


def expected_circuit_option(what: str) -> Callable[[Function], Function]:
    """Add ``--circuit`` to a command that knows its circuit anyway, and compares the two."""
    return click.option(
        "--circuit", "circuits", multiple=True, metavar="NAME", callback=_circuit_names, help=f"{what} Repeatable."
    )


def is_named(circuit: CircuitId, name: str) -> bool:
    """Return whether a name of ``--circuit`` names a circuit, or a group that contains it.

    A circuit of an unpublished size is in each group of its kind.
    """
    group = group_named(name)
    if group is None:
        return _single(name) == circuit
    return circuit in group or (circuit not in PUBLISHED_CIRCUITS and any(one.kind is circuit.kind for one in group))


def _single(name: str) -> CircuitId | None:
    return CircuitId.from_key_file(name.removesuffix(KEY_SUFFIX) + KEY_SUFFIX)


threads_option = SettingOption(
    "proving.threads",
    "--threads",
    type=click.IntRange(0, 1024),
    default=0,
    help="Kernel threads; 0 means one per available CPU.",
)

output_option = click.option(
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Output format.",
)

NEW_FILE = click.Path(dir_okay=False, path_type=Path)

force_option = click.option("--force", is_flag=True, help="Replace existing output files.")


def require_free_outputs(force: bool, **outputs: Path | None) -> None:
    """Raise SettingsInvalid that names the option, unless the files of all given options can be written."""
    for name, path in outputs.items():
        if path is None:
            continue
        try:
            require_free(path, force=force)
        except SettingsInvalid as error:
            raise SettingsInvalid(f"--{name.replace('_', '-')}: {error.detail}") from error
