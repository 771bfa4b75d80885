"""Numbers of the BN254 fields in their format on the wire.

A field element travels in JSON as a hexadecimal string and inside the services as 32 bytes,
big-endian, below the modulus. The spelling rules are those of the reference prover: one optional
lower-case ``0x``, an optional sign directly before the digits, any number of digits of either case.
"""

import re

SCALAR_MODULUS = 21888242871839275222246405745257275088548364400416034343698204186575808495617
"""r, the order of the groups; requests, witnesses and public inputs are numbers modulo r."""

BASE_MODULUS = 21888242871839275222246405745257275088696311157297823662689037894645226208583
"""p, the modulus of point coordinates; proofs are written modulo p."""

FIELD_BYTES = 32

ZERO = bytes(FIELD_BYTES)

_SCALAR_MODULUS_BYTES = SCALAR_MODULUS.to_bytes(FIELD_BYTES, "big")
_NUMBER = re.compile(r"(?:0x)?([+-]?)([0-9A-Fa-f]+)", re.ASCII)
_DIGITS = re.compile(r"[0-9A-Fa-f]+", re.ASCII)
_PIECE_DIGITS = 4096
"""Digits that are parsed at once, so that a number of millions of them does not block other threads."""
_ELEMENT_DIGITS = 2 * FIELD_BYTES
_PADDED_LENGTH = 2 + _ELEMENT_DIGITS
_SHOWN_CHARACTERS = 80


class InvalidNumber(ValueError):
    """A string is not a hexadecimal number in the format of the wire."""

    def __init__(self, text: str) -> None:
        shown = text.removeprefix("0x")
        if len(shown) > _SHOWN_CHARACTERS:
            shown = shown[:_SHOWN_CHARACTERS] + "…"
        super().__init__(f"invalid number: {shown}")


def parse_number(text: str) -> int:
    """Return the integer of a wire string, of any size and sign. Raises InvalidNumber."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise InvalidNumber(text)
    sign, digits = match.groups()
    value = int(digits, 16)
    return -value if sign == "-" else value


def parse_scalar(text: str) -> tuple[bytes, bool]:
    """Return a wire string as 32 big-endian bytes below r, and True if it was canonical.

    Values outside [0, r) are reduced, as the reference does, and reported as not canonical.
    """
    if len(text) == _PADDED_LENGTH and text.startswith("0x"):
        # The common format; fromhex skips blanks, so a full 32 bytes means 64 digits.
        try:
            data = bytes.fromhex(text[2:])
        except ValueError:
            data = b""
        if len(data) == FIELD_BYTES and data < _SCALAR_MODULUS_BYTES:
            return data, True
    value, canonical = _reduced(text)
    return value.to_bytes(FIELD_BYTES, "big"), canonical


def _reduced(text: str) -> tuple[int, bool]:
    if len(text) <= _PIECE_DIGITS:
        value = parse_number(text)
        return value % SCALAR_MODULUS, 0 <= value < SCALAR_MODULUS
    digits = text.removeprefix("0x")
    start = 1 if digits[0] in "+-" else 0
    value, canonical = 0, True
    for place in range(start, len(digits), _PIECE_DIGITS):
        piece = digits[place : place + _PIECE_DIGITS]
        if _DIGITS.fullmatch(piece) is None:
            raise InvalidNumber(text)
        value = value << 4 * len(piece) | int(piece, 16)
        canonical = canonical and value < SCALAR_MODULUS
        value %= SCALAR_MODULUS
    if digits[0] == "-" and value:
        return SCALAR_MODULUS - value, False
    return value, canonical


def scalar_bytes(value: int) -> bytes:
    """Return an integer in [0, r) as 32 big-endian bytes. Raises ValueError outside the field."""
    if not 0 <= value < SCALAR_MODULUS:
        raise ValueError("a scalar must be in [0, r)")
    return value.to_bytes(FIELD_BYTES, "big")


def parse_coordinate(text: str) -> bytes:
    """Return a point coordinate as 32 big-endian bytes. Raises InvalidNumber unless it is in [0, p)."""
    value = parse_number(text)
    if not 0 <= value < BASE_MODULUS:
        raise InvalidNumber(text)
    return value.to_bytes(FIELD_BYTES, "big")


def format_number(data: bytes) -> str:
    """Return bytes as ``0x`` and two lower-case digits per byte, including leading zeros."""
    return "0x" + data.hex()
