"""Recordings of gadget calls, and their repetition with other wires."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np

from prover.circuits.frontend.boolean_expressions import BooleanExpressions
from prover.circuits.frontend.instructions import INPUT_LEVEL, InstructionList
from prover.circuits.frontend.relocation import U32, InstructionPosition, Recording, Relocation, relocation_of
from prover.circuits.frontend.terms import ONE_WIRE, Terms


class Repeater:
    """Recordings of the gadgets that one system called."""

    def __init__(self, instructions: InstructionList, booleans: BooleanExpressions) -> None:
        self.recordings: dict[Hashable, Recording] = {}
        self._instructions = instructions
        self._booleans = booleans
        self._relocations: dict[int, Relocation] = {}
        self._active: list[Recording] = []

    def record(self, key: Hashable, inputs: list[Terms], wires: list[int], call: Callable[[], object]) -> object:
        """Call a gadget, record what it appends, and return its result."""
        recording = Recording(inputs, wires, self._position())
        self._active.append(recording)
        try:
            recording.result = call()
        finally:
            self._active.pop()
        recording.end = self._position()
        recording.booleans = self._booleans.since(recording.begin.boolean)
        if recording.repeatable:
            self.recordings[key] = recording
        return recording.result

    def note_assertion(self, terms: Terms) -> None:
        """Note that the gadgets being recorded assert an expression to be boolean.

        They emit nothing if it is known to be boolean. The key of a call records that for its arguments; a gadget that
        asserts another expression from outside is not repeated.
        """
        for recording in self._active:
            if terms in recording.inputs:
                recording.asserted.add(terms)
            elif terms[-1][0] < recording.begin.wire:
                recording.repeatable = False

    def repeat(self, recording: Recording, inputs: list[Terms], wires: list[int]) -> Callable[[Terms], Terms]:
        """Append a recording with other outside wires; return the mapping of its expressions to those of this call."""
        if recording.asserted and self._active:
            for terms, recorded in zip(inputs, recording.inputs, strict=True):
                if recorded in recording.asserted:
                    self.note_assertion(terms)
        first = recording.begin.wire
        shift = self._instructions.wires - first
        moved = dict(zip(recording.wires, wires, strict=True))
        moved[ONE_WIRE] = ONE_WIRE
        if recording.end.instruction > recording.begin.instruction:
            self._append(recording, np.array(wires, np.uint32), shift)

        def move(terms: Terms) -> Terms:
            return tuple((wire + shift if wire >= first else moved[wire], factor) for wire, factor in terms)

        for terms in recording.booleans:
            self._booleans.add(move(terms))
        return move

    def _position(self) -> InstructionPosition:
        return InstructionPosition.end_of(self._instructions, self._booleans)

    def _append(self, recording: Recording, wires: U32, shift: int) -> None:
        instructions = self._instructions
        now = self._relocation(recording)
        words = now.inner * np.uint32(shift)
        words += now.words
        words[now.outer_words] += (wires - recording.outer)[now.outer_wires]  # modulo 2^32, as is the sum
        levels = now.depths
        known = np.array([instructions.wire_levels[wire] for wire in wires.tolist()], np.int32)
        reached = known > INPUT_LEVEL
        if reached.any():
            paths = now.distances[reached] + known[reached, np.newaxis]
            levels = np.maximum(levels, paths.max(axis=0))
        instructions.starts.frombytes((now.starts + np.uint64(len(instructions.words))).tobytes())
        instructions.wire_counts.frombytes((now.wire_counts + np.uint32(instructions.wires)).tobytes())
        instructions.words.frombytes(words.view(np.uint8).data)
        instructions.levels.frombytes(levels.tobytes())
        instructions.is_hint += now.is_hint
        instructions.wire_levels.frombytes(levels[now.producers].tobytes())
        instructions.rows += recording.end.row - recording.begin.row

    def _relocation(self, recording: Recording) -> Relocation:
        found = self._relocations.get(id(recording))
        if found is None:
            found = self._relocations[id(recording)] = relocation_of(self._instructions, recording)
        return found
