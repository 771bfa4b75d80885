"""Circuit identities and the circuits that they name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prover.circuits.batch_address_append import batch_address_append
from prover.circuits.batch_append import batch_append
from prover.circuits.batch_update import batch_update
from prover.circuits.combined import combined
from prover.circuits.frontend.compiled import CompiledCircuit
from prover.circuits.frontend.gnark_release import GNARK_014, GnarkRelease
from prover.circuits.frontend.system import ConstraintSystem, Expression
from prover.circuits.inclusion import inclusion
from prover.circuits.non_inclusion import non_inclusion
from shared.requests.circuit_id import CircuitId, CircuitKind
from shared.requests.circuit_inputs import NamedValues, inputs_of

MAXIMUM_HEIGHT: Final = 253
"""Maximum tree height: an index must have exactly one representation below r."""

MAXIMUM_CONSTRAINTS: Final = 1 << 26
"""Maximum constraints of a circuit; larger systems exceed the memory of known machines."""

_CONSTRAINTS_PER_LEVEL: Final = 243
"""Constraints of a hash, two choices and a bit."""


class CircuitTooLarge(ValueError):
    """A circuit has more constraints than can be compiled."""


class CircuitSizeInvalid(ValueError):
    """A circuit has a size or height that no circuit can have."""


def compile_circuit(
    circuit: CircuitId,
    release: GnarkRelease = GNARK_014,
    *,
    repeat: bool = True,
    checkpoint: Callable[[], None] | None = None,
) -> CompiledCircuit:
    """Return the constraint system of a circuit, as the given release of the reference compiler makes it.

    ``checkpoint`` is called at every gadget and may raise to stop the work. Raises CircuitSizeInvalid and
    CircuitTooLarge. Batch append 32/500 needs seconds and about 3 GiB.
    """
    check_size(circuit)
    system = ConstraintSystem(release, repeat=repeat, checkpoint=checkpoint)
    _define(circuit, system)
    return CompiledCircuit.of(system)


def check_size(circuit: CircuitId) -> None:
    """Raise CircuitSizeInvalid or CircuitTooLarge unless the circuit can be compiled."""
    for height in circuit.heights:
        if not 1 <= height <= MAXIMUM_HEIGHT:
            raise CircuitSizeInvalid(f"{circuit}: a tree has 1 to {MAXIMUM_HEIGHT} levels, not {height}")
    if any(size < 1 for size in circuit.sizes):
        raise CircuitSizeInvalid(f"{circuit}: sizes are at least 1")
    if circuit.version not in (1, 2) or (circuit.version == 1 and circuit.kind.is_batch):
        raise CircuitSizeInvalid(f"{circuit}: there is no version {circuit.version} of this circuit")
    paths = {CircuitKind.BATCH_APPEND: 2, CircuitKind.BATCH_UPDATE: 2, CircuitKind.BATCH_ADDRESS_APPEND: 4}
    levels = sum(height * size for height, size in zip(circuit.heights, circuit.sizes, strict=True))
    estimate = levels * paths.get(circuit.kind, 1) * _CONSTRAINTS_PER_LEVEL
    if estimate > MAXIMUM_CONSTRAINTS:
        raise CircuitTooLarge(f"{circuit} has about {estimate} constraints; at most {MAXIMUM_CONSTRAINTS} are compiled")


_DEFINITIONS: Final = {
    CircuitKind.INCLUSION: inclusion,
    CircuitKind.NON_INCLUSION: non_inclusion,
    CircuitKind.COMBINED: combined,
    CircuitKind.BATCH_APPEND: batch_append,
    CircuitKind.BATCH_UPDATE: batch_update,
    CircuitKind.BATCH_ADDRESS_APPEND: batch_address_append,
}


def _define(circuit: CircuitId, system: ConstraintSystem) -> None:
    """Define a circuit in an empty system."""
    wires: list[Expression] = []
    for each in inputs_of(circuit.kind, circuit.version):
        names = system.public_names if each.is_public else system.secret_names
        wires += [system.declare(names, name) for name in each.wire_names(circuit)]
    _DEFINITIONS[circuit.kind](system, NamedValues(circuit, wires))
