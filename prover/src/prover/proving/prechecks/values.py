"""The inputs of a circuit read back in the order of its declarations, and what its range checks mean for them."""

from collections.abc import Sequence

from prover.circuits.widths import ADDRESS_BITS
from shared.field import FIELD_BYTES, SCALAR_MODULUS


class InputReader:
    """Reads an input vector from the front: public inputs, then secret ones, 32 bytes each."""

    def __init__(self, inputs: bytes) -> None:
        self._inputs = inputs
        self._place = 0

    def scalar(self) -> bytes:
        """Read one input."""
        return self.vector(1)[0]

    def vector(self, size: int) -> list[bytes]:
        """Read ``size`` inputs."""
        start, self._place = self._place, self._place + size * FIELD_BYTES
        return [self._inputs[place : place + FIELD_BYTES] for place in range(start, self._place, FIELD_BYTES)]

    def matrix(self, rows: int, columns: int) -> list[list[bytes]]:
        """Read ``rows`` times ``columns`` inputs, row by row."""
        return [self.vector(columns) for _ in range(rows)]


def numbers(elements: Sequence[bytes]) -> list[int]:
    """Field elements as integers."""
    return [int.from_bytes(element, "big") for element in elements]


def is_less(low: bytes, high: bytes) -> bool:
    """Return whether the comparison gadget accepts two values: (high - low) mod r is in [1, 2^248]."""
    gap = (int.from_bytes(high, "big") - int.from_bytes(low, "big")) % SCALAR_MODULUS
    return 1 <= gap <= 1 << ADDRESS_BITS
