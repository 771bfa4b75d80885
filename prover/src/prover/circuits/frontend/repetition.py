"""Gadgets are written once and repeated as arrays.

A call of a function marked ``@gadget`` is recorded: what it appended to the tape, from which word to which, and what
it returned. A later call that looks the same appends the recorded arrays again with the wires moved, some hundred
times faster. Two calls look the same when their expressions have the same coefficients over wires in the same order,
the same of them are known to be boolean, and all other arguments are equal: then the gadget would emit the same terms
in the same order with the same coefficient ids.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast

import numpy as np

from prover.circuits.frontend.expression import ONE_WIRE, Expression, Terms
from prover.circuits.frontend.relocation import U32, Recording, Relocation, TapePosition, relocation_of
from prover.circuits.frontend.tape import INPUT_LEVEL, NO_LEVEL, Tape

if TYPE_CHECKING:
    from prover.circuits.frontend.system import ConstraintSystem

P = ParamSpec("P")
R = TypeVar("R")


class Repeater:
    """All recordings of one system."""

    def __init__(self, tape: Tape) -> None:
        self.recordings: dict[Hashable, Recording] = {}
        self._tape = tape
        self._relocations: dict[int, Relocation] = {}
        self._active: list[Recording] = []

    # ---- recording ---------------------------------------------------------------------------

    def record(
        self, system: ConstraintSystem, key: Hashable, inputs: list[Terms], wires: list[int], call: Callable[[], object]
    ) -> object:
        """Runs a gadget and remembers what it did."""
        recording = Recording(inputs, wires, TapePosition.now(system))
        self._active.append(recording)
        try:
            recording.result = call()
        finally:
            self._active.pop()
        recording.end = TapePosition.now(system)
        recording.marks = system.boolean_since(recording.begin.mark)
        if recording.repeatable:
            self.recordings[key] = recording
        return recording.result

    def boolean_asked(self, terms: Terms) -> None:
        """Notes that the gadgets being recorded depend on whether an expression is known to be boolean.

        That is part of how a call looks only for expressions that were handed in or made inside; a gadget that asks
        about another one is not repeated.
        """
        for recording in self._active:
            if terms in recording.inputs:
                recording.asserted.add(terms)
            elif terms[-1][0] < recording.begin.wire:
                recording.repeatable = False

    # ---- repeating ---------------------------------------------------------------------------

    def repeat(self, system: ConstraintSystem, recording: Recording, inputs: list[Terms], wires: list[int]) -> object:
        """Appends a recording with other outside wires and returns the result that the gadget would return."""
        if recording.asserted and self._active:
            for terms, recorded in zip(inputs, recording.inputs, strict=True):
                if recorded in recording.asserted:
                    self.boolean_asked(terms)
        first = recording.begin.wire
        shift = self._tape.wires - first
        moved = dict(zip(recording.wires, wires, strict=True))
        moved[ONE_WIRE] = ONE_WIRE
        if recording.end.instruction > recording.begin.instruction:
            self._append(recording, np.array(wires, np.uint32), shift)

        def move(terms: Terms) -> Terms:
            return tuple((wire + shift if wire >= first else moved[wire], factor) for wire, factor in terms)

        for terms in recording.marks:
            system.mark_boolean(move(terms))
        return _rebuilt(recording.result, lambda expression: Expression(system, move(expression.terms)))

    def _append(self, recording: Recording, wires: U32, shift: int) -> None:
        tape = self._tape
        now = self._relocation(recording)
        words = now.inner * np.uint32(shift)
        words += now.words
        words[now.outer_words] += (wires - recording.outer)[now.outer_wires]  # modulo 2^32, as is the sum
        levels = now.depths
        known = np.array([tape.wire_levels[wire] for wire in wires.tolist()], np.int32)
        reached = known > INPUT_LEVEL
        if reached.any():
            paths = now.distances[reached] + known[reached, np.newaxis]
            levels = np.maximum(levels, paths.max(axis=0))
        tape.starts.frombytes((now.starts + np.uint64(len(tape.words))).tobytes())
        tape.wire_counts.frombytes((now.wire_counts + np.uint32(tape.wires)).tobytes())
        tape.words.frombytes(words.view(np.uint8).data)
        tape.levels.frombytes(levels.tobytes())
        tape.is_hint += now.is_hint
        tape.wire_levels.frombytes(levels[now.producers].tobytes())
        tape.rows += recording.end.row - recording.begin.row

    def _relocation(self, recording: Recording) -> Relocation:
        found = self._relocations.get(id(recording))
        if found is None:
            found = self._relocations[id(recording)] = relocation_of(self._tape, recording)
        return found


# ---- calls -----------------------------------------------------------------------------------


def gadget(body: Callable[P, R]) -> Callable[P, R]:
    """Marks a function of expressions, lists of expressions and plain values that may be repeated by relocation.

    Its result is an expression, a list of expressions or None. It emits through its arguments only.
    """

    @functools.wraps(body)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        expressions: list[Expression] = []
        shape = (body, *(_shape(value, expressions) for value in (*args, *kwargs.items())))
        system = expressions[0].system if expressions else None
        if system is None or system.repeater is None:
            return body(*args, **kwargs)
        system.checkpoint()
        inputs = [expression.terms for expression in expressions]
        wires = sorted({wire for terms in inputs for wire, _ in terms} - {ONE_WIRE})
        if any(system.tape.wire_levels[wire] == NO_LEVEL for wire in wires):
            return body(*args, **kwargs)  # it may be this call that determines the wire
        rank = {wire: number for number, wire in enumerate(wires, 1)}
        rank[ONE_WIRE] = 0
        looks = tuple(tuple((rank[wire], factor) for wire, factor in terms) for terms in inputs)
        key = (shape, looks, tuple(map(system.is_boolean, inputs)))
        recording = system.repeater.recordings.get(key)
        if recording is None:
            return cast("R", system.repeater.record(system, key, inputs, wires, lambda: body(*args, **kwargs)))
        return cast("R", system.repeater.repeat(system, recording, inputs, wires))

    return call


def _shape(value: object, expressions: list[Expression]) -> Hashable:
    """The argument with its expressions taken out."""
    if isinstance(value, Expression):
        expressions.append(value)
        return "expression"
    if isinstance(value, list | tuple):
        return tuple(_shape(item, expressions) for item in value)
    return value


def _rebuilt(result: object, rebuild: Callable[[Expression], Expression]) -> object:
    if isinstance(result, Expression):
        return rebuild(result)
    if isinstance(result, list):
        return [_rebuilt(item, rebuild) for item in result]
    return result
