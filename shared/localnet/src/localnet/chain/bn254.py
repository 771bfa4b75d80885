"""Points of BN254 in Python, for verifying keys and simulated proofs: a few operations, none of them secret.

G1 points are (x, y) and G2 points ((x0, x1), (y0, y1)) with x = x0 + x1 u, u² = -1; None is the point at infinity.
Encodings: shared/localnet/docs/chain.md, "Verifying keys in programs".
"""

from functools import lru_cache

from shared.trees.field import BASE_MODULUS as P
from shared.trees.field import SCALAR_MODULUS as R

Fp2 = tuple[int, int]
G1 = tuple[int, int]
G2 = tuple[Fp2, Fp2]

G1_GENERATOR: G1 = (1, 2)
G2_GENERATOR: G2 = (
    (
        10857046999023057135944570762232829481370756359578518086990519993285655852781,
        11559732032986387107991004021392285783925812861821192530917403151452391805634,
    ),
    (
        8495653923123431417604973247489272438418190587263600148770280649306958101930,
        4082367875863433681332203403145435568316851327593401208105741076214120093531,
    ),
)
_G2_B: Fp2 = (
    19485874751759354771024239261021720505790618469301721065564631296452457478373,
    266929791119991161246907387137283842545076965332900288569378510910307636690,
)

_LARGER, _SMALLER, _MASK = 0xC0, 0x80, 0xC0
"""Values of the two high bits of a compressed coordinate in gnark, which select one of the two roots as y."""


class PointInvalid(ValueError):
    """The bytes are not a point of the curve."""


def _fp2_mul(a: Fp2, b: Fp2) -> Fp2:
    return ((a[0] * b[0] - a[1] * b[1]) % P, (a[0] * b[1] + a[1] * b[0]) % P)


def g1_add(left: G1 | None, right: G1 | None) -> G1 | None:
    """Sum of two points."""
    if left is None or right is None:
        return right if left is None else left
    if left[0] == right[0]:
        if (left[1] + right[1]) % P == 0:
            return None
        slope = 3 * left[0] * left[0] * pow(2 * left[1], -1, P)
    else:
        slope = (right[1] - left[1]) * pow(right[0] - left[0], -1, P)
    x = (slope * slope - left[0] - right[0]) % P
    return x, (slope * (left[0] - x) - left[1]) % P


@lru_cache(maxsize=4)
def _doublings(point: G1) -> tuple[G1, ...]:
    """Return the point times 1, 2, 4, 8 and so on."""
    doublings: list[G1] = []
    addend: G1 | None = point
    while addend is not None and len(doublings) < R.bit_length():
        doublings.append(addend)
        addend = g1_add(addend, addend)
    return tuple(doublings)


def g1_mul(point: G1, scalar: int) -> G1:
    """Return a multiple of a point; raise PointInvalid if it is the point at infinity.

    The sum is kept as (x / z², y / z³), which takes one inversion in all. Its addends are multiples by distinct powers
    of two, so that no sum of some equals the next, or its opposite.
    """
    scalar %= R
    if scalar == 0:
        raise PointInvalid("the multiple is the point at infinity")
    chosen = [double for place, double in enumerate(_doublings(point)) if scalar >> place & 1]
    (x, y), z = chosen[0], 1
    for other_x, other_y in chosen[1:]:
        square = z * z % P
        h = (other_x * square - x) % P
        slope = (other_y * square * z - y) % P
        hh = h * h % P
        hhh, v = h * hh % P, x * hh % P
        x = (slope * slope - hhh - 2 * v) % P
        y = (slope * (v - x) - y * hhh) % P
        z = z * h % P
    inverse = pow(z, -1, P)
    square = inverse * inverse % P
    return x * square % P, y * square * inverse % P


def _word(number: int) -> bytes:
    return number.to_bytes(32, "big")


def g1_bytes(point: G1) -> bytes:
    """Return x and y, 64 bytes."""
    return _word(point[0]) + _word(point[1])


def g2_bytes(point: G2) -> bytes:
    """Return the coordinates, imaginary parts before real ones, 128 bytes."""
    (x0, x1), (y0, y1) = point
    return b"".join(map(_word, (x1, x0, y1, y0)))


def _sqrt(square: int) -> int:
    root = pow(square, (P + 1) // 4, P)
    if root * root % P != square % P:
        raise PointInvalid("not the x coordinate of a point")
    return root


def _fp2_sqrt(square: Fp2) -> Fp2:
    """Square root by the norm: if (a + b u)² = s then a² = (s0 ± |s|) / 2."""
    norm = _sqrt((square[0] * square[0] + square[1] * square[1]) % P)
    half = pow(2, -1, P)
    for sign in (norm, -norm):
        try:
            a = _sqrt((square[0] + sign) * half % P)
        except PointInvalid:
            continue
        if a == 0:
            return 0, _sqrt(-square[0] % P)
        root = (a, square[1] * pow(2 * a, -1, P) % P)
        if _fp2_mul(root, root) == (square[0] % P, square[1] % P):
            return root
    raise PointInvalid("not the x coordinate of a point")


def _root_flag(data: bytes) -> bool:
    """Return whether y is the larger root; raise PointInvalid for other flags, also for infinity."""
    if data[0] & _MASK not in (_LARGER, _SMALLER):
        raise PointInvalid("not a compressed point")
    return data[0] & _MASK == _LARGER


def _is_larger(value: int) -> bool:
    return value > P - value


def g1_decompress(data: bytes) -> G1:
    """Decode a point from gnark's 32 compressed bytes."""
    larger = _root_flag(data)
    x = int.from_bytes(bytes([data[0] & ~_MASK & 0xFF]) + data[1:], "big")
    y = _sqrt((x * x * x + 3) % P)
    return x, y if _is_larger(y) == larger else P - y


def g2_decompress(data: bytes) -> G2:
    """Decode a point from gnark's 64 compressed bytes."""
    larger = _root_flag(data)
    x1 = int.from_bytes(bytes([data[0] & ~_MASK & 0xFF]) + data[1:32], "big")
    x: Fp2 = (int.from_bytes(data[32:], "big"), x1)
    cube = _fp2_mul(_fp2_mul(x, x), x)
    y = _fp2_sqrt(((cube[0] + _G2_B[0]) % P, (cube[1] + _G2_B[1]) % P))
    if (_is_larger(y[1]) if y[1] else _is_larger(y[0])) != larger:
        y = (-y[0] % P, -y[1] % P)
    return x, y
