"""Refusal of requests that no witness can satisfy, without their keys.

The cost is a few hashes per path: prover/docs/explanation/prechecks.md, "Batches".
"""

from collections.abc import Callable
from pathlib import Path

from prover.circuits.frontend.gnark_release import GNARK_014, GNARK_08, GnarkRelease
from prover.errors import KeyUnavailable, WitnessRejected
from prover.keys.files.key_description import is_gnark_08_proving_key
from prover.proving.assignment import Assignment
from prover.proving.prechecks.batches import check_address_append, check_append, check_update
from prover.proving.prechecks.constraint_counter import ConstraintCounter, Failure
from prover.proving.prechecks.membership import check_combined, check_inclusion, check_non_inclusion
from prover.proving.prechecks.values import AssignmentReader
from prover.proving.request import ProofTask
from shared.circuit_id import CircuitId, CircuitKind

_BATCH_WRAPPER_BYTES = 8
_HEADER_BYTES = 1024


def require_satisfiable(task: ProofTask, find_key: Callable[[CircuitId], Path]) -> None:
    """Return if the inputs of a task satisfy its circuit.

    Raises WitnessRejected with the number of the constraint that the witness solver would name and the JSON path of
    the invalid member. ``find_key`` returns the key file, whose gnark release shifts numbers of batch append; it may
    raise KeyUnavailable, and the current release is then assumed.
    """
    circuit = task.circuit
    failure = first_failure(circuit, task.assignment, _release_of(circuit, find_key))
    if failure is None:
        return
    reason = f"constraint system error: constraint #{failure.constraint} is not satisfied: {failure.reason}"
    prefix = "error proving: " if circuit.kind.is_batch else ""
    raise WitnessRejected(f"{prefix}{reason} at {failure.path}", constraint=failure.constraint, path=failure.path)


def first_failure(circuit: CircuitId, assignment: Assignment, release: GnarkRelease = GNARK_014) -> Failure | None:
    """Return the failing constraint that the solver names, None if all hold."""
    counter, inputs = ConstraintCounter(), AssignmentReader(assignment.inputs)
    match circuit.kind:
        case CircuitKind.INCLUSION:
            check_inclusion(counter, inputs, circuit)
        case CircuitKind.NON_INCLUSION:
            check_non_inclusion(counter, inputs, circuit)
        case CircuitKind.COMBINED:
            check_combined(counter, inputs, circuit)
        case CircuitKind.BATCH_APPEND:
            check_append(counter, inputs, circuit, release)
        case CircuitKind.BATCH_UPDATE:
            check_update(counter, inputs, circuit)
        case CircuitKind.BATCH_ADDRESS_APPEND:
            check_address_append(counter, inputs, circuit)
    return min(counter.failures, default=None)


def _release_of(circuit: CircuitId, find_key: Callable[[CircuitId], Path]) -> GnarkRelease:
    """Return the gnark release of the key of a circuit; the current one without a key, or if it does not matter."""
    if circuit.kind is not CircuitKind.BATCH_APPEND:
        return GNARK_014
    try:
        with find_key(circuit).open("rb") as file:
            start = file.read(_HEADER_BYTES)
    except (KeyUnavailable, OSError):
        return GNARK_014
    return GNARK_08 if is_gnark_08_proving_key(start[_BATCH_WRAPPER_BYTES:]) else GNARK_014
