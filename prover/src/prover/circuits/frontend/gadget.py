"""Functions that emit constraints and are repeated as arrays.

A call of a function marked ``@gadget`` is recorded: the words that it appends to the instructions, and its result. A
later call with an equal key appends the recorded arrays again with the wires moved, several hundred times faster. Two
calls have equal keys when their expressions have the same coefficients over wires in the same order, the same of them
are known to be boolean, and all other arguments are equal. The gadget would then emit the same terms in the same
order with the same coefficient ids.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import ParamSpec, TypeVar, cast

from prover.circuits.frontend.instructions import NO_LEVEL
from prover.circuits.frontend.system import Expression
from prover.circuits.frontend.terms import ONE_WIRE

P = ParamSpec("P")
R = TypeVar("R")


def gadget(body: Callable[P, R]) -> Callable[P, R]:
    """Return a function that repeats earlier calls of ``body`` by relocation where they are equal.

    The arguments of ``body`` are expressions, lists of expressions and plain values; its result is an expression, a
    list of expressions or None. It reads no other expressions and appends only to the system of its arguments.
    """

    @functools.wraps(body)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        expressions: list[Expression] = []
        signature = (body, *(_without_expressions(value, expressions) for value in (*args, *kwargs.items())))
        system = expressions[0].system if expressions else None
        if system is None or system.repeater is None:
            return body(*args, **kwargs)
        system.checkpoint()
        inputs = [expression.terms for expression in expressions]
        wires = sorted({wire for terms in inputs for wire, _ in terms} - {ONE_WIRE})
        if any(system.instructions.wire_levels[wire] == NO_LEVEL for wire in wires):
            return body(*args, **kwargs)  # it may be this call that determines the wire
        rank = {wire: number for number, wire in enumerate(wires, 1)}
        rank[ONE_WIRE] = 0
        patterns = tuple(tuple((rank[wire], factor) for wire, factor in terms) for terms in inputs)
        key = (signature, patterns, tuple(map(system.is_boolean, inputs)))
        recording = system.repeater.recordings.get(key)
        if recording is None:
            return cast("R", system.repeater.record(key, inputs, wires, lambda: body(*args, **kwargs)))
        move = system.repeater.repeat(recording, inputs, wires)
        return cast("R", _rebuilt(recording.result, lambda expression: Expression(system, move(expression.terms))))

    return call


def _without_expressions(value: object, expressions: list[Expression]) -> Hashable:
    """Return the argument with a marker for each expression, which is appended to ``expressions``."""
    if isinstance(value, Expression):
        expressions.append(value)
        return "expression"
    if isinstance(value, list | tuple):
        return tuple(_without_expressions(item, expressions) for item in value)
    return value


def _rebuilt(result: object, rebuild: Callable[[Expression], Expression]) -> object:
    if isinstance(result, Expression):
        return rebuild(result)
    if isinstance(result, list):
        return [_rebuilt(item, rebuild) for item in result]
    return result
