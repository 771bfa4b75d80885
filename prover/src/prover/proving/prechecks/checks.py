"""Values of circuit inputs, their comparison, and the checks that they failed."""

from math import prod
from typing import NamedTuple

from prover.circuits.widths import ADDRESS_BITS
from shared.requests.circuit_id import CircuitId
from shared.requests.circuit_inputs import inputs_of, positions_of
from shared.trees.field import FIELD_BYTES, SCALAR_MODULUS


class Failure(NamedTuple):
    """The JSON path of an invalid member of a request, and the reason."""

    path: str
    reason: str


class Checks:
    """Checks of a request's input values. The order in which they are made does not matter."""

    def __init__(self, circuit: CircuitId, inputs: bytes) -> None:
        self._data = inputs
        self._places = positions_of(circuit)
        self._order = inputs_of(circuit.kind, circuit.version)
        self._failures: list[tuple[int, tuple[int, ...], str]] = []

    def __contains__(self, name: str) -> bool:
        """Return True if the circuit has an input of this name."""
        return name in self._places

    def scalar(self, name: str) -> bytes:
        """Return the value of a scalar."""
        start, () = self._places[name]
        return self._element(start)

    def vector(self, name: str) -> list[bytes]:
        """Return the elements of a vector."""
        start, (size,) = self._places[name]
        return list(map(self._element, range(start, start + size)))

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the number of elements in each dimension."""
        return self._places[name][1]

    def numbers(self, name: str) -> list[int]:
        """Return the elements of a vector as integers."""
        return list(map(number, self.vector(name)))

    def data(self, name: str) -> memoryview:
        """Return all elements, one after the other, without a copy."""
        start, shape = self._places[name]
        return memoryview(self._data)[start * FIELD_BYTES : (start + prod(shape)) * FIELD_BYTES]

    def rows(self, name: str) -> list[bytes]:
        """Return the rows of a matrix, their elements one after the other."""
        data, (rows, columns) = bytes(self.data(name)), self.shape(name)
        size = columns * FIELD_BYTES
        return [data[row * size : (row + 1) * size] for row in range(rows)]

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

    def _element(self, place: int) -> bytes:
        return self._data[place * FIELD_BYTES : (place + 1) * FIELD_BYTES]


def number(element: bytes) -> int:
    """Return a field element as an integer."""
    return int.from_bytes(element, "big")


def split(elements: bytes) -> list[bytes]:
    """Return elements one by one."""
    return [elements[start : start + FIELD_BYTES] for start in range(0, len(elements), FIELD_BYTES)]


def is_less(low: int, high: int) -> bool:
    """Return True if the comparison gadget accepts two values: (high - low) mod r is in [1, 2^248]."""
    return 1 <= (high - low) % SCALAR_MODULUS <= 1 << ADDRESS_BITS
