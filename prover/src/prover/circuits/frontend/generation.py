"""The two generations of the reference compiler whose constraint systems are reproduced."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Hint:
    """A function that the solver calls to find wires that no constraint determines."""

    name: str

    @property
    def id(self) -> int:
        """FNV-1a, 32 bits, of the name."""
        value = 0x811C9DC5
        for byte in self.name.encode():
            value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
        return value


@dataclass(frozen=True)
class Generation:
    """What differs between compiler generations, as far as a circuit can tell.

    ``most_terms`` bounds the length of a sum: one that reaches it is stored in a wire of its own.
    """

    version: str
    bits: Hint
    inverse_or_zero: Hint
    is_zero_is_boolean: bool
    most_terms: int | None

    @property
    def hints(self) -> dict[int, str]:
        """Names of all hints by id."""
        return {hint.id: hint.name for hint in (self.bits, self.inverse_or_zero)}


GENERATION_08: Final = Generation(
    version="0.8.0",
    bits=Hint("github.com/consensys/gnark/std/math/bits.NBits"),
    inverse_or_zero=Hint("github.com/consensys/gnark/backend/hint.InvZero"),
    is_zero_is_boolean=False,
    most_terms=None,
)
"""Of the keys published up to package version 0.27."""

GENERATION_014: Final = Generation(
    version="0.14.0",
    bits=Hint("github.com/consensys/gnark/std/math/bits.nBits"),
    inverse_or_zero=Hint("github.com/consensys/gnark/constraint/solver.InvZeroHint"),
    is_zero_is_boolean=True,
    most_terms=300,
)
"""Of current keys."""

GENERATIONS: Final = {"0.8": GENERATION_08, "0.14": GENERATION_014}
"""By the names that people use."""
