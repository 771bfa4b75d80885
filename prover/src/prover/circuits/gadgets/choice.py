"""Selection by a bit, and test for zero."""

from __future__ import annotations

from prover.circuits.frontend.system import Expression


def select(bit: Expression, one: Expression, zero: Expression) -> Expression:
    """Return ``one`` if bit is 1, ``zero`` if it is 0; one constraint, two unless bit is known to be boolean."""
    bit.system.assert_boolean(bit)
    if bit.constant is not None:
        return one if bit.constant else zero
    if one.constant is not None and zero.constant is not None:
        return bit * (one - zero) + zero
    if one.constant == 0:
        return (1 - bit) * zero
    return bit * (one - zero) + zero


def is_zero(value: Expression) -> Expression:
    """Return 1 if value is 0, else 0: two constraints over an inverse that the solver supplies."""
    system = value.system
    if value.constant is not None:
        return system.constant(int(value.constant == 0))
    result = system.new_wire()
    (inverse,) = system.hint(system.release.inverse_or_zero, [value], 1)
    system.constrain((-value).terms, inverse.terms, (result - 1).terms)
    system.constrain(value.terms, result.terms, system.constant(0).terms)
    if system.release.is_zero_is_boolean:
        system.mark_boolean(result.terms)
    return result
