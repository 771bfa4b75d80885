"""Compilation of circuits to encoded constraint systems."""

import dataclasses
import mmap
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from prover.circuits.catalogue import compile_circuit
from prover.circuits.frontend.compiled import CompiledCircuit
from prover.circuits.frontend.gnark_release import GNARK_014, GNARK_RELEASES, GnarkRelease
from prover.circuits.output.constraint_system import write_constraint_system
from prover.cli.options.circuit import LATEST_GENERATION
from prover.cli.work import progress
from prover.kernel.cancellation import CancelFlag
from prover.keys.files.atomic_file import explained
from shared.circuit_id import CircuitId


@dataclass(frozen=True)
class SystemBytes:
    """A constraint system as the kernel's setup reads it and, if requested, as gnark 0.8 encodes it."""

    for_setup: mmap.mmap
    earlier: mmap.mmap | None


@contextmanager
def compiled_system(
    circuit: CircuitId, folder: Path, cancel: CancelFlag, release: str = LATEST_GENERATION
) -> Iterator[SystemBytes]:
    """Yield the constraint system of a circuit, in unnamed files of ``folder``.

    Batches of 500 have gigabytes of it, which a file keeps out of the way. Raises SettingsInvalid when the
    folder has no room, and Cancelled.
    """
    with explained(folder), ExitStack() as stack:
        file = stack.enter_context(tempfile.TemporaryFile(dir=folder))
        earlier_file = None if release == LATEST_GENERATION else stack.enter_context(tempfile.TemporaryFile(dir=folder))
        with progress(f"compiling {circuit.name}"):
            compiled = compile_circuit(circuit, GNARK_RELEASES[release], checkpoint=cancel.check)
            if earlier_file is not None:
                write_constraint_system(compiled, earlier_file)
                cancel.check()
                compiled = _with_hints_of(GNARK_014, compiled)
            write_constraint_system(compiled, file)
            cancel.check()
            del compiled  # frees gigabytes
        yield SystemBytes(_mapped(stack, file), None if earlier_file is None else _mapped(stack, earlier_file))


def _with_hints_of(release: GnarkRelease, circuit: CompiledCircuit) -> CompiledCircuit:
    """Return the same constraints and wires, with hints under the names of another gnark release."""
    old, new = circuit.release, release
    names = {old.bits.id: new.bits.id, old.inverse_or_zero.id: new.inverse_or_zero.id}
    words = circuit.words.copy()
    positions = circuit.starts[circuit.is_hint].astype(np.intp) + 1
    words[positions] = [names[number] for number in words[positions].tolist()]
    return dataclasses.replace(circuit, release=release, words=words)


def _mapped(stack: ExitStack, file: BinaryIO) -> mmap.mmap:
    file.flush()
    return stack.enter_context(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
