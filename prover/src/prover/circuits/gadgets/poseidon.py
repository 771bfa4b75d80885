"""The Poseidon hash, 213, 240 and 261 constraints for one, two and three inputs."""

from __future__ import annotations

from prover.circuits.frontend.gadget import gadget
from prover.circuits.frontend.system import Expression
from prover.circuits.gadgets.poseidon_constants import parameters


@gadget
def poseidon(*inputs: Expression) -> Expression:
    """Return H(inputs), a linear expression over the wires of the last round."""
    permutation = parameters(len(inputs))
    lanes = [inputs[0] * 0, *inputs]
    for number, constants in enumerate(permutation.round_constants):
        lanes = [lane + constant for lane, constant in zip(lanes, constants, strict=True)]
        substituted = permutation.width if permutation.is_full(number) else 1
        lanes[:substituted] = [fifth_power(lane) for lane in lanes[:substituted]]
        lanes = [mixed(row, lanes) for row in permutation.matrix]
    return lanes[0]


def fifth_power(value: Expression) -> Expression:
    """Return value^5, by three products."""
    squared = value * value
    return value * (squared * squared)


def mixed(row: tuple[int, ...], lanes: list[Expression]) -> Expression:
    """Return the sum of the state's elements weighted by a row of the matrix."""
    result = lanes[0] * row[0]
    for weight, lane in zip(row[1:], lanes[1:], strict=True):
        result = result + lane * weight
    return result
