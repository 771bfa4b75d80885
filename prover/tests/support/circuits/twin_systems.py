"""Systems whose keys and witnesses are the worst for sums: equal, opposite and missing bases under equal scalars.

Secret wires come as twins: the columns of a twin are those of its original, or their opposites, or zero on one side. So
bases of A, B and K are equal, opposite, or infinity, which keys leave out.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from gnark_conversion import Expression
from kernel_library import R
from small_systems import ONE, System

CUBE_ROOT = pow(5, (R - 1) // 3, R)
"""Of one: its multiples of points are images by the endomorphism."""
TAUS = {
    "random": 0x1BF46CEA6397A3C18716F57DFD2EC9ACD5B99463DB74940945DD833F328B18F0,
    "of order 3": CUBE_ROOT,
    "of order 6": R - CUBE_ROOT,
    "of order 9": pow(5, (R - 1) // 9, R),
}
"""Powers of the last three repeat: bases of the quotient are equal, opposite, or images of each other."""
INPUTS = ("zeros", "ones", "largest", "one value", "edges", "random")
"""Kinds of values that all inputs have."""

_COEFFICIENTS = (0, 1, 1, -1, 2, -2, 7)
_SIGNS = ((1, 1), (1, -1), (-1, 1), (-1, -1), (1, 0), (0, 1), (-1, 0))
"""Signs of a twin's columns in A and B, relative to those of its original."""
_EDGES = (0, 1, 2, R - 1, R - 2, CUBE_ROOT, R - CUBE_ROOT, 2**127, 2**253)


@dataclass(frozen=True)
class Shape:
    """Of a system: rows, original secret wires, and twins of all originals together."""

    rows: int
    originals: int
    twins: int


def twin_system(shape: Shape, seed: int = 0) -> System:
    """Return a system that any inputs solve; each row but the first multiplies sums of twins into a wire."""
    draw = random.Random(seed)
    system = System(public=1, secret=shape.originals + shape.twins)
    kinds = [(number, (1, 1)) for number in range(shape.originals)]
    kinds += [(draw.randrange(shape.originals), draw.choice(_SIGNS)) for _ in range(shape.twins)]

    def side(number: int, weights: list[int]) -> Expression:
        terms = ((weights[original] * signs[number], wire) for wire, (original, signs) in enumerate(kinds, start=2))
        return [(system.coefficient(weight), wire) for weight, wire in terms if weight]

    known = [1]
    system.row(ONE, [(1, known[0])], [(1, system.new_wire())])
    for row in range(1, shape.rows):
        sides = [
            side(number, [1] * shape.originals if row == 1 else draw.choices(_COEFFICIENTS, k=shape.originals))
            for number in range(2)
        ]
        earlier = draw.choice(known)
        if draw.random() < 0.2:
            sides[draw.randrange(2)].append((1, earlier))
        out = system.new_wire()
        system.row(sides[0], sides[1], [(1, out), (system.coefficient(draw.choice(_COEFFICIENTS)), earlier)])
        known.append(out)
    return system


def inputs_of(system: System, kind: str) -> list[int]:
    """Return public and secret inputs of a kind."""
    draw = random.Random(kind)
    count = system.public + system.secret
    same = {"zeros": 0, "ones": 1, "largest": R - 1, "one value": draw.randrange(R)}
    if kind in same:
        return [same[kind]] * count
    return [draw.choice(_EDGES) if kind == "edges" else draw.randrange(R) for _ in range(count)]
