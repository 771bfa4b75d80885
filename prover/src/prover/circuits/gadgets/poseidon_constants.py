"""Round constants and mixing matrices of Poseidon over the BN254 scalar field, from their generator.

The generator is the Grain shift register of the Poseidon paper with the parameters of circomlib: S-box x^5, eight full
rounds, and the numbers of partial rounds below.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from shared.trees.field import SCALAR_MODULUS

FULL_ROUNDS: Final = 8
PARTIAL_ROUNDS: Final = (56, 57, 56, 60, 60, 63, 64, 63, 60, 66, 60, 65)
"""Parameters by number of inputs, from 1."""

_FIELD_BITS: Final = 254
_TAPS: Final = (62, 51, 38, 23, 13, 0)
_DISCARDED_BITS: Final = 160


@dataclass(frozen=True)
class Parameters:
    """One Poseidon permutation of ``width`` lanes.

    ``round_constants`` has a row of ``width`` values per round, the mixing ``matrix`` a row per new lane.
    """

    width: int
    partial_rounds: int
    round_constants: tuple[tuple[int, ...], ...]
    matrix: tuple[tuple[int, ...], ...]

    def is_full(self, round_number: int) -> bool:
        """Return whether the S-box of a round applies to all elements of the state."""
        half = FULL_ROUNDS // 2
        return not half <= round_number < half + self.partial_rounds


@functools.cache
def parameters(inputs: int) -> Parameters:
    """Return the parameters of the permutation that hashes 1 to 12 inputs."""
    width = inputs + 1
    partial_rounds = PARTIAL_ROUNDS[inputs - 1]
    bits = _shrunk(_register_bits(width, partial_rounds))

    def draw() -> int:
        return int("".join(str(next(bits)) for _ in range(_FIELD_BITS)), 2)

    def draw_below_modulus() -> int:
        return next(value for value in iter(draw, None) if value < SCALAR_MODULUS)

    constants = tuple(tuple(draw_below_modulus() for _ in range(width)) for _ in range(FULL_ROUNDS + partial_rounds))
    rows = [draw() % SCALAR_MODULUS for _ in range(width)]
    columns = [draw() % SCALAR_MODULUS for _ in range(width)]
    matrix = tuple(tuple(pow(row + column, -1, SCALAR_MODULUS) for column in columns) for row in rows)
    return Parameters(width, partial_rounds, constants, matrix)


def _register_bits(width: int, partial_rounds: int) -> Iterator[int]:
    """Yield the feedback bits of the register after the discarded ones."""
    seed = "".join(
        f"{value:0{size}b}"
        for size, value in (
            (2, 1),  # a prime field
            (4, 0),  # the S-box is a power
            (12, _FIELD_BITS),
            (12, width),
            (10, FULL_ROUNDS),
            (10, partial_rounds),
            (30, 2**30 - 1),
        )
    )
    stream = [int(bit) for bit in seed]
    tap_0, tap_1, tap_2, tap_3, tap_4, tap_5 = _TAPS
    produced = 0
    while True:
        bit = (
            stream[produced + tap_0]
            ^ stream[produced + tap_1]
            ^ stream[produced + tap_2]
            ^ stream[produced + tap_3]
            ^ stream[produced + tap_4]
            ^ stream[produced + tap_5]
        )
        stream.append(bit)
        produced += 1
        if produced > _DISCARDED_BITS:
            yield bit


def _shrunk(bits: Iterator[int]) -> Iterator[int]:
    """Yield the second bit of each pair whose first bit is 1."""
    for chosen in bits:
        bit = next(bits)
        if chosen:
            yield bit
