"""Positions of wires in the words of instructions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

U32 = npt.NDArray[np.uint32]
Indices = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Span:
    """Consecutive instructions; positions are in words from the first.

    ``reads`` are the positions of the wires in expressions, ascending; ``ranges`` those of both ends of each hint's
    range of outputs; ``hint_outputs`` that range by instruction.
    """

    starts: Indices
    reads: Indices
    ranges: Indices
    hint_outputs: dict[int, range]

    def instruction_of(self, positions: Indices) -> Indices:
        """Return the instruction of each position."""
        return np.searchsorted(self.starts, positions, side="right") - 1

    def split_reads(self) -> list[Indices]:
        """Return the positions of the wires that each instruction reads."""
        return np.split(self.reads, np.searchsorted(self.reads, self.starts[1:]))


def read_span(words: U32, starts: Indices, is_hint: npt.NDArray[np.uint8]) -> Span:
    """Return the wires of consecutive instructions; ``words`` contains only theirs."""
    holds_wire = np.zeros(len(words), bool)
    lengths = np.diff(starts, append=len(words))
    offsets = np.arange(len(words)) - np.repeat(starts, lengths)
    # A row: word count, three lengths, then pairs (coefficient id, wire).
    holds_wire[(offsets >= 5) & (offsets % 2 == 1)] = True
    hint_outputs, ranges = {}, []
    for instruction in np.flatnonzero(is_hint).tolist():
        start, length = int(starts[instruction]), int(lengths[instruction])
        holds_wire[start : start + length] = False
        holds_wire[hint_read_positions(words, start)] = True
        ranges += [start + length - 2, start + length - 1]
        hint_outputs[instruction] = range(*words[ranges[-2:]].tolist())
    return Span(starts, np.flatnonzero(holds_wire), np.array(ranges, np.intp), hint_outputs)


def hint_read_positions(words: U32, start: int) -> list[int]:
    """Return the positions of the wires in the inputs of the hint that begins at ``start``."""
    positions: list[int] = []
    at = start + 3  # after word count, hint id and number of inputs
    for _ in range(int(words[start + 2])):
        terms = int(words[at])
        positions += range(at + 2, at + 2 + 2 * terms, 2)
        at += 1 + 2 * terms
    return positions
