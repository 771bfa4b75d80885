"""Proofs as instructions carry them: 128 bytes, a ‖ b ‖ c, with ``a`` negated; no I/O.

Source: forester/docs/reference/programs.md, "Proof encoding". A point is its x coordinate with a flag in the first byte
for the greater y. Points that are not on their curves are refused here, before a transaction is paid for them.
"""

from dataclasses import dataclass

from shared.requests.proof_wire import ProofJson
from shared.trees.field import BASE_MODULUS, FIELD_BYTES, InvalidNumber, parse_coordinate

_LARGEST_LOWER_Y = (BASE_MODULUS - 1) // 2
_GREATER_Y = 0x80
# The twist has y² = x³ + 3 / (9 + u); 1 / (9 + u) = (9 - u) / 82.
_TWIST = (27 * pow(82, -1, BASE_MODULUS) % BASE_MODULUS, -3 * pow(82, -1, BASE_MODULUS) % BASE_MODULUS)


class ProofUnusable(ValueError):
    """A proof has an element that is not a point of its curve; ``field`` is the JSON path of the point."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field} of the proof {reason}")
        self.field = field


@dataclass(frozen=True)
class CompressedProof:
    """A proof as the programs accept it."""

    a: bytes
    b: bytes
    c: bytes

    @property
    def data(self) -> bytes:
        """All 128 bytes."""
        return self.a + self.b + self.c


def compress_proof(proof: ProofJson) -> CompressedProof:
    """Compress a proof; ProofUnusable names the invalid point."""
    x, y = _g1(proof.ar, "$.ar")
    # Negation turns the greater y into the lower one.
    a = _flagged(_bytes(x), greater=y <= _LARGEST_LOWER_Y)
    x, y = _g1(proof.krs, "$.krs")
    c = _flagged(_bytes(x), greater=y > _LARGEST_LOWER_Y)
    (x1, x0), (y1, y0) = _g2(proof.bs)
    greater = y1 > _LARGEST_LOWER_Y or (y1 == 0 and y0 > _LARGEST_LOWER_Y)
    return CompressedProof(a, _flagged(_bytes(x1) + _bytes(x0), greater=greater), c)


def _g1(point: tuple[str, str], field: str) -> tuple[int, int]:
    x, y = (_coordinate(text, f"{field}[{index}]") for index, text in enumerate(point))
    if (y * y - x * x * x - 3) % BASE_MODULUS:
        raise ProofUnusable(field, "is not a point of G1")
    return x, y


def _g2(point: tuple[tuple[str, str], tuple[str, str]]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the coordinates of a point of the twist, imaginary parts first as on the wire."""
    (x1, x0), (y1, y0) = (
        tuple(_coordinate(text, f"$.bs[{row}][{index}]") for index, text in enumerate(pair))
        for row, pair in enumerate(point)
    )
    square = (x0 * x0 - x1 * x1, 2 * x0 * x1)
    cube = (square[0] * x0 - square[1] * x1, square[0] * x1 + square[1] * x0)
    left = (y0 * y0 - y1 * y1, 2 * y0 * y1)
    if any((left[part] - cube[part] - _TWIST[part]) % BASE_MODULUS for part in (0, 1)):
        raise ProofUnusable("$.bs", "is not a point of the twist of G2")
    return (x1, x0), (y1, y0)


def _coordinate(text: str, field: str) -> int:
    try:
        return int.from_bytes(parse_coordinate(text), "big")
    except InvalidNumber:
        raise ProofUnusable(field, "is not a coordinate below the modulus") from None


def _bytes(value: int) -> bytes:
    return value.to_bytes(FIELD_BYTES, "big")


def _flagged(data: bytes, *, greater: bool) -> bytes:
    return bytes([data[0] | (_GREATER_Y if greater else 0)]) + data[1:]
