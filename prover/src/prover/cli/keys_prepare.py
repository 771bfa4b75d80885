"""``prover keys prepare``: keys in the form that a prover maps at once."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from prover.cli.command import Command
from prover.cli.device_options import device_settings_of, key_device_options
from prover.cli.key_options import (
    circuit_option,
    keys_dir_option,
    prepared_dir_option,
    run_mode_option,
    selection_from,
    set_option,
)
from prover.cli.meter import meter
from prover.cli.options import EXISTING_FILE, threads_option
from prover.cli.work import run_cancellable
from prover.errors import SettingsInvalid
from prover.kernel.cancellation import CancelFlag
from prover.kernel.device import Device
from prover.kernel.engine import Engine, LoadedKey
from prover.kernel.prepared import WriteProgress
from prover.keys import fold_checkpoint, folding, prepared
from prover.keys.catalogue import smallest_first
from prover.keys.key_files import MISSING_REMEDY, check_name, installed_keys
from prover.keys.selection import CircuitSelection
from prover.proving.key_device import KeyDevice
from prover.settings import DeviceSettings
from shared.circuit_id import CircuitId

_PERMILLE = 1000
_MEBIBYTE = 2**20


class _Progress:
    """How much of several files is done, by their sizes; of the present one, how much is written."""

    def __init__(self, files: list[Path]) -> None:
        self._sizes = [path.stat().st_size for path in files]
        self._done = 0
        self.written = WriteProgress()

    @property
    def permille(self) -> int:
        """Thousandths that are done."""
        done = sum(self._sizes[: self._done]) * _PERMILLE
        if self._done < len(self._sizes):
            done += self._sizes[self._done] * self.written.permille
        return done // max(sum(self._sizes), 1)

    def next_file(self) -> None:
        """Count the present file as done."""
        self._done += 1
        self.written = WriteProgress()


@click.command(
    cls=Command,
    examples=(
        "prover keys prepare --keys-dir proving-keys/",
        "prover keys prepare --run-mode forester",
        "prover keys prepare --circuit v2_inclusion_32_1 --prepared-dir /fast-disk/prepared",
        "prover keys prepare --table-memory 64",
        "prover keys prepare --no-fold",
        "prover keys prepare --fold --device cuda proving-keys/batch_append_32_500.key",
        "prover keys prepare proving-keys/batch_update_32_10.key",
    ),
)
@click.argument("files", nargs=-1, type=EXISTING_FILE)
@keys_dir_option
@circuit_option()
@run_mode_option()
@set_option()
@prepared_dir_option
@click.option(
    "--table-memory",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="MIB",
    help="Room per key for precomputed tables, which make proofs faster; 0 makes none.",
)
@click.option(
    "--fold/--no-fold",
    default=None,
    help="Fold the quotient's bases, which makes proofs faster: all keys, or none; by default those for which it takes "
    "seconds to minutes, batches of 10 among them.",
)
@click.option("--force", is_flag=True, help="Make prepared keys anew that are there and valid.")
@threads_option
@key_device_options
def prepare(
    files: tuple[Path, ...],
    keys_dir: Path,
    circuits: tuple[str, ...],
    run_mode: str | None,
    key_set: str,
    prepared_dir: Path | None,
    table_memory: int,
    fold: bool | None,
    force: bool,
    threads: int,
    **options: Any,
) -> None:
    """Write keys in their prepared form, which `prover start` maps in milliseconds.

    Prepares FILES, or the keys of the keys directory that the options select, all by default. A prepared key is about
    as large as its source, serves processors of one kind, and is shared by all processes that use it. The prover makes
    missing ones itself after their first use; this makes them ahead. One key is in memory at a time.

    With --table-memory prepared keys get tables of precomputed bases, the best that fit. The file grows by that much,
    and so does the memory that the provers share. A prepared key with smaller tables than asked for is made anew,
    --force makes them smaller too.

    The bases of the quotient are folded, so that each proof takes less work: about an eighth less for circuits that
    fill their domain in part (non-inclusion, combined, batches), little for inclusion. On two processors that takes 2
    to 12 seconds for the usual small keys, 2 to 5 minutes for batches of 10, and for those of 500 most of an hour and
    more. So keys that take at most 32 million multiplications of points are folded, batches of 10 among them, and
    larger ones are named and stay plain, as does one for which memory or disk have no room. --fold folds all, and
    --no-fold none, which takes seconds. A key is written plain first: a prover that starts meanwhile has that. A
    prepared key that is there and plain gets folded, too; a folded one stays so until --force --no-fold.

    With --device a GPU multiplies the points, with the same result. When the GPU fails, auto lets the processor do it.

    Keys that are done stay done when this is stopped, and the next run goes on with folding where it was half a minute
    before: a hidden file beside the prepared key holds that, 2 GB for append 500. On a GPU, or where the disk has no
    room for it, folding starts again.
    """
    settings = DeviceSettings() if fold is False else device_settings_of(options)  # a GPU only folds
    selection = selection_from(run_mode, circuits, key_set)
    if files and selection.is_restricted:
        raise click.UsageError("give FILES, or --circuit and --run-mode, not both")
    wanted: dict[Path, CircuitId | None] = dict.fromkeys(files) if files else _selected(keys_dir, selection)
    counter = _Progress(list(wanted))
    plain: dict[Path, str] = {}

    def work(cancel: CancelFlag) -> int:
        made = 0
        with KeyDevice(settings) as key_device, Engine(threads) as engine:

            def make(path: Path, circuit: CircuitId | None, device: Device | None) -> folding.Outcome:
                return folding.prepare(
                    engine,
                    path,
                    prepared_dir or path.parent / prepared.FOLDER,
                    check=partial(_check, circuit, path),
                    table_bytes=table_memory * _MEBIBYTE,
                    fold=fold,
                    force=force,
                    progress=counter.written,
                    cancel=cancel,
                    device=device,
                )

            for path, circuit in wanted.items():
                outcome = key_device.run(partial(make, path, circuit))
                made += outcome.made
                if outcome.plain_because is not None:
                    plain[path] = outcome.plain_because
                counter.next_file()
        return made

    with meter("preparing keys", lambda: counter.permille):
        made = run_cancellable(work)
    click.echo(f"{made} keys prepared, {len(wanted) - made} were there")
    for path, reason in plain.items():
        click.echo(f"{path} is not folded: {reason}", err=True)
    for folder in sorted({prepared_dir or path.parent / prepared.FOLDER for path in wanted}):
        _name_remains(folder)


def _name_remains(folder: Path) -> None:
    for file in fold_checkpoint.remains(folder):
        click.echo(
            f"{file} is what a folding left that was stopped: `prover keys prepare --fold` of its key goes on with it; "
            "delete it if there will be none",
            err=True,
        )


def _selected(keys_dir: Path, selection: CircuitSelection) -> dict[Path, CircuitId | None]:
    installed = installed_keys(keys_dir)
    chosen = smallest_first(circuit for circuit in installed if selection.includes(circuit))
    if not chosen:
        raise SettingsInvalid(f"{keys_dir} has none of these keys; {MISSING_REMEDY}")
    return {installed[circuit]: circuit for circuit in chosen}


def _check(circuit: CircuitId | None, path: Path, key: LoadedKey) -> None:
    """Of a key that was found by its name, check that it holds what that says."""
    if circuit is not None:
        check_name(key, circuit, path)
