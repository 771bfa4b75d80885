"""Times of proofs on this machine."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from prover.cli.options.sizing import Demand
from prover.cli.trial_proof import trial_task
from prover.cli.work import load_key, progress, run_cancellable
from prover.errors import KeyMissing
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine
from prover.keys.files.key_folder import check_name, keys_of_folder
from prover.proving.proof_making import prove_with_key
from prover.settings import Settings
from shared.requests.circuit_id import CircuitId


def measure_proofs(settings: Settings, demands: Sequence[Demand]) -> tuple[int, dict[CircuitId, float]]:
    """Return the kernel's threads, and the seconds of a verified proof by each installed circuit of the demands.

    Raises KeyMissing for a demand without an installed key, and another ProverError for a key that does not work.
    """
    installed = keys_of_folder(settings.keys.directory).files
    for demand in demands:
        if not any(circuit in installed for circuit in demand.circuits):
            remedy = (
                f"--sizing measures a key of each kind in {settings.keys.directory}: run `prover download --circuit "
                f"{','.join(demand.names)}`, or choose another --keys-dir"
            )
            raise KeyMissing(demand.circuits[0].key_file, remedy)
    with Engine(settings.proving.threads) as engine:
        times = {
            circuit: run_cancellable(partial(_measure, engine, settings, circuit, installed[circuit]))
            for demand in demands
            for circuit in demand.circuits
            if circuit in installed
        }
        return engine.threads, times


def _measure(engine: Engine, settings: Settings, circuit: CircuitId, path: Path, cancel: CancelFlag) -> float:
    """Return the seconds of the second of two proofs; the first maps the pages of the key."""
    folder = settings.keys.prepared_folder if settings.keys.prepare else None
    with load_key(engine, path, cancel, prepared_folder=folder) as key:
        check_name(key, circuit, path)
        task = trial_task(circuit)
        with progress(f"measuring {circuit}"):
            prove_with_key(key, task, cancel)
            timings = prove_with_key(key, task, cancel).timings
    return timings.prove_s + timings.verify_s
