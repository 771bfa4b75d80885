"""Binary decomposition, and comparison by it."""

from __future__ import annotations

from prover.circuits.frontend.gadget import gadget
from prover.circuits.frontend.system import Expression
from prover.circuits.widths import ADDRESS_BITS

_MAXIMUM_SIZE = 253
"""With more bits a number has several decompositions modulo r."""


@gadget
def to_bits(value: Expression, size: int) -> list[Expression]:
    """Return the bits of a number below 2^size, lowest first; size + 1 constraints."""
    if not 1 <= size <= _MAXIMUM_SIZE:
        raise ValueError(f"a decomposition has 1 to {_MAXIMUM_SIZE} bits, not {size}")
    system = value.system
    if value.constant is not None:
        return [system.constant(value.constant >> place & 1) for place in range(size)]
    if size == 1:
        system.assert_boolean(value)
        return [value]
    bits = system.hint(system.release.bits, [value], size)
    recomposed = system.constant(0)
    for place, bit in enumerate(bits):
        recomposed = recomposed + bit * 2**place
        system.assert_boolean(bit)
    system.assert_equal(recomposed, value)
    return bits


@gadget
def assert_less(low: Expression, high: Expression) -> None:
    """Assert low < high for numbers below 2^248; exactly: (high - low) mod r is in [1, 2^248]."""
    to_bits(low + (2**ADDRESS_BITS - high), ADDRESS_BITS)
