"""``prover keys prepare``: keys in the format that a prover maps."""

from functools import partial
from pathlib import Path

import click

from prover.cli.meter import meter
from prover.cli.options.files import EXISTING_FILE, threads_option
from prover.cli.options.keys import (
    circuit_option,
    keys_dir_option,
    prepared_dir_option,
    run_mode_option,
    selection_from,
    set_option,
)
from prover.cli.work import run_cancellable
from prover.errors import SettingsInvalid
from prover.kernel.cancellation import CancelFlag, Progress
from prover.kernel.engine import Engine, LoadedKey
from prover.keys.catalogue.circuits import smallest_first
from prover.keys.catalogue.selection import CircuitSelection
from prover.keys.files.key_folder import MISSING_REMEDY, check_name, installed_keys, require_folder
from prover.keys.prepared import fold_checkpoint, folding, prepared_keys
from shared.process.command_line import Command
from shared.requests.circuit_id import CircuitId

_PERMILLE = 1000
_MEBIBYTE = 2**20


class _Progress:
    """Progress over several files by their sizes, including the written part of the current one."""

    def __init__(self, files: list[Path]) -> None:
        self._sizes = [path.stat().st_size for path in files]
        self._done = 0
        self.written = Progress()

    @property
    def permille(self) -> int:
        """Return the progress in thousandths."""
        done = sum(self._sizes[: self._done]) * _PERMILLE
        if self._done < len(self._sizes):
            done += self._sizes[self._done] * self.written.permille
        return done // max(sum(self._sizes), 1)

    def next_file(self) -> None:
        """Count the current file as done."""
        self._done += 1
        self.written = Progress()


@click.command(
    cls=Command,
    examples=(
        "prover keys prepare --keys-dir proving-keys/",
        "prover keys prepare --run-mode forester",
        "prover keys prepare --circuit v2_inclusion_32_1 --prepared-dir /fast-disk/prepared",
        "prover keys prepare --table-memory 64",
        "prover keys prepare --no-fold",
        "prover keys prepare --fold proving-keys/batch_append_32_500.key",
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
    metavar="MIB",
    help="Maximum MiB per key for precomputed tables, which make proofs faster; 0 means no tables. Default: 11 for "
    "circuits of at most 18,959 constraints, 0 for others.",
)
@click.option(
    "--fold/--no-fold",
    default=None,
    help="Fold the quotient's bases of all keys, or of none; folding makes proofs faster. Default: keys that take "
    "seconds to minutes, batches of 10 included.",
)
@click.option("--force", is_flag=True, help="Replace valid prepared keys.")
@threads_option
def prepare(
    files: tuple[Path, ...],
    keys_dir: Path,
    circuits: tuple[str, ...],
    run_mode: str | None,
    key_set: str,
    prepared_dir: Path | None,
    table_memory: int | None,
    fold: bool | None,
    force: bool,
    threads: int,
) -> None:
    """Write prepared keys, which `prover start` loads in milliseconds.

    Prepares FILES, or the keys of the keys directory that the options select (default: all). A prepared key is about as
    large as its source and serves one kind of CPU. All processes that use it share its memory. A prover prepares
    missing keys itself after their first use; this command does it in advance, with one key in memory at a time.

    Tables of precomputed bases make proofs 4 to 12 percent faster. The best ones that fit into --table-memory are made,
    and none where the CPU would gain nothing. The file grows by that much, and so does the memory that the provers
    share. By default keys of small circuits get tables of at most 11 MiB. A prepared key with smaller tables is
    replaced; --force also makes tables smaller.

    Folding the bases of the quotient saves about an eighth of the work of each proof for circuits that fill their
    domain in part (non-inclusion, combined, batches), and little for inclusion. On two CPUs with AVX2 it takes 2 to 12
    seconds for the usual small keys and 2 to 5 minutes for batches of 10; append 500 took 10 minutes on two CPUs of a
    Zen 5. By default keys that take at most 32 million multiplications of points are folded, which includes batches of
    10. Larger keys, and keys for which memory or disk have no room, stay plain and are named. --fold folds all keys,
    --no-fold none. The plain key is written first, so a prover that starts meanwhile can use it. A plain
    prepared key is folded later; a folded one stays folded until --force --no-fold.

    Prepared keys stay when this command is stopped, and the next run resumes folding at most half a minute earlier: a
    hidden file next to the prepared key is the checkpoint, 2 GB for append 500. Where the disk has no room for it,
    folding starts again.
    """
    selection = selection_from(run_mode, circuits, key_set)
    if files and selection.is_restricted:
        raise click.UsageError("FILES exclude --circuit and --run-mode; use only one way of selecting keys")
    wanted: dict[Path, CircuitId | None] = dict.fromkeys(files) if files else _selected(keys_dir, selection)
    counter = _Progress(list(wanted))
    plain: dict[Path, str] = {}

    def work(cancel: CancelFlag) -> int:
        made = 0
        with Engine(threads) as engine:
            for path, circuit in wanted.items():
                outcome = folding.prepare(
                    engine,
                    path,
                    prepared_dir or path.parent / prepared_keys.FOLDER,
                    check=partial(_check, circuit, path),
                    table_bytes=None if table_memory is None else table_memory * _MEBIBYTE,
                    fold=fold,
                    force=force,
                    progress=counter.written,
                    cancel=cancel,
                )
                made += outcome.was_made
                if outcome.unfolded_reason is not None:
                    plain[path] = outcome.unfolded_reason
                counter.next_file()
        return made

    with meter("preparing keys", lambda: counter.permille):
        made = run_cancellable(work)
    click.echo(f"{made} keys prepared, {len(wanted) - made} already present")
    for path, reason in plain.items():
        click.echo(f"{path} is not folded: {reason}", err=True)
    for folder in sorted({prepared_dir or path.parent / prepared_keys.FOLDER for path in wanted}):
        _report_abandoned_checkpoints(folder)


def _report_abandoned_checkpoints(folder: Path) -> None:
    for file in fold_checkpoint.abandoned_checkpoints(folder):
        click.echo(
            f"{file} is the checkpoint of a stopped folding; `prover keys prepare --fold` of its key resumes it. "
            "To abandon folding, delete the file",
            err=True,
        )


def _selected(keys_dir: Path, selection: CircuitSelection) -> dict[Path, CircuitId | None]:
    installed = installed_keys(keys_dir)
    chosen = smallest_first(circuit for circuit in installed if selection.includes(circuit))
    if not chosen:
        require_folder(keys_dir)
        raise SettingsInvalid(f"keys directory {keys_dir} has none of the selected keys; {MISSING_REMEDY}")
    return {installed[circuit]: circuit for circuit in chosen}


def _check(circuit: CircuitId | None, path: Path, key: LoadedKey) -> None:
    """Raise UnsupportedKey or MisnamedKey unless a key found by its name proves the circuit in that name."""
    if circuit is not None:
        check_name(key, circuit, path)
