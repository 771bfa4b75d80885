"""Refusal of requests that no witness can satisfy, without their keys.

The cost is a few hashes per path: prover/docs/explanation/prechecks.md, "Batches".
"""

from typing import Final

from prover.errors import WitnessRejected
from prover.proving.assignment import Assignment
from prover.proving.prechecks.batches import check_address_append, check_append, check_update
from prover.proving.prechecks.checks import Checks, Failure
from prover.proving.prechecks.membership import check_combined, check_inclusion, check_non_inclusion
from prover.proving.request import ProofTask
from shared.requests.circuit_id import CircuitId, CircuitKind

_CHECKS: Final = {
    CircuitKind.INCLUSION: check_inclusion,
    CircuitKind.NON_INCLUSION: check_non_inclusion,
    CircuitKind.COMBINED: check_combined,
    CircuitKind.BATCH_APPEND: check_append,
    CircuitKind.BATCH_UPDATE: check_update,
    CircuitKind.BATCH_ADDRESS_APPEND: check_address_append,
}


def require_satisfiable(task: ProofTask) -> None:
    """Return if the inputs of a task satisfy its circuit. Raises WitnessRejected with the path of an invalid member."""
    failure = first_failure(task.circuit, task.assignment)
    if failure is None:
        return
    prefix = "error proving: " if task.circuit.kind.is_batch else ""
    reason = f"constraint system error: a constraint is not satisfied: {failure.reason}"
    raise WitnessRejected(f"{prefix}{reason} at {failure.path}", path=failure.path)


def first_failure(circuit: CircuitId, assignment: Assignment) -> Failure | None:
    """Return the failure of the first invalid input in their order, None if all are valid."""
    checks = Checks(circuit, assignment.inputs)
    _CHECKS[circuit.kind](checks)
    return checks.first_failure
