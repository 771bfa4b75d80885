"""Random constraint systems that can be solved, and inputs for them."""

from __future__ import annotations

from gnark_conversion import Expression
from golden_vectors import SCALAR_MODULUS
from hypothesis import strategies as st
from small_systems import BITS, INVERSE_OR_ZERO, ONE, System

FIELD = st.one_of(
    st.sampled_from([0, 1, 2, SCALAR_MODULUS - 1, SCALAR_MODULUS - 2]), st.integers(0, SCALAR_MODULUS - 1)
)


@st.composite
def solvable_systems(draw: st.DrawFn) -> tuple[System, list[int]]:
    """Return random rows that each solve a wire on any side, hints, and checks that always hold."""
    system = System(public=1, secret=draw(st.integers(1, 4)))
    coefficients = st.one_of(st.sampled_from([1, -1, 2, -2, 0]), FIELD).map(system.coefficient)

    def expression(longest: int) -> Expression:
        known = st.integers(0, system.inputs + system.internal - 1)
        return draw(st.lists(st.tuples(coefficients, known), max_size=longest))

    for _ in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from("RRRRHC"))
        if kind == "H":
            bits = draw(st.booleans())
            terms = expression(5)
            first = system.hint(BITS if bits else INVERSE_OR_ZERO, terms, draw(st.integers(1, 254)) if bits else 1)
            system.row([(1, first)], [(1, 0)], [(1, system.new_wire())])  # 0.8 runs a hint only when it is read
        elif kind == "C":
            terms = expression(80)
            system.row(terms, ONE, terms)
        else:
            longest = draw(st.sampled_from([1, 3, 80, 300]))
            sides = [expression(longest), expression(longest), expression(5)]
            unknown = draw(st.sampled_from([0, 1, 2, 2, 2]))
            coefficient = system.coefficient(draw(st.sampled_from([1, 1, -1, 7])))
            wire = system.new_wire()
            sides[unknown].insert(draw(st.integers(0, len(sides[unknown]))), (coefficient, wire))
            system.row(sides[0], sides[1], sides[2])
    return system, draw(st.lists(FIELD, min_size=system.inputs - 1, max_size=system.inputs - 1))
