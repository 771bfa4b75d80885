"""Proofs of the prover as the 128 bytes of programs (forester/docs/reference/programs.md, "Proof encoding")."""

from typing import Any

from localnet.indexer.api.shapes import Json
from shared.field import BASE_MODULUS, FIELD_BYTES, parse_coordinate

_SIGN = 0x80


class ProofUnreadable(ValueError):
    """An answer of the prover is not a proof."""


def compress_proof(proof: Any) -> Json:
    """Compress a proof as the prover writes it: A (negated), B and C as lists of byte values."""
    try:
        ax, ay = map(_number, proof["ar"])
        (bx0, bx1), (by0, by1) = (tuple(map(_number, row)) for row in proof["bs"])
        cx, cy = map(_number, proof["krs"])
    except (KeyError, TypeError, ValueError):
        raise ProofUnreadable("the answer of the prover is not a proof") from None
    return {
        "a": list(_compress_g1(ax, -ay % BASE_MODULUS)),
        "b": list(_compress_g2((bx0, bx1), (by0, by1))),
        "c": list(_compress_g1(cx, cy)),
    }


def _number(text: Any) -> int:
    if not isinstance(text, str):
        raise TypeError(text)
    return int.from_bytes(parse_coordinate(text), "big")


def _compress_g1(x: int, y: int) -> bytes:
    """Return the x coordinate with a bit that is set if y is the greater of its two values."""
    return _signed(x.to_bytes(FIELD_BYTES, "big"), greater=y > -y % BASE_MODULUS)


def _compress_g2(x: tuple[int, int], y: tuple[int, int]) -> bytes:
    opposite = tuple(-limb % BASE_MODULUS for limb in y)
    return _signed(b"".join(limb.to_bytes(FIELD_BYTES, "big") for limb in x), greater=y > opposite)


def _signed(data: bytes, *, greater: bool) -> bytes:
    return bytes([data[0] | _SIGN]) + data[1:] if greater else data
