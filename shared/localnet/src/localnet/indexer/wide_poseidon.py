"""Poseidon over the BN254 scalar field for more inputs than the native code takes (1 to 7; circomlib parameters).

Hashes of compressed accounts have 3 to 7 inputs. Plain Python, some 0.5 ms a hash; the native code of
``shared.poseidon`` does the trees. Source: circuits.md section 1.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from shared.field import FIELD_BYTES, SCALAR_MODULUS
from shared.poseidon import MAX_INPUTS as NATIVE_INPUTS
from shared.poseidon import hash_many

MAX_INPUTS = 7

Matrix = list[list[int]]

_FULL_ROUNDS = 8
_PARTIAL_ROUNDS = (56, 57, 56, 60, 60, 63, 64)
"""By number of inputs, from 1."""

_FIELD_BITS = 254
_STEP = 18
"""Bits of the register that depend on earlier bits only, and so come out together."""


def hash_elements(elements: Sequence[bytes]) -> bytes:
    """Hash 1 to 7 field elements of 32 bytes; ValueError for another number, and outside the field."""
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
    prepared = _prepare(len(state))
    for constants in prepared.first:
        state = _full_round(state, constants, prepared.matrix)
    state = [value + constant for value, constant in zip(state, prepared.entry, strict=True)]
    for after, row, column, following in prepared.partial:
        head = _fifth_power(state[0]) + after
        rest = state[1:]
        first = row[0] * head + sum(map(int.__mul__, row[1:], rest)) + following
        state = [first % SCALAR_MODULUS, *((x + c * head) % SCALAR_MODULUS for x, c in zip(rest, column, strict=True))]
    state = _apply(prepared.leave, state)
    for constants in prepared.last:
        state = _full_round(state, constants, prepared.matrix)
    return state


def _full_round(state: list[int], constants: list[int], matrix: Matrix) -> list[int]:
    return _apply(matrix, [_fifth_power(value + c) for value, c in zip(state, constants, strict=True)])


def _fifth_power(value: int) -> int:
    square = value * value % SCALAR_MODULUS
    return square * square % SCALAR_MODULUS * value % SCALAR_MODULUS


def _apply(matrix: Matrix, vector: list[int]) -> list[int]:
    return [sum(map(int.__mul__, line, vector)) % SCALAR_MODULUS for line in matrix]


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The permutation with cheap partial rounds (Grassi et al., "Poseidon", 2021, appendix B).

    A partial round touches lane 0 only. So constants of the other lanes move to the round before, and each dense matrix
    is split into a sparse one and a block that leaves lane 0 alone and moves to the round after. Per partial round:
    what is added to lane 0 behind the S-box, first row and first column of the matrix, and the constant of lane 0 of
    the next round. ``entry`` is added before the partial rounds, ``leave`` applied behind them.
    """

    first: list[list[int]]
    entry: list[int]
    partial: list[tuple[int, list[int], list[int], int]]
    leave: Matrix
    last: list[list[int]]
    matrix: Matrix


@cache
def _prepare(width: int) -> _Prepared:
    constants, matrix = _parameters(width)
    half, count = _FULL_ROUNDS // 2, _PARTIAL_ROUNDS[width - 2]
    middle = constants[half : half + count]
    inverse = _invert(matrix)
    afters = [0] * count
    for number in range(count - 1, 0, -1):
        moved = _apply(inverse, [0, *middle[number][1:]])
        afters[number - 1] = moved[0]
        middle[number - 1] = [middle[number - 1][0], *map(int.__add__, middle[number - 1][1:], moved[1:])]
    followings = [*(line[0] for line in middle[1:]), 0]
    partial = []
    dense = leave = matrix
    for after, following in zip(afters, followings, strict=True):
        block = [line[1:] for line in dense[1:]]
        column = _apply(_invert(block), [line[0] for line in dense[1:]])
        partial.append((after, dense[0], column, following))
        leave = [[1] + [0] * (width - 1), *([0, *line] for line in block)]
        columns = [list(other) for other in zip(*leave, strict=True)]
        dense = [_apply(columns, line) for line in matrix]
    return _Prepared(constants[:half], middle[0], partial, leave, constants[half + count :], matrix)


def _invert(matrix: Matrix) -> Matrix:
    """Gauss-Jordan elimination; the matrices here have an inverse."""
    size = len(matrix)
    rows = [[*line, *(int(i == j) for j in range(size))] for i, line in enumerate(matrix)]
    for i in range(size):
        pivot = next(j for j in range(i, size) if rows[j][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        scale = pow(rows[i][i], -1, SCALAR_MODULUS)
        rows[i] = [value * scale % SCALAR_MODULUS for value in rows[i]]
        for j in range(size):
            if j != i and rows[j][i]:
                factor = rows[j][i]
                rows[j] = [(x - factor * y) % SCALAR_MODULUS for x, y in zip(rows[j], rows[i], strict=True)]
    return [row[size:] for row in rows]


def _parameters(width: int) -> tuple[list[list[int]], Matrix]:
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
