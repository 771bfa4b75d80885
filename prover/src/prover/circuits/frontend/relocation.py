"""Instructions of a gadget as arrays that can be appended again with other wires.

The level of an instruction is the largest of its own depth in the recording and,
over the wires that the recording reads from outside, the level of such a wire plus the longest path from there.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from prover.circuits.frontend.boolean_expressions import BooleanExpressions
from prover.circuits.frontend.calldata import Span, read_span
from prover.circuits.frontend.instructions import INPUT_LEVEL, NO_LEVEL, InstructionList
from prover.circuits.frontend.terms import ONE_WIRE, Terms

U32 = npt.NDArray[np.uint32]

UNREACHED: Final = -(2**30)
"""Distance to an instruction that does not depend on a wire."""


@dataclass(frozen=True)
class InstructionPosition:
    """Lengths of the instructions and of the list of boolean expressions at one moment."""

    word: int
    instruction: int
    wire: int
    row: int
    boolean: int

    @classmethod
    def end_of(cls, instructions: InstructionList, booleans: BooleanExpressions) -> InstructionPosition:
        """Return the position at which the next instruction is appended."""
        return cls(len(instructions.words), instructions.count, instructions.wires, instructions.rows, len(booleans))


class Recording:
    """Instructions and result of one call of a gadget."""

    def __init__(self, inputs: list[Terms], wires: list[int], begin: InstructionPosition) -> None:
        self.inputs = inputs
        self.wires = wires
        self.begin = begin
        self.end = begin
        self.repeatable = True
        self.result: object = None
        self.booleans: list[Terms] = []
        self.asserted: set[Terms] = set()

    @functools.cached_property
    def outer(self) -> U32:
        """Outside wires as an array."""
        return np.array(self.wires, np.uint32)

    def outer_index(self, wires: U32) -> npt.NDArray[np.intp]:
        """Return the index of each wire in the outside wires. Raises ValueError for a wire that is no argument."""
        index = np.searchsorted(self.outer, wires)
        if (index == len(self.wires)).any() or (self.outer[index] != wires).any():
            raise ValueError("a gadget reads a wire that none of its arguments contains")
        return index


@dataclass(frozen=True, eq=False)
class Relocation:
    """The arrays of a recording, ready to be appended with other wires.

    ``inner`` is 1 where a word is a wire of the recording itself. ``distances`` has a row per outside wire and a column
    per instruction; ``producers`` has the instruction that determines each wire of the recording.
    """

    words: U32
    inner: U32
    outer_words: npt.NDArray[np.intp]
    outer_wires: npt.NDArray[np.intp]
    starts: npt.NDArray[np.uint64]
    wire_counts: U32
    is_hint: bytes
    depths: npt.NDArray[np.int32]
    distances: npt.NDArray[np.int32]
    producers: npt.NDArray[np.intp]


def relocation_of(instructions: InstructionList, recording: Recording) -> Relocation:
    """Return the arrays of a complete recording. Raises ValueError if the gadget breaks the rules of ``gadget``."""
    begin, end = recording.begin, recording.end
    words = np.array(np.frombuffer(instructions.words, np.uint32)[begin.word : end.word])
    inside = slice(begin.instruction, end.instruction)
    starts = np.frombuffer(instructions.starts, np.uint64)[inside] - np.uint64(begin.word)
    is_hint = instructions.is_hint[inside]
    span = read_span(words, starts.astype(np.intp), np.frombuffer(is_hint, np.uint8))
    wires = words[span.reads]
    inner = np.zeros(len(words), np.uint32)
    inner[span.reads[wires >= begin.wire]] = 1
    inner[span.ranges] = 1
    outer_words = span.reads[(wires < begin.wire) & (wires != ONE_WIRE)]
    outer_wires = recording.outer_index(words[outer_words])
    depths, distances = _paths(span, words, recording)
    return Relocation(
        words,
        inner,
        outer_words,
        outer_wires,
        starts,
        np.frombuffer(instructions.wire_counts, np.uint32)[inside] - np.uint32(begin.wire),
        bytes(is_hint),
        depths,
        distances,
        _producers(span, words, begin.wire, end.wire),
    )


def _producers(span: Span, words: U32, first: int, last: int) -> npt.NDArray[np.intp]:
    """Return the instruction that determines each wire of the recording: its hint, or the first row that reads it."""
    producers = np.full(last - first, -1, np.intp)
    wires = words[span.reads]
    inner = wires >= first
    created, at = np.unique(wires[inner], return_index=True)
    producers[created - np.uint32(first)] = span.instruction_of(span.reads[inner][at])
    for instruction, outputs in span.hint_outputs.items():
        producers[outputs.start - first : outputs.stop - first] = instruction
    if (producers < 0).any():
        raise ValueError("a gadget creates a wire that none of its own instructions determines")
    return producers


def _paths(span: Span, words: U32, recording: Recording) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Return the depth of each instruction, and its longest distance from each outside wire."""
    first, created, outside = recording.begin.wire, recording.end.wire - recording.begin.wire, len(recording.wires)
    # Rows: the wires of the recording, the outside wires, ONE. Columns: the outside wires, and the depth.
    reach = np.full((created + outside + 1, outside + 1), UNREACHED, np.int32)
    reach[:created, outside] = NO_LEVEL
    reach[created:, outside] = INPUT_LEVEL
    reach[created + np.arange(outside), np.arange(outside)] = 0
    result = np.empty((len(span.starts), outside + 1), np.int32)
    for instruction, positions in enumerate(span.split_reads()):
        reads = words[positions]
        own = reads[reads >= first] - np.uint32(first)
        outer = recording.outer_index(reads[(reads < first) & (reads != ONE_WIRE)])
        sources = np.concatenate((own, created + outer, [created + outside]))  # everything may read ONE
        here = reach[sources.astype(np.intp)].max(axis=0) + 1
        result[instruction] = here
        reach[own[reach[own, outside] == NO_LEVEL]] = here
        outputs = span.hint_outputs.get(instruction)
        if outputs is not None:
            reach[outputs.start - first : outputs.stop - first] = here
    return result[:, outside].copy(), np.ascontiguousarray(result[:, :outside].T)
