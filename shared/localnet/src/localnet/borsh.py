"""Bounds-checked reading of Borsh and of the one-byte-count vectors that the on-chain programs use."""

import struct
from collections.abc import Callable
from typing import Any, TypeVar

Item = TypeVar("Item")

_KEY_BYTES = 32


class MalformedData(ValueError):
    """Bytes do not have the layout that they were read as."""


class Reader:
    """Reads little-endian values from ``data``; MalformedData where the data ends too early."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self._data = data
        self.position = position

    @property
    def remaining(self) -> int:
        """Bytes that have not been read."""
        return len(self._data) - self.position

    def take(self, count: int) -> bytes:
        """Return the next ``count`` bytes."""
        if not 0 <= count <= self.remaining:
            raise MalformedData(f"{count} bytes are needed at offset {self.position}, {self.remaining} are left")
        start = self.position
        self.position += count
        return self._data[start : self.position]

    def rest(self) -> bytes:
        """Return all bytes that follow."""
        return self.take(self.remaining)

    def unpack(self, code: str) -> Any:
        """Return one little-endian value in the notation of ``struct``."""
        return struct.unpack(f"<{code}", self.take(struct.calcsize(f"<{code}")))[0]

    def u8(self) -> int:
        """Read an unsigned byte."""
        return int(self.unpack("B"))

    def u16(self) -> int:
        """Read an unsigned integer of 2 bytes."""
        return int(self.unpack("H"))

    def u32(self) -> int:
        """Read an unsigned integer of 4 bytes."""
        return int(self.unpack("I"))

    def u64(self) -> int:
        """Read an unsigned integer of 8 bytes."""
        return int(self.unpack("Q"))

    def i16(self) -> int:
        """Read a signed integer of 2 bytes."""
        return int(self.unpack("h"))

    def i64(self) -> int:
        """Read a signed integer of 8 bytes."""
        return int(self.unpack("q"))

    def flag(self) -> bool:
        """Read a Boolean: one byte, 0 or 1."""
        value = self.u8()
        if value > 1:
            raise MalformedData(f"{value} at offset {self.position - 1} is not a Boolean")
        return value == 1

    def key(self) -> bytes:
        """Read a public key, hash or address: 32 bytes."""
        return self.take(_KEY_BYTES)

    def option(self, read: Callable[[], Item]) -> Item | None:
        """Read None, or a value after the tag byte 1."""
        return read() if self.flag() else None

    def vector(self, read: Callable[[], Item], count_width: int = 4) -> list[Item]:
        """Read a count of ``count_width`` bytes, then that many items, each of at least one byte."""
        count = int.from_bytes(self.take(count_width), "little")
        if count > self.remaining:
            raise MalformedData(f"a vector of {count} items does not fit into {self.remaining} bytes")
        return [read() for _ in range(count)]

    def byte_vector(self) -> bytes:
        """Read a vector of bytes."""
        return self.take(self.u32())
