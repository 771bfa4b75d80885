"""Readers of binary fields. A field has a name in the JSON of nodes and a function that reads its value."""

import base64
import struct
from collections.abc import Callable, Sequence
from typing import Any

from localnet import base58
from localnet.borsh import MalformedData, Reader

Read = Callable[[Reader], Any]
Field = tuple[str, Read]
"""Name and reader; a field whose name ends with ``?`` is omitted if its value is None."""


u8, u16, u32, u64, i16, i64 = Reader.u8, Reader.u16, Reader.u32, Reader.u64, Reader.i16, Reader.i64


def u64_text(cursor: Reader) -> str:
    """Read eight bytes as decimal text."""
    return str(u64(cursor))


def f64_text(cursor: Reader) -> str:
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


def boolean(cursor: Reader) -> bool:
    """Read a byte that is not 0 for true."""
    return u8(cursor) != 0


def address(cursor: Reader) -> str:
    """Read a public key."""
    return base58.encode(cursor.take(32))


def address_or_none(cursor: Reader) -> str | None:
    """Read a public key; 32 zero bytes are none."""
    raw = cursor.take(32)
    return base58.encode(raw) if any(raw) else None


def fixed_bytes(count: int) -> Read:
    """Read a number of bytes as base64."""
    return lambda cursor: base64.b64encode(cursor.take(count)).decode()


def key_or_none(cursor: Reader) -> str | None:
    """Read 32 bytes as base64; zero bytes are none."""
    raw = cursor.take(32)
    return base64.b64encode(raw).decode() if any(raw) else None


def optional(read: Read) -> Read:
    """Read a value behind a byte that is 1; 0 is none."""
    return lambda cursor: cursor.option(lambda: read(cursor))


def fixed_optional(read: Read) -> Read:
    """Read a value behind four bytes, with bytes of the same number where there is none."""

    def reader(cursor: Reader) -> Any:
        tag, value = u32(cursor), read(cursor)
        if tag > 1:
            raise MalformedData
        return value if tag else None

    return reader


def text(length: Read) -> Read:
    """Read UTF-8 text behind its length."""
    return lambda cursor: _utf8(cursor.take(length(cursor)))


def text_to_end(cursor: Reader) -> str:
    """Read UTF-8 text up to the end."""
    return _utf8(cursor.rest())


def _utf8(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise MalformedData from error


def base64_bytes(cursor: Reader) -> str:
    """Read bytes behind their length of eight bytes, as base64."""
    return base64.b64encode(cursor.take(u64(cursor))).decode()


def several(length: Read, read: Read) -> Read:
    """Read a list behind its length."""

    def reader(cursor: Reader) -> list[Any]:
        count = length(cursor)
        if count > 10_000:  # more than any transaction or account has
            raise MalformedData
        return [read(cursor) for _ in range(count)]

    return reader


def one_of(read: Read, names: Sequence[str]) -> Read:
    """Read a number that represents a name."""

    def reader(cursor: Reader) -> str:
        number = read(cursor)
        if number >= len(names):
            raise MalformedData
        return names[number]

    return reader


def nested(*fields: Field) -> Read:
    """Read an object of fields."""
    return lambda cursor: members(cursor, fields)


def members(cursor: Reader, fields: Sequence[Field]) -> dict[str, Any]:
    """Read fields in order into an object."""
    found: dict[str, Any] = {}
    for name, read in fields:
        value = read(cursor)
        if value is not None or not name.endswith("?"):
            found[name.removesuffix("?")] = value
    return found
