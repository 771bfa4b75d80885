"""MessagePack for scripts of the Redis twin, as Redis's cmsgpack reads and writes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from lupa import lua51  # type: ignore[import-untyped]

NewTable = Callable[[], Any]


def pack(value: Any) -> bytes:
    """Return a value of Lua as a message: whole numbers as integers, strings as they are, an empty table as a list."""
    if isinstance(value, bytes):
        return _head(len(value), 0xA0, 32, b"\xd9", b"\xda", b"\xdb") + value
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        value = int(value)
    if lua51.lua_type(value) != "table":
        return msgspec.msgpack.encode(value)
    entries = dict(value.items())
    if entries.keys() == set(range(1, len(entries) + 1)):
        elements = [pack(entries[position]) for position in range(1, len(entries) + 1)]
        return _head(len(elements), 0x90, 16, None, b"\xdc", b"\xdd") + b"".join(elements)
    pairs = [pack(name) + pack(each) for name, each in entries.items()]
    return _head(len(pairs), 0x80, 16, None, b"\xde", b"\xdf") + b"".join(pairs)


def unpack(message: bytes, new_table: NewTable) -> Any:
    """Return a message as a value of Lua."""
    return _as_lua(msgspec.msgpack.decode(message), new_table)


def _as_lua(value: Any, new_table: NewTable) -> Any:
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, list | dict):
        return value
    table = new_table()
    for name, each in value.items() if isinstance(value, dict) else enumerate(value, 1):
        table[_as_lua(name, new_table)] = _as_lua(each, new_table)
    return table


def _head(size: int, short: int, limit: int, of_8: bytes | None, of_16: bytes, of_32: bytes) -> bytes:
    if size < limit:
        return bytes([short | size])
    if of_8 is not None and size < 2**8:
        return of_8 + size.to_bytes(1, "big")
    return of_16 + size.to_bytes(2, "big") if size < 2**16 else of_32 + size.to_bytes(4, "big")
