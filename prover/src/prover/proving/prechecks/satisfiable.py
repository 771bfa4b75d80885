"""Refusing a request that no witness can satisfy, without its key.

The cost is a few hashes per path: prover/docs/explanation/prechecks.md, "Batches".
"""

from collections.abc import Callable
from pathlib import Path

from prover.circuits.frontend.generation import GENERATION_014, GENERATION_08, Generation
from prover.errors import KeyUnavailable, WitnessRejected
from prover.keys.files.key_description import is_earlier_proving_key
from prover.proving.assignment import Assignment
from prover.proving.prechecks.batches import check_address_append, check_append, check_update
from prover.proving.prechecks.membership import check_combined, check_inclusion, check_non_inclusion
from prover.proving.prechecks.values import InputReader
from prover.proving.prechecks.walk import Failure, Walk
from prover.proving.request import ProofTask
from shared.circuit_id import CircuitId, CircuitKind

_BATCH_WRAPPER_BYTES = 8
_TOLD_BY_BYTES = 1024


def require_satisfiable(task: ProofTask, find_key: Callable[[CircuitId], Path]) -> None:
    """Return if the inputs of a task satisfy its circuit.

    Raises WitnessRejected with the number of the constraint that the witness solver would name and the JSON path of
    the member to blame. The generation of the key, which moves numbers of batch append, is looked up by ``find_key``;
    that may raise KeyUnavailable.
    """
    circuit = task.circuit
    failure = first_failure(circuit, task.assignment, _generation(circuit, find_key))
    if failure is None:
        return
    reason = f"constraint system error: constraint #{failure.constraint} is not satisfied: {failure.reason}"
    prefix = "error proving: " if circuit.kind.is_batch else ""
    raise WitnessRejected(f"{prefix}{reason} at {failure.path}", constraint=failure.constraint, path=failure.path)


def first_failure(
    circuit: CircuitId, assignment: Assignment, generation: Generation = GENERATION_014
) -> Failure | None:
    """The failing constraint that the solver names, None if all hold."""
    walk, inputs = Walk(), InputReader(assignment.inputs)
    match circuit.kind:
        case CircuitKind.INCLUSION:
            check_inclusion(walk, inputs, circuit)
        case CircuitKind.NON_INCLUSION:
            check_non_inclusion(walk, inputs, circuit)
        case CircuitKind.COMBINED:
            check_combined(walk, inputs, circuit)
        case CircuitKind.BATCH_APPEND:
            check_append(walk, inputs, circuit, generation)
        case CircuitKind.BATCH_UPDATE:
            check_update(walk, inputs, circuit)
        case CircuitKind.BATCH_ADDRESS_APPEND:
            check_address_append(walk, inputs, circuit)
    return min(walk.failures, default=None)


def _generation(circuit: CircuitId, find_key: Callable[[CircuitId], Path]) -> Generation:
    """The generation of the key of a circuit as far as it matters here; the current one for a key that is not there."""
    if circuit.kind is not CircuitKind.BATCH_APPEND:
        return GENERATION_014
    try:
        with find_key(circuit).open("rb") as file:
            start = file.read(_TOLD_BY_BYTES)
    except (KeyUnavailable, OSError):
        return GENERATION_014
    return GENERATION_08 if is_earlier_proving_key(start[_BATCH_WRAPPER_BYTES:]) else GENERATION_014
