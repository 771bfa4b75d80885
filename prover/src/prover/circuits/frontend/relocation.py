"""What a gadget emitted, as arrays that can be appended again with other wires.

Levels move by a rule of their own: the level of an instruction is the largest of its own depth in the recording and,
over the wires that the recording reads from outside, the level of such a wire plus the longest path from there.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from prover.circuits.frontend.calldata import Span, read_span
from prover.circuits.frontend.expression import ONE_WIRE, Terms
from prover.circuits.frontend.tape import INPUT_LEVEL, NO_LEVEL, Tape

if TYPE_CHECKING:
    from prover.circuits.frontend.system import ConstraintSystem

U32 = npt.NDArray[np.uint32]

UNREACHED: Final = -(2**30)
"""Distance to an instruction that does not depend on a wire."""


@dataclass(frozen=True)
class TapePosition:
    """Ends of the tape and of the list of boolean marks."""

    word: int
    instruction: int
    wire: int
    row: int
    mark: int

    @classmethod
    def now(cls, system: ConstraintSystem) -> TapePosition:
        """Where the next thing goes."""
        tape = system.tape
        return cls(len(tape.words), tape.instructions, tape.wires, tape.rows, system.boolean_marks)


class Recording:
    """What one call of a gadget emitted."""

    def __init__(self, inputs: list[Terms], wires: list[int], begin: TapePosition) -> None:
        self.inputs = inputs
        self.wires = wires
        self.begin = begin
        self.end = begin
        self.repeatable = True
        self.result: object = None
        self.marks: list[Terms] = []
        self.asserted: set[Terms] = set()

    @functools.cached_property
    def outer(self) -> U32:
        """The outside wires as an array."""
        return np.array(self.wires, np.uint32)

    def outer_index(self, wires: U32) -> npt.NDArray[np.intp]:
        """Places of wires among the outside wires; ValueError if one was not handed in."""
        index = np.searchsorted(self.outer, wires)
        if (index == len(self.wires)).any() or (self.outer[index] != wires).any():
            raise ValueError("a gadget reads a wire that is not among its arguments")
        return index


@dataclass(frozen=True, eq=False)
class Relocation:
    """The arrays of a recording, ready to be appended with other wires.

    ``inner`` is 1 where a word is a wire of the recording itself. ``distances`` has a row per outside wire and a column
    per instruction; ``producers`` names the instruction of every wire made here.
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


def relocation_of(tape: Tape, recording: Recording) -> Relocation:
    """The arrays of a recording that is complete; ValueError if a gadget broke the rules of repetition."""
    begin, end = recording.begin, recording.end
    words = np.array(np.frombuffer(tape.words, np.uint32)[begin.word : end.word])
    inside = slice(begin.instruction, end.instruction)
    starts = np.frombuffer(tape.starts, np.uint64)[inside] - np.uint64(begin.word)
    is_hint = tape.is_hint[inside]
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
        np.frombuffer(tape.wire_counts, np.uint32)[inside] - np.uint32(begin.wire),
        bytes(is_hint),
        depths,
        distances,
        _producers(span, words, begin.wire, end.wire),
    )


def _producers(span: Span, words: U32, first: int, last: int) -> npt.NDArray[np.intp]:
    """The instruction that determines each wire made here: its hint, or the first row that mentions it."""
    producers = np.full(last - first, -1, np.intp)
    wires = words[span.reads]
    inner = wires >= first
    made, at = np.unique(wires[inner], return_index=True)
    producers[made - np.uint32(first)] = span.instruction_of(span.reads[inner][at])
    for instruction, outputs in span.hint_outputs.items():
        producers[outputs.start - first : outputs.stop - first] = instruction
    if (producers < 0).any():
        raise ValueError("a gadget leaves a wire that it made to others")
    return producers


def _paths(span: Span, words: U32, recording: Recording) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Depth of every instruction, and its longest distance from every outside wire."""
    first, made, outside = recording.begin.wire, recording.end.wire - recording.begin.wire, len(recording.wires)
    # A row per wire made here, then per outside wire, then ONE. A column per outside wire, and a last one for depth.
    reach = np.full((made + outside + 1, outside + 1), UNREACHED, np.int32)
    reach[:made, outside] = NO_LEVEL
    reach[made:, outside] = INPUT_LEVEL
    reach[made + np.arange(outside), np.arange(outside)] = 0
    result = np.empty((len(span.starts), outside + 1), np.int32)
    for instruction, positions in enumerate(span.split_reads()):
        reads = words[positions]
        own = reads[reads >= first] - np.uint32(first)
        outer = recording.outer_index(reads[(reads < first) & (reads != ONE_WIRE)])
        sources = np.concatenate((own, made + outer, [made + outside]))  # everything may read ONE
        here = reach[sources.astype(np.intp)].max(axis=0) + 1
        result[instruction] = here
        reach[own[reach[own, outside] == NO_LEVEL]] = here
        outputs = span.hint_outputs.get(instruction)
        if outputs is not None:
            reach[outputs.start - first : outputs.stop - first] = here
    return result[:, outside].copy(), np.ascontiguousarray(result[:, :outside].T)
