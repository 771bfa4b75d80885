"""The two releases of gnark, the reference compiler, whose constraint systems are reproduced."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Hint:
    """A function that the solver calls to compute wires that no constraint determines."""

    name: str

    @property
    def id(self) -> int:
        """32-bit FNV-1a hash of the name."""
        value = 0x811C9DC5
        for byte in self.name.encode():
            value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
        return value


@dataclass(frozen=True)
class GnarkRelease:
    """Properties of a gnark release that change the constraints of a circuit.

    ``maximum_terms`` bounds the length of a sum: one that reaches it is stored in a wire of its own.
    """

    version: str
    bits: Hint
    inverse_or_zero: Hint
    is_zero_is_boolean: bool
    maximum_terms: int | None

    @property
    def hints(self) -> dict[int, str]:
        """Names of all hints by id."""
        return {hint.id: hint.name for hint in (self.bits, self.inverse_or_zero)}


GNARK_014: Final = GnarkRelease(
    version="0.14.0",
    bits=Hint("github.com/consensys/gnark/std/math/bits.nBits"),
    inverse_or_zero=Hint("github.com/consensys/gnark/constraint/solver.InvZeroHint"),
    is_zero_is_boolean=True,
    maximum_terms=300,
)
"""Release of current keys."""
