"""Poseidon over the BN254 scalar field for more inputs than the native code takes (1 to 12; circomlib parameters).

Hashes of compressed accounts have 3 to 7 inputs. Plain Python, some 0.5 ms a hash; the native code of
``shared.poseidon`` does the trees. Source: circuits.md section 1.
"""

from collections.abc import Iterator, Sequence
from functools import cache

from shared.field import FIELD_BYTES, SCALAR_MODULUS
from shared.poseidon import MAX_INPUTS as NATIVE_INPUTS
from shared.poseidon import hash_many

MAX_INPUTS = 12

_FULL_ROUNDS = 8
_PARTIAL_ROUNDS = (56, 57, 56, 60, 60, 63, 64, 63, 60, 66, 60, 65)
"""By number of inputs, from 1."""

_FIELD_BITS = 254
_STEP = 18
"""Bits of the register that depend on earlier bits only, and so come out together."""


def hash_elements(elements: Sequence[bytes]) -> bytes:
    """Hash 1 to 12 field elements of 32 bytes; ValueError for another number, and outside the field."""
    if not 1 <= len(elements) <= MAX_INPUTS:
        message = f"Poseidon takes 1 to {MAX_INPUTS} inputs, not {len(elements)}"
        raise ValueError(message)
    if len(elements) <= NATIVE_INPUTS:
        return hash_many(b"".join(elements), len(elements))
    numbers = [int.from_bytes(element, "big") for element in elements]
    for number in numbers:
        if number >= SCALAR_MODULUS:
            message = f"{number:#x} is not below the scalar field order"
            raise ValueError(message)
    return _permute([0, *numbers])[0].to_bytes(FIELD_BYTES, "big")


def _permute(state: list[int]) -> list[int]:
    constants, matrix = _parameters(len(state))
    half, partial = _FULL_ROUNDS // 2, _PARTIAL_ROUNDS[len(state) - 2]
    for number, row in enumerate(constants):
        state = [value + constant for value, constant in zip(state, row, strict=True)]
        lanes = 1 if half <= number < half + partial else len(state)
        for lane in range(lanes):
            square = state[lane] * state[lane] % SCALAR_MODULUS
            state[lane] = square * square * state[lane] % SCALAR_MODULUS
        state = [sum(map(int.__mul__, line, state)) % SCALAR_MODULUS for line in matrix]
    return state


@cache
def _parameters(width: int) -> tuple[list[list[int]], list[list[int]]]:
    """Round constants, one row a round, and the matrix: what the Grain LFSR of this width gives."""
    rounds = _FULL_ROUNDS + _PARTIAL_ROUNDS[width - 2]
    bits = _grain_bits(width, _PARTIAL_ROUNDS[width - 2])
    constants: list[int] = []
    while len(constants) < rounds * width:
        drawn = _draw(bits)
        if drawn < SCALAR_MODULUS:
            constants.append(drawn)
    points = [_draw(bits) % SCALAR_MODULUS for _ in range(2 * width)]
    matrix = [[pow(x + y, -1, SCALAR_MODULUS) for y in points[width:]] for x in points[:width]]
    return [constants[start : start + width] for start in range(0, len(constants), width)], matrix


def _draw(bits: Iterator[bool]) -> int:
    value = 0
    for _ in range(_FIELD_BITS):
        value = value << 1 | next(bits)
    return value


def _grain_bits(width: int, partial_rounds: int) -> Iterator[bool]:
    """The self-shrunk output of the 80-bit register: of each pair of bits whose first is one, the second."""
    fields = ((1, 2), (0, 4), (_FIELD_BITS, 12), (width, 12), (_FULL_ROUNDS, 10), (partial_rounds, 10), (2**30 - 1, 30))
    text = "".join(f"{value:0{size}b}" for value, size in fields)
    register = int(text[::-1], 2)  # bit i is the i-th oldest
    mask = (1 << _STEP) - 1
    produced = 0
    while True:
        fresh = register >> 62 ^ register >> 51 ^ register >> 38 ^ register >> 23 ^ register >> 13 ^ register
        fresh &= mask
        register = register >> _STEP | fresh << 62
        # The first 160 bits are thrown away; 160 and the step are even, so that pairs stay pairs.
        for place in range(0, _STEP, 2):
            produced += 2
            if produced > 160 and fresh >> place & 1:
                yield bool(fresh >> (place + 1) & 1)
