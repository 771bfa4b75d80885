"""``prover prove``: one proof from a key file and a request on standard input."""

import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import click
from prometheus_client import CollectorRegistry

from prover.cli.command import Command
from prover.cli.device_options import device_options, device_settings_of
from prover.cli.options import key_option, threads_option
from prover.cli.work import load_key, progress, run_cancellable
from prover.errors import MisnamedKey, UnsupportedKey
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine
from prover.keys import prepared
from prover.keys.gnark_format import circuit_of
from prover.observability.metrics import Metrics
from prover.proving.admission import Admission, Turn
from prover.proving.device_choice import open_devices
from prover.proving.prechecks.satisfiable import require_satisfiable
from prover.proving.proof_making import Proof
from prover.proving.request import ProofTask, read_envelope, read_task
from prover.settings import DeviceSettings
from shared.circuit_id import CircuitId
from shared.logs import get_logger

_log = get_logger(__name__)


@click.command(
    cls=Command,
    examples=(
        "prover prove --key v2_inclusion_32_1.key < request.json > proof.json",
        'curl -s "$INDEXER/request" | prover prove --key batch_update_32_10.key',
    ),
)
@key_option
@threads_option
@device_options
def prove(key: Path, threads: int, **options: Any) -> None:
    """Prove a request.

    Reads the request (JSON, as for POST /prove) from standard input and writes the proof (JSON) to standard
    output. The proof has been verified under the key when it appears.
    """
    devices = device_settings_of(options)
    body = sys.stdin.buffer.read()
    task = read_task(body, read_envelope(body), known=None)
    require_satisfiable(task, lambda _: key)

    def work(cancel: CancelFlag) -> Proof:
        return _prove(key, threads, devices, task, cancel)

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
    folder, metrics = path.parent / prepared.FOLDER, Metrics(CollectorRegistry())
    turn = Turn(Admission(1, 0, metrics), task.circuit.kind)
    with (
        Engine(threads) as engine,
        closing(open_devices(settings, metrics)) as devices,
        load_key(engine, path, cancel, prepared_folder=folder) as key,
    ):
        _require_same(task.circuit, circuit_of(key.info), path)
        with progress(f"proving {task.circuit.name}"), devices.place(key, cancel) as place:
            return place.prove(task, cancel, turn)


def _require_same(wanted: CircuitId, held: CircuitId | None, path: Path) -> None:
    if held is None:
        raise UnsupportedKey(f"{path.name} holds a circuit that this prover does not know")
    if held != wanted:
        raise MisnamedKey(f"the request is for {wanted.name}, but {path.name} holds {held.name}")
