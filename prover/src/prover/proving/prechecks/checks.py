"""Values of circuit inputs, their comparison, and the checks that they failed."""

from typing import NamedTuple

from prover.circuits.widths import ADDRESS_BITS
from shared.circuit_id import CircuitId
from shared.circuit_inputs import NamedValues, inputs_of
from shared.field import FIELD_BYTES, SCALAR_MODULUS


class Failure(NamedTuple):
    """The JSON path of an invalid member of a request, and the reason."""

    path: str
    reason: str


class Checks:
    """Checks of a request's input values. The order in which they are made does not matter."""

    def __init__(self, circuit: CircuitId, inputs: bytes) -> None:
        elements = [inputs[start : start + FIELD_BYTES] for start in range(0, len(inputs), FIELD_BYTES)]
        self.inputs = NamedValues(circuit, elements)
        self._order = inputs_of(circuit.kind, circuit.version)
        self._failures: list[tuple[int, tuple[int, ...], str]] = []

    def require(self, name: str, *row: int, holds: bool, reason: str) -> None:
        """Record a failure of the named input, or of a row of it, unless the check ``holds``."""
        if not holds:
            position = next(number for number, each in enumerate(self._order) if each.name == name)
            self._failures.append((position, row, reason))

    @property
    def first_failure(self) -> Failure | None:
        """The failure of the first input in their order, None if all checks hold."""
        if not self._failures:
            return None
        position, row, reason = min(self._failures)
        return Failure(self._order[position].path(*row), reason)


def number(element: bytes) -> int:
    """Return a field element as an integer."""
    return int.from_bytes(element, "big")


def is_less(low: bytes, high: bytes) -> bool:
    """Return True if the comparison gadget accepts two values: (high - low) mod r is in [1, 2^248]."""
    return 1 <= (number(high) - number(low)) % SCALAR_MODULUS <= 1 << ADDRESS_BITS
