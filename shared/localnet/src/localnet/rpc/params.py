"""Positional parameters of a call, with the checks and messages of a cluster's nodes."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from solders.pubkey import Pubkey
from solders.signature import Signature

from localnet.rpc.errors import invalid

COMMITMENTS = ("processed", "confirmed", "finalized")


class Config(msgspec.Struct, frozen=True):
    """The configuration object, the last parameter of most methods."""

    members: Mapping[str, Any] = {}

    def text(self, name: str, default: str, allowed: Sequence[str]) -> str:
        """Return a member that is one of some words."""
        value = self.members.get(name)
        if value is None:
            return default
        if value not in allowed:
            words = ", ".join(f"`{word}`" for word in allowed)
            raise invalid(f"Invalid params: unknown variant `{value}`, expected one of {words}.")
        return str(value)

    def flag(self, name: str) -> bool:
        """Return a member that is true or false, false if absent."""
        value = self.members.get(name)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise invalid(f"Invalid params: invalid type for {name}, expected a boolean.")
        return value

    def number(self, name: str) -> int | None:
        """Return a member that is an unsigned integer, None if absent."""
        return whole_number(self.members.get(name), name)

    @property
    def commitment(self) -> str:
        """Requested level of commitment; the older names are accepted."""
        value = self.members.get("commitment")
        older = {"recent": "processed", "single": "confirmed", "singleGossip": "confirmed"}
        older |= {"root": "finalized", "max": "finalized"}
        if isinstance(value, str) and value in older:
            return older[value]
        return self.text("commitment", "finalized", COMMITMENTS)


class Params:
    """The ``params`` of a request; every accessor raises RpcError (-32602) for a value that does not fit."""

    def __init__(self, values: object) -> None:
        if values is None:
            values = []
        if not isinstance(values, list):
            raise invalid("Invalid params: expected an array of positional parameters.")
        self._values: list[Any] = values

    def at(self, index: int) -> Any:
        """Return a required parameter."""
        if index >= len(self._values) or self._values[index] is None:
            raise invalid(f"Invalid params: invalid length {len(self._values)}, expected parameter {index + 1}.")
        return self._values[index]

    def get(self, index: int) -> Any:
        """Return an optional parameter, None if absent."""
        return self._values[index] if index < len(self._values) else None

    def config(self, index: int) -> Config:
        """Return an optional configuration object; a bare commitment word is accepted for older clients."""
        value = self.get(index)
        if value is None:
            return Config()
        if isinstance(value, str):
            return Config({"commitment": value})
        if not isinstance(value, dict):
            raise invalid("Invalid params: expected a configuration object.")
        return Config(value)

    def pubkey(self, index: int) -> Pubkey:
        """Return a required address."""
        return pubkey(self.at(index))

    def text(self, index: int) -> str:
        """Return a required string."""
        value = self.at(index)
        if not isinstance(value, str):
            raise invalid("Invalid params: expected a string.")
        return value

    def number(self, index: int) -> int:
        """Return a required unsigned integer."""
        value = whole_number(self.at(index), f"parameter {index + 1}")
        assert value is not None  # noqa: S101 - `at` has refused None
        return value

    def texts(self, index: int, most: int) -> list[str]:
        """Return a required list of strings, of limited length."""
        value = self.at(index)
        if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
            raise invalid("Invalid params: expected a list of strings.")
        if len(value) > most:
            raise invalid(f"Too many inputs provided; max {most}")
        return value


def whole_number(value: object, name: str) -> int | None:
    """Return an unsigned 64-bit integer or None."""
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 64:
        raise invalid(f"Invalid params: invalid value for {name}, expected u64.")
    return value


def pubkey(text: object) -> Pubkey:
    """Decode an address from base58."""
    if not isinstance(text, str):
        raise invalid("Invalid params: expected an address in base58.")
    try:
        return Pubkey.from_string(text)
    except ValueError as error:
        wrong_size = "size" in str(error)
        raise invalid("Invalid param: WrongSize" if wrong_size else "Invalid param: Invalid") from error


def signature(text: str) -> Signature:
    """Decode a signature from base58."""
    try:
        return Signature.from_string(text)
    except ValueError as error:
        raise invalid("Invalid param: Invalid") from error
