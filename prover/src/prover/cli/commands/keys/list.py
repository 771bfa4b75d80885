"""``prover keys list``: the known keys, their run modes, and the installed ones."""

import json
from pathlib import Path
from typing import Any

import click

from prover.cli.options.files import output_option
from prover.cli.options.keys import circuit_option, keys_dir_option, run_mode_option, selection_from, set_option
from prover.keys.catalogue.run_modes import KeySet, RunMode, circuits_of
from prover.keys.files.key_folder import installed_keys
from prover.units import gibibytes
from shared.process.command_line import Command


@click.command(
    "list",
    cls=Command,
    examples=("prover keys list", "prover keys list --run-mode forester", "prover keys list --output json"),
)
@keys_dir_option
@run_mode_option(what="Keys to list, by role.")
@circuit_option(what="Keys to list,")
@set_option()
@output_option
def list_keys(keys_dir: Path, run_mode: str | None, circuits: tuple[str, ...], key_set: str, output: str) -> None:
    """List the published keys: name, size if installed, and the run modes that need it."""
    installed = installed_keys(keys_dir)
    modes = {mode: set(circuits_of(mode, KeySet(key_set))) for mode in RunMode}
    rows: list[dict[str, Any]] = []
    for circuit in sorted(selection_from(run_mode, circuits, key_set).published()):
        path = installed.get(circuit)
        rows.append(
            {
                "circuit": circuit.name,
                "kind": circuit.kind.value,
                "file": path.name if path else None,
                "bytes": path.stat().st_size if path else None,
                "run_modes": [mode.value for mode in RunMode if circuit in modes[mode]],
            }
        )
    if output == "json":
        click.echo(json.dumps({"directory": str(keys_dir), "keys": rows}, indent=2))
        return
    width = max(len(row["circuit"]) for row in rows)
    for row in rows:
        size = "-" if row["bytes"] is None else gibibytes(row["bytes"])
        click.echo(f"{row['circuit']:<{width}}  {size:>10}  {', '.join(row['run_modes'])}")
    here = sum(row["file"] is not None for row in rows)
    missing = "" if keys_dir.is_dir() else ", which is not a directory"
    click.echo(f"{here} of {len(rows)} keys are installed in {keys_dir}{missing}")
