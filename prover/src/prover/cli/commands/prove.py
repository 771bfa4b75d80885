"""``prover prove``: one proof from a key file and a request on standard input."""

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import click
from prometheus_client import CollectorRegistry

from prover.cli.options.device import device_options, device_settings_of
from prover.cli.options.files import expected_circuit_option, is_named, key_option, threads_option
from prover.cli.options.flag_words import FlagWords
from prover.cli.standard_input import missing_body, read_body
from prover.cli.work import load_key, progress, run_cancellable
from prover.errors import MalformedRequest, MisnamedKey, UnsupportedKey
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine
from prover.keys.catalogue.run_modes import KeySet, RunMode, circuits_of
from prover.keys.files.key_description import circuit_of
from prover.keys.files.key_folder import find_key
from prover.keys.prepared import prepared_keys
from prover.observability.metrics import Metrics
from prover.proving.admission import Admission
from prover.proving.device_selection import open_devices
from prover.proving.prechecks.satisfiable import require_satisfiable
from prover.proving.proof_making import Proof
from prover.proving.request import ProofTask, read_envelope, read_task
from prover.settings import DeviceSettings
from shared.process.logs import get_logger
from shared.requests.circuit_id import CircuitId, CircuitKind

_log = get_logger(__name__)


_KIND_FLAGS = {
    CircuitKind.INCLUSION: ("--inclusion",),
    CircuitKind.NON_INCLUSION: ("--non-inclusion",),
    CircuitKind.BATCH_APPEND: ("--append",),
    CircuitKind.BATCH_UPDATE: ("--update",),
    CircuitKind.BATCH_ADDRESS_APPEND: ("--address-append", "--addressAppend"),
}


def _kind_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    for kind, spellings in reversed(_KIND_FLAGS.items()):
        text = f"Fail unless the request is for {kind}, or for the type of another such flag."
        command = click.option(*spellings, kind.name.lower(), is_flag=True, help=text)(command)
    return command


@click.command(
    cls=FlagWords,
    examples=(
        "prover prove --key v2_inclusion_32_1.key < request.json > proof.json",
        'curl -s "$INDEXER/request" | prover prove --key batch_update_32_10.key',
        "prover prove --keys-dir proving-keys/ < request.json     # with the key of the request's circuit",
    ),
)
@key_option("Proving key.", required=False)
@click.option(
    "--keys-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Directory of keys, instead of --key; the key of the request's circuit is used.",
)
@threads_option
@device_options
@expected_circuit_option("Fail unless the request is for this circuit, or for one of --run-mode.")
@click.option(
    "--run-mode",
    type=click.Choice([mode.value for mode in RunMode]),
    help="Fail unless the request is for a circuit of this role, or for one of --circuit.",
)
@_kind_flags
def prove(key: Path | None, keys_dir: Path | None, threads: int, **options: Any) -> None:
    """Prove a request.

    Reads the request (JSON, as for POST /prove) from standard input and writes the proof (JSON) to standard output,
    after verifying it with the key. The request names its circuit. Options that also name one must agree with it
    (combined: --inclusion --non-inclusion).
    """
    if (key is None) == (keys_dir is None):
        fault = "no proving key" if key is None else "two sources of the proving key"
        raise click.UsageError(f"{fault}; pass either --key FILE or --keys-dir DIR")
    devices = device_settings_of(options)
    body = read_body()
    if not body:
        raise MalformedRequest(missing_body("a request", "prover prove", "request.json"))
    task = read_task(read_envelope(body), known=None)
    _require_agreement(task.circuit, options)
    path = key or find_key(keys_dir or Path(), task.circuit)
    require_satisfiable(task)

    def work(cancel: CancelFlag) -> Proof:
        return _prove(path, threads, devices, task, cancel)

    proof = run_cancellable(work)
    click.echo(proof.body.decode())
    _log.info(
        "proof_made",
        circuit=proof.circuit.name,
        device=proof.device,
        prove_ms=round(proof.timings.prove_s * 1000, 1),
        verify_ms=round(proof.timings.verify_s * 1000, 1),
    )


def _prove(path: Path, threads: int, settings: DeviceSettings, task: ProofTask, cancel: CancelFlag) -> Proof:
    folder, metrics = path.parent / prepared_keys.FOLDER, Metrics(CollectorRegistry())
    admission = Admission(1, 0, metrics)
    with (
        Engine(threads) as engine,
        closing(open_devices(settings, metrics)) as devices,
        load_key(engine, path, cancel, prepared_folder=folder) as key,
    ):
        _require_same(task.circuit, circuit_of(key.info), path)
        with (
            progress(f"proving {task.circuit.name}"),
            devices.target(key, cancel) as target,
            admission.permit(task.circuit.kind, cancel, target.demand(task)) as permit,
        ):
            return target.prove(permit, task)


def _require_agreement(circuit: CircuitId, options: Mapping[str, Any]) -> None:
    """Raise click.UsageError that names the circuit of the request and the options that say something else."""
    kinds = {kind: spellings[0] for kind, spellings in _KIND_FLAGS.items() if options[kind.name.lower()]}
    combined = {CircuitKind.COMBINED} if kinds.keys() >= {CircuitKind.INCLUSION, CircuitKind.NON_INCLUSION} else set()
    if kinds and circuit.kind not in kinds.keys() | combined:
        raise _disagreement(circuit, " ".join(kinds.values()))
    names: tuple[str, ...] = options["circuits"]
    mode = RunMode(options["run_mode"]) if options["run_mode"] else None
    if not names and mode is None:
        return
    if any(is_named(circuit, name) for name in names):
        return
    if mode is not None and any(circuit in circuits_of(mode, key_set) for key_set in KeySet):
        return
    words = [f"--circuit {','.join(names)}"] if names else []
    raise _disagreement(circuit, " ".join([*words, f"--run-mode {mode}"] if mode else words))


def _disagreement(circuit: CircuitId, words: str) -> click.UsageError:
    return click.UsageError(f"the request is for {circuit.name}, which {words} excludes; remove or correct the option")


def _require_same(wanted: CircuitId, held: CircuitId | None, path: Path) -> None:
    if held is None:
        raise UnsupportedKey(f"{path.name} holds a circuit that this prover does not know")
    if held != wanted:
        raise MisnamedKey(f"the request is for {wanted.name}, but {path.name} holds {held.name}")
