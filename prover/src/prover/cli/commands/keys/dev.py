"""``prover keys dev``: locally made keys of a run mode."""

from pathlib import Path

import click

from prover.cli.compiling import made_key
from prover.cli.options.files import threads_option
from prover.cli.work import load_key, progress, run_cancellable
from prover.errors import KeyUnavailable, SettingsInvalid
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine
from prover.keys.catalogue.run_modes import RunMode, circuits_of
from prover.keys.files.atomic_file import explained
from prover.keys.files.key_description import circuit_of
from prover.keys.files.provenance import MANIFEST, KeyRecord, read_manifest, record_of, write_manifest
from prover.keys.setup.trusted_setup import Outputs
from shared.process.command_line import Command
from shared.process.logs import get_logger
from shared.requests.circuit_id import CircuitId

_log = get_logger(__name__)


@click.command(
    cls=Command,
    examples=(
        "prover keys dev --run-mode local-rpc --keys-dir keys-cache/development",
        "prover start --keys-dir keys-cache/development",
    ),
)
@click.option(
    "--run-mode",
    "--mode",
    "mode",
    type=click.Choice([mode.value for mode in RunMode]),
    default=RunMode.LOCAL_RPC.value,
    show_default=True,
    help="Run mode whose keys to make; forester and full include batches of 500, several GB each.",
)
@click.option(
    "--keys-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("proving-keys"),
    show_default=True,
    metavar="DIR",
    help="Directory of the keys; created if missing.",
)
@threads_option
def dev(mode: str, keys_dir: Path, threads: int) -> None:
    """Make the keys of a run mode, for development and tests only.

    Writes each key with its verifying key as text (.vkey). manifest.json lists name, size, SHA-256 and circuit of all.
    Valid keys stay, and a stopped run resumes with the first missing key. Keys from elsewhere are checked, but neither
    changed nor listed.
    """
    with explained(keys_dir):
        keys_dir.mkdir(parents=True, exist_ok=True)
    manifest = read_manifest(keys_dir)
    circuits = circuits_of(RunMode(mode))
    made = 0
    with Engine(threads) as engine:
        for number, circuit in enumerate(circuits, start=1):
            path = keys_dir / circuit.key_file
            record = _record_in_place(path, circuit)
            if record is None and path.exists() and path.name not in manifest:
                _require_usable(engine, path, circuit)
                continue
            if record is None:
                record = made_key(engine, circuit, Outputs(path, path.with_suffix(".vkey"), force=True))
                made += 1
                _log.info("key_created", circuit=circuit.name, number=number, of=len(circuits))
            if manifest.get(path.name) != record:
                manifest[path.name] = record
                run_cancellable(lambda _: write_manifest(keys_dir, manifest))
    click.echo(f"{made} keys made, {len(circuits) - made} already present; {keys_dir / MANIFEST}")


def _record_in_place(path: Path, circuit: CircuitId) -> KeyRecord | None:
    """Return the record of a key that was made here and is unchanged."""
    with progress(f"checking {path.name}"):
        record = run_cancellable(lambda cancel: record_of(path, cancel.check))
    return record if record is not None and record.circuit == circuit.name else None


def _require_usable(engine: Engine, path: Path, circuit: CircuitId) -> None:
    """Raise SettingsInvalid unless a key from elsewhere proves the circuit that its name claims."""
    remedy = "it was not made here; remove it or choose another --keys-dir"
    try:
        held = run_cancellable(lambda cancel: _circuit_in(engine, path, cancel))
    except KeyUnavailable as error:
        raise SettingsInvalid(f"{error.detail}; {remedy}") from error
    if held != circuit:
        raise SettingsInvalid(f"{path} holds {held or 'an unknown circuit'}, not {circuit}; {remedy}")


def _circuit_in(engine: Engine, path: Path, cancel: CancelFlag) -> CircuitId | None:
    with load_key(engine, path, cancel) as key:
        return circuit_of(key.info)
