"""Compilation of circuits to encoded constraint systems, and setups of keys from them."""

import mmap
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prover.circuits.catalogue import compile_circuit
from prover.circuits.output.gnark_014 import write_constraint_system
from prover.cli.meter import meter
from prover.cli.work import progress, run_cancellable
from prover.kernel.cancellation import CancelFlag, Progress
from prover.kernel.engine import Engine
from prover.keys.files.atomic_file import explained
from prover.keys.files.provenance import KeyRecord
from prover.keys.setup.trusted_setup import Outputs, make_key
from shared.requests.circuit_id import CircuitId


@contextmanager
def compiled_system(circuit: CircuitId, folder: Path, cancel: CancelFlag) -> Iterator[mmap.mmap]:
    """Yield the constraint system of a circuit, in an unnamed file of ``folder``.

    Batches of 500 have gigabytes of it, which a file keeps out of the way. Raises SettingsInvalid when the
    folder has no room, and Cancelled.
    """
    with explained(folder), tempfile.TemporaryFile(dir=folder) as file:
        with progress(f"compiling {circuit.name}"):
            write_constraint_system(compile_circuit(circuit, checkpoint=cancel.check), file)
            cancel.check()
        file.flush()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as system:
            yield system


def made_key(engine: Engine, circuit: CircuitId, outputs: Outputs, seed: str | None = None) -> KeyRecord:
    """Compile a circuit and run its setup, with progress, until done or stopped by a signal. Raises as make_key."""
    counter = Progress()

    def work(cancel: CancelFlag) -> KeyRecord:
        with (
            compiled_system(circuit, outputs.key.parent, cancel) as system,
            meter(f"setup of {circuit.name}", lambda: counter.permille),
        ):
            return make_key(engine, circuit, system, outputs, seed=seed, progress=counter, cancel=cancel)

    return run_cancellable(work)
