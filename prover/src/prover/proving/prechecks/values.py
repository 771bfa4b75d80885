"""Reading of circuit inputs in the order of their declaration, and their comparison."""

from collections.abc import Sequence

from prover.circuits.widths import ADDRESS_BITS
from shared.field import FIELD_BYTES, SCALAR_MODULUS


class AssignmentReader:
    """Reader of an input vector from its start: public inputs, then secret ones, 32 bytes each."""

    def __init__(self, inputs: bytes) -> None:
        self._inputs = inputs
        self._position = 0

    def scalar(self) -> bytes:
        """Read one input."""
        return self.vector(1)[0]

    def vector(self, size: int) -> list[bytes]:
        """Read ``size`` inputs."""
        start, self._position = self._position, self._position + size * FIELD_BYTES
        return [
            self._inputs[position : position + FIELD_BYTES] for position in range(start, self._position, FIELD_BYTES)
        ]

    def matrix(self, rows: int, columns: int) -> list[list[bytes]]:
        """Read ``rows`` times ``columns`` inputs, row by row."""
        return [self.vector(columns) for _ in range(rows)]


def numbers(elements: Sequence[bytes]) -> list[int]:
    """Return field elements as integers."""
    return [int.from_bytes(element, "big") for element in elements]


def is_less(low: bytes, high: bytes) -> bool:
    """Return True if the comparison gadget accepts two values: (high - low) mod r is in [1, 2^248]."""
    gap = (int.from_bytes(high, "big") - int.from_bytes(low, "big")) % SCALAR_MODULUS
    return 1 <= gap <= 1 << ADDRESS_BITS
