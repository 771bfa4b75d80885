"""``prover keys verify``: comparison of the keys of a folder with the published ones."""

import json
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import click

from prover.cli.options.files import output_option, threads_option
from prover.cli.options.keys import (
    circuit_option,
    keys_dir_option,
    manifest_option,
    prepared_dir_option,
    run_mode_option,
    selection_from,
    set_option,
)
from prover.cli.trial_proof import make_trial_proof
from prover.cli.work import progress, run_cancellable
from prover.errors import SettingsInvalid
from prover.kernel.engine import Engine
from prover.keys.catalogue.circuits import smallest_first
from prover.keys.catalogue.selection import CircuitSelection
from prover.keys.files.key_folder import MISSING_REMEDY, UNREADABLE_REMEDY, keys_of_folder, require_folder
from prover.keys.prepared.prepared_keys import FOLDER
from prover.keys.verify import KeyReport, Verdict, known_files, verify_key
from shared.process.command_line import Command

_FILE_COLUMN = 31
"""Characters of the longest published name."""


@click.command(
    cls=Command,
    examples=(
        "prover keys verify",
        "prover keys verify --run-mode rpc --deep",
        "prover keys verify --manifest pinned-keys.json --output json",
    ),
    epilog="Exit codes: 0 all keys are good or unlisted, 1 a key is missing or bad, 2 usage, 78 configuration, "
    "130 and 143 stopped by a signal.",
)
@keys_dir_option
@run_mode_option(what="Keys to check, by role; a missing key is a failure.")
@circuit_option(what="Keys to check,")
@set_option()
@manifest_option
@prepared_dir_option
@click.option("--deep", is_flag=True, help="Also make and verify a proof with each key.")
@threads_option
@output_option
def verify(
    keys_dir: Path,
    run_mode: str | None,
    circuits: tuple[str, ...],
    key_set: str,
    manifest: Path | None,
    prepared_dir: Path | None,
    deep: bool,
    threads: int,
    output: str,
) -> None:
    """Check the keys of a directory: size and SHA-256, every byte of the format, checksums of prepared keys.

    Sizes and digests come from --manifest. Without it they come from manifest.json (keys made here), the CHECKSUM list
    that `prover download` writes, and the digests shipped with this program (the keys of the reference's 0.27.0
    package). Default: all keys of the directory, of which there must be one. Keys that no list names are reported as
    unlisted.
    """
    selection = selection_from(run_mode, circuits, key_set)
    folder = prepared_dir or keys_dir / FOLDER
    found = verify_selection(keys_dir, selection, manifest, threads=threads, deep=deep, prepared_folder=folder)
    show_reports(found, output)


def verify_selection(
    keys_dir: Path,
    selection: CircuitSelection,
    manifest: Path | None,
    *,
    threads: int = 0,
    deep: bool = False,
    prepared_folder: Path | None = None,
) -> Iterator[KeyReport]:
    """Check the selected keys, or all of the folder where nothing is excluded, one after the other."""
    known = known_files(keys_dir, manifest)
    found = keys_of_folder(keys_dir)
    wanted = selection.published() if selection.is_restricted else smallest_first({*found.files, *found.unreadable})
    if not wanted:
        require_folder(keys_dir)
        raise SettingsInvalid(f"--keys-dir: no proving keys in {keys_dir}; choose another, or run `prover download`")
    with Engine(threads) as engine:
        for circuit in wanted:
            path, unreadable = found.files.get(circuit), found.unreadable.get(circuit)
            if unreadable is not None:
                detail = f"it is {unreadable.fault}; {UNREADABLE_REMEDY}"
                yield KeyReport(circuit, unreadable.path.name, Verdict.UNUSABLE, detail)
            elif path is None:
                detail = f"proving key file not found: {circuit.key_file}; {MISSING_REMEDY}"
                yield KeyReport(circuit, circuit.key_file, Verdict.MISSING, detail)
            else:
                with progress(f"checking {path.name}"):
                    work = partial(
                        verify_key,
                        engine,
                        circuit,
                        path,
                        known,
                        trial_proof=make_trial_proof if deep else None,
                        prepared_folder=prepared_folder,
                    )
                    report = run_cancellable(work)
                yield report


def show_reports(found: Iterable[KeyReport], output: str) -> None:
    """Print reports, as text each at once, and end the process with 1 if a key is bad."""
    reports = []
    for report in found:
        reports.append(report)
        if output == "text":
            click.echo(f"{report.verdict:<14}  {report.file:<{_FILE_COLUMN}}  {report.detail}")
    bad = [report for report in reports if report.verdict.is_bad]
    if output == "json":
        keys = [
            {"circuit": report.circuit.name, "file": report.file, "verdict": report.verdict, "detail": report.detail}
            for report in reports
        ]
        click.echo(json.dumps({"ok": not bad, "keys": keys}, indent=2))
    else:
        click.echo(f"{len(reports) - len(bad)} of {len(reports)} keys are usable")
    if bad:
        sys.exit(1)
