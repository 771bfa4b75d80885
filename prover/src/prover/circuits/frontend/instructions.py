"""Instructions of a constraint system under construction as flat arrays in the order in which they are emitted.

An instruction is a row (a constraint L · R = O) or a call of a hint. Its words are those of gnark's calldata
(prover/docs/reference/gnark-keys.md, "Calldata"): total count; for a row the three lengths and (coefficient id, wire)
pairs of L, R, O; for a hint its id, the inputs, and the range of output wires.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

from prover.circuits.frontend.terms import Terms
from shared.trees.field import SCALAR_MODULUS

FIXED_COEFFICIENTS: Final = (0, 1, 2, SCALAR_MODULUS - 1, SCALAR_MODULUS - 2)
"""Values of the first coefficient ids in every table."""

INPUT_LEVEL: Final = -1
NO_LEVEL: Final = -2
"""Level of a wire that no instruction determines yet."""


class Coefficients:
    """Ids of coefficients, in the order in which values are first converted."""

    def __init__(self) -> None:
        self.values = list(FIXED_COEFFICIENTS)
        self._ids = {value: number for number, value in enumerate(self.values)}

    def id_of(self, value: int) -> int:
        """Return the id of a value in [0, r), a new one if it has none."""
        number = self._ids.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number

    def converted(self, terms: Terms) -> list[tuple[int, int]]:
        """Return the pairs (coefficient id, wire) of an expression."""
        id_of = self.id_of
        return [(id_of(coefficient), wire) for wire, coefficient in terms]


Converted = list[tuple[int, int]]


class InstructionList:
    """Instructions, and for every wire the level of the instruction that determines it.

    The level of an instruction is 1 + the highest level of the wires that it reads, where inputs have level -1.
    """

    def __init__(self) -> None:
        self.words = array("I")
        self.starts = array("Q")
        self.wire_counts = array("I")
        self.levels = array("I")
        self.is_hint = bytearray()
        self.wire_levels = array("i", [INPUT_LEVEL])
        self.rows = 0

    @property
    def wires(self) -> int:
        """Number of wires so far."""
        return len(self.wire_levels)

    @property
    def count(self) -> int:
        """Number of instructions so far."""
        return len(self.is_hint)

    def new_input(self) -> int:
        """Append a wire whose value is an input."""
        self.wire_levels.append(INPUT_LEVEL)
        return self.wires - 1

    def new_wires(self, count: int = 1) -> int:
        """Append consecutive wires that the following instructions determine; return the first."""
        first = self.wires
        self.wire_levels.extend([NO_LEVEL] * count)
        return first

    def row(self, left: Converted, right: Converted, out: Converted) -> None:
        """Append the constraint left · right = out as given."""
        sides = (left, right, out)
        words = [4 + 2 * sum(map(len, sides)), *map(len, sides)]
        for side in sides:
            for pair in side:
                words += pair
        self._append(words, sides, range(0), is_hint=False)
        self.rows += 1

    def hint(self, hint_id: int, inputs: Sequence[Converted], outputs: range) -> None:
        """Append a call of a hint whose values become consecutive wires."""
        words = [hint_id, len(inputs)]
        for terms in inputs:
            words.append(len(terms))
            for pair in terms:
                words += pair
        words += [outputs.start, outputs.stop]
        self._append([len(words) + 1, *words], inputs, outputs, is_hint=True)

    def _append(self, words: list[int], reads: Sequence[Converted], outputs: range, *, is_hint: bool) -> None:
        wire_levels = self.wire_levels
        touched = {wire for terms in reads for _, wire in terms}
        # A wire without a level (-2) does not raise the level: this instruction determines it.
        level = 1 + max((INPUT_LEVEL, *(wire_levels[wire] for wire in touched)))
        for wire in (*touched, *outputs):
            if wire_levels[wire] == NO_LEVEL:
                wire_levels[wire] = level
        self.starts.append(len(self.words))
        self.words.extend(words)
        self.wire_counts.append(self.wires)
        self.levels.append(level)
        self.is_hint.append(is_hint)
