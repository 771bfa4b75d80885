"""Amounts of tokens as nodes write them (shared/localnet/docs/parsed.md, "Amounts")."""

import math
from dataclasses import dataclass
from typing import Any

from localnet.borsh import MalformedData, Reader
from localnet.rpc.parsed.fields import float_text, u8, u64

SECONDS_PER_YEAR = 31_556_736.0
BASIS_POINTS = 10_000.0
MAX_DECIMALS = 19
"""Decimals up to which a power of ten fits 64 bits; nodes give no float beyond."""


@dataclass(frozen=True, slots=True)
class Interest:
    """Interest that a mint adds to displayed amounts: rates in basis points per year, times in seconds since 1970."""

    initialized: int
    earlier_rate: int
    updated: int
    rate: int

    def scaled(self, amount: int, decimals: int, now: int) -> float:
        """Return the displayed amount."""
        earlier = math.exp(self.earlier_rate * (self.updated - self.initialized) / SECONDS_PER_YEAR / BASIS_POINTS)
        present = math.exp(self.rate * (now - self.updated) / SECONDS_PER_YEAR / BASIS_POINTS)
        return float(amount) * (earlier * present / 10.0**decimals)


@dataclass(frozen=True, slots=True)
class Multiplier:
    """Factor of displayed amounts, and the one that replaces it at a time."""

    present: float
    following: float
    effective: int

    def scaled(self, amount: int, decimals: int, now: int) -> float:
        """Return the displayed amount."""
        factor = self.following if now >= self.effective else self.present
        return math.trunc(float(amount) * factor) / 10.0**decimals


@dataclass(frozen=True, slots=True)
class Display:
    """Rules of a mint for displayed amounts, at a time."""

    decimals: int
    scale: Interest | Multiplier | None = None
    now: int = 0

    def amount(self, amount: int) -> dict[str, Any]:
        """Return an amount as an object of text and float."""
        if self.scale is not None:
            number, text = self._scaled(amount)
        else:
            number = float(amount) / 10.0**self.decimals if self.decimals <= MAX_DECIMALS else None
            text = exact(amount, self.decimals)
        return {"uiAmount": number, "decimals": self.decimals, "amount": str(amount), "uiAmountString": text}

    def _scaled(self, amount: int) -> tuple[float | None, str]:
        assert self.scale is not None  # noqa: S101 - the caller has checked
        try:
            value = self.scale.scaled(amount, self.decimals, self.now)
        except (OverflowError, ValueError):
            value = math.inf
        if not math.isfinite(value):
            return None, float_text(value)
        text = f"{value:.{self.decimals}f}"
        if self.decimals:
            text = text.rstrip("0").rstrip(".")
        return float(text), text


def exact(amount: int, decimals: int) -> str:
    """Return an amount as decimal text without trailing zeros."""
    if not decimals:
        return str(amount)
    digits = str(amount).rjust(decimals + 1, "0")
    return f"{digits[:-decimals]}.{digits[-decimals:]}".rstrip("0").rstrip(".")


def checked_amount(cursor: Reader) -> dict[str, Any]:
    """Read an amount and its decimals."""
    amount, decimals = u64(cursor), u8(cursor)
    return Display(decimals).amount(amount)


def interest_of(state: bytes) -> Interest:
    """Read the extension of an interest-bearing mint."""
    cursor = Reader(state)
    cursor.take(32)
    return Interest(cursor.unpack("q"), cursor.unpack("h"), cursor.unpack("q"), cursor.unpack("h"))


def multiplier_of(state: bytes) -> Multiplier:
    """Read the extension of a mint with scaled amounts."""
    cursor = Reader(state)
    cursor.take(32)
    present, effective, following = cursor.unpack("d"), cursor.unpack("q"), cursor.unpack("d")
    return Multiplier(present, following, effective)


def display_of(decimals: int, extensions: dict[int, bytes], now: int) -> Display:
    """Return the rules of a mint with these extensions, by type."""
    try:
        if 10 in extensions:
            return Display(decimals, interest_of(extensions[10]), now)
        if 25 in extensions:
            return Display(decimals, multiplier_of(extensions[25]), now)
    except MalformedData:
        pass
    return Display(decimals)
