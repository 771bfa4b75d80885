"""Readers of binary fields. A field has a name in the JSON of nodes and a function that reads its value."""

import base64
import struct
from collections.abc import Callable, Sequence
from typing import Any

from localnet import base58

Read = Callable[["Cursor"], Any]
Field = tuple[str, Read]
"""Name and reader; a field whose name ends with ``?`` is omitted if its value is None."""


class Unparseable(Exception):
    """Data has another format; nodes then answer with the bytes."""


class Cursor:
    """A position in bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        """Return the next bytes; raise Unparseable if there are fewer."""
        if count < 0 or count > len(self._data) - self._at:
            raise Unparseable
        self._at += count
        return self._data[self._at - count : self._at]

    def rest(self) -> bytes:
        """Return all bytes that follow."""
        return self.take(len(self._data) - self._at)

    def unpack(self, code: str) -> Any:
        """Return one little-endian value in the notation of ``struct``."""
        return struct.unpack(f"<{code}", self.take(struct.calcsize(f"<{code}")))[0]


def u8(cursor: Cursor) -> int:
    """Read a byte."""
    return int(cursor.unpack("B"))


def u16(cursor: Cursor) -> int:
    """Read two bytes."""
    return int(cursor.unpack("H"))


def u32(cursor: Cursor) -> int:
    """Read four bytes."""
    return int(cursor.unpack("I"))


def u64(cursor: Cursor) -> int:
    """Read eight bytes."""
    return int(cursor.unpack("Q"))


def i16(cursor: Cursor) -> int:
    """Read two bytes, signed."""
    return int(cursor.unpack("h"))


def i64(cursor: Cursor) -> int:
    """Read eight bytes, signed."""
    return int(cursor.unpack("q"))


def u64_text(cursor: Cursor) -> str:
    """Read eight bytes as decimal text."""
    return str(u64(cursor))


def f64_text(cursor: Cursor) -> str:
    """Read a float as decimal text without an exponent."""
    return float_text(cursor.unpack("d"))


def float_text(value: float) -> str:
    """Return the shortest decimal text of a float, without exponent."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    sign, digits, exponent = _decimal(value)
    whole, fraction = (digits + "0" * exponent, "") if exponent >= 0 else (digits[:exponent], digits[exponent:])
    if exponent < 0:
        fraction = fraction.rjust(-exponent, "0")
    fraction = fraction.rstrip("0")
    return sign + (whole.lstrip("0") or "0") + (f".{fraction}" if fraction else "")


def _decimal(value: float) -> tuple[str, str, int]:
    mantissa, _, power = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    sign = "-" if struct.pack("<d", value)[7] & 0x80 else ""
    return sign, whole + fraction, int(power or 0) - len(fraction)


def boolean(cursor: Cursor) -> bool:
    """Read a byte that is not 0 for true."""
    return u8(cursor) != 0


def address(cursor: Cursor) -> str:
    """Read a public key."""
    return base58.encode(cursor.take(32))


def address_or_none(cursor: Cursor) -> str | None:
    """Read a public key; 32 zero bytes are none."""
    raw = cursor.take(32)
    return base58.encode(raw) if any(raw) else None


def optional(read: Read) -> Read:
    """Read a value behind a byte that is 1; 0 is none."""

    def reader(cursor: Cursor) -> Any:
        tag = u8(cursor)
        if tag > 1:
            raise Unparseable
        return read(cursor) if tag else None

    return reader


def fixed_optional(read: Read) -> Read:
    """Read a value behind four bytes, with bytes of the same number where there is none."""

    def reader(cursor: Cursor) -> Any:
        tag, value = u32(cursor), read(cursor)
        if tag > 1:
            raise Unparseable
        return value if tag else None

    return reader


def text(length: Read) -> Read:
    """Read UTF-8 text behind its length."""
    return lambda cursor: _utf8(cursor.take(length(cursor)))


def text_to_end(cursor: Cursor) -> str:
    """Read UTF-8 text up to the end."""
    return _utf8(cursor.rest())


def _utf8(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise Unparseable from error


def base64_bytes(cursor: Cursor) -> str:
    """Read bytes behind their length of eight bytes, as base64."""
    return base64.b64encode(cursor.take(u64(cursor))).decode()


def several(length: Read, read: Read) -> Read:
    """Read a list behind its length."""

    def reader(cursor: Cursor) -> list[Any]:
        count = length(cursor)
        if count > 10_000:  # more than any transaction or account has
            raise Unparseable
        return [read(cursor) for _ in range(count)]

    return reader


def one_of(read: Read, names: Sequence[str]) -> Read:
    """Read a number that represents a name."""

    def reader(cursor: Cursor) -> str:
        number = read(cursor)
        if number >= len(names):
            raise Unparseable
        return names[number]

    return reader


def nested(*fields: Field) -> Read:
    """Read an object of fields."""
    return lambda cursor: members(cursor, fields)


def members(cursor: Cursor, fields: Sequence[Field]) -> dict[str, Any]:
    """Read fields in order into an object."""
    found: dict[str, Any] = {}
    for name, read in fields:
        value = read(cursor)
        if value is not None or not name.endswith("?"):
            found[name.removesuffix("?")] = value
    return found
