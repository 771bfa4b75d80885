"""BN254 in plain Python: the truth that the kernel's arithmetic is held against, and the byte layout of its hooks.

Points are (x, y) or None for infinity; elements of Fp2 are (c0, c1). Group operations come from py_ecc.
"""

from __future__ import annotations

from typing import Any

from kernel_library import P, R
from py_ecc import optimized_bn128 as bn

Fp2 = tuple[int, int]
G1Point = tuple[int, int] | None
G2Point = tuple[Fp2, Fp2] | None

G1: G1Point = (1, 2)
G2: G2Point = (
    (
        10857046999023057135944570762232829481370756359578518086990519993285655852781,
        11559732032986387107991004021392285783925812861821192530917403151452391805634,
    ),
    (
        8495653923123431417604973247489272438418190587263600148770280649306958101930,
        4082367875863433681332203403145435568316851327593401208105741076214120093531,
    ),
)
COFACTOR_G2 = 2 * P - R


def fp2_add(a: Fp2, b: Fp2) -> Fp2:
    """Return a + b."""
    return ((a[0] + b[0]) % P, (a[1] + b[1]) % P)


def fp2_sub(a: Fp2, b: Fp2) -> Fp2:
    """Return a - b."""
    return ((a[0] - b[0]) % P, (a[1] - b[1]) % P)


def fp2_mul(a: Fp2, b: Fp2) -> Fp2:
    """Return a * b with u^2 = -1."""
    return ((a[0] * b[0] - a[1] * b[1]) % P, (a[0] * b[1] + a[1] * b[0]) % P)


def fp2_inverse(a: Fp2) -> Fp2:
    """Return 1/a, 0 for 0."""
    norm = pow(a[0] * a[0] + a[1] * a[1], P - 2, P)
    return (a[0] * norm % P, -a[1] * norm % P)


def fp2_is_square(a: Fp2) -> bool:
    """Return whether a has a root: its norm to Fp has one."""
    return pow(a[0] * a[0] + a[1] * a[1], (P - 1) // 2, P) in {0, 1}


def fp2_sqrt(a: Fp2) -> Fp2:
    """Return a root of a square, by the root of its norm."""
    if a[1] == 0:
        root = pow(a[0], (P + 1) // 4, P)
        return (root, 0) if root * root % P == a[0] else (0, pow(-a[0], (P + 1) // 4, P))
    norm = pow(a[0] * a[0] + a[1] * a[1], (P + 1) // 4, P)
    for sign in (norm, -norm):
        half = (a[0] + sign) * pow(2, -1, P) % P
        c0 = pow(half, (P + 1) // 4, P)
        if c0 * c0 % P == half:
            return (c0, a[1] * pow(2 * c0, -1, P) % P)
    raise ValueError("not a square")


TWIST_B = fp2_mul((3, 0), fp2_inverse((9, 1)))


def g1_at(x: int) -> G1Point:
    """Return the point of G1 with this x and the smaller y, if there is one."""
    y = pow(x**3 + 3, (P + 1) // 4, P)
    return (x, min(y, P - y)) if (y * y - x**3 - 3) % P == 0 else None


def twist_at(x: Fp2) -> G2Point:
    """Return a point of the twist with this x, if there is one; nearly always outside the group of order r."""
    right = fp2_add(fp2_mul(fp2_mul(x, x), x), TWIST_B)
    return (x, fp2_sqrt(right)) if fp2_is_square(right) else None


def to_py_ecc(point: Any) -> Any:
    """Return a point as py_ecc's projective coordinates."""
    if point is None:
        return None
    x, y = point
    if isinstance(x, int):
        return (bn.FQ(x), bn.FQ(y), bn.FQ.one())
    return (bn.FQ2(x), bn.FQ2(y), bn.FQ2.one())


def from_py_ecc(point: Any) -> Any:
    """Return a point from py_ecc's projective coordinates."""
    if bn.is_inf(point):
        return None
    x, y = bn.normalize(point)
    if isinstance(x, bn.FQ2):
        return (tuple(int(c) for c in x.coeffs), tuple(int(c) for c in y.coeffs))
    return (int(x), int(y))


def add(p: Any, q: Any) -> Any:
    """Return p + q."""
    if p is None or q is None:
        return q if p is None else p
    return from_py_ecc(bn.add(to_py_ecc(p), to_py_ecc(q)))


def negate(p: Any) -> Any:
    """Return -p."""
    if p is None:
        return None
    x, y = p
    return (x, -y % P) if isinstance(y, int) else (x, (-y[0] % P, -y[1] % P))


def multiply(p: Any, scalar: int) -> Any:
    """Return scalar * p for any integer; the order is not assumed."""
    if p is None or scalar == 0:
        return None
    return multiply(negate(p), -scalar) if scalar < 0 else from_py_ecc(bn.multiply(to_py_ecc(p), scalar))


def word(value: int) -> bytes:
    """Return 32 bytes, big-endian."""
    return value.to_bytes(32, "big")


def words(data: bytes) -> list[int]:
    """Return the 32-byte big-endian integers of `data`."""
    return [int.from_bytes(data[i : i + 32], "big") for i in range(0, len(data), 32)]


def fp2_bytes(a: Fp2) -> bytes:
    """Return c0 | c1."""
    return word(a[0]) + word(a[1])


def g1_bytes(point: G1Point) -> bytes:
    """Return x | y, zero for infinity; also gnark's raw form."""
    return bytes(64) if point is None else word(point[0]) + word(point[1])


def g2_bytes(point: G2Point) -> bytes:
    """Return x | y with c0 before c1, zero for infinity: the form of the hooks."""
    return bytes(128) if point is None else fp2_bytes(point[0]) + fp2_bytes(point[1])


def g2_raw(point: G2Point) -> bytes:
    """Return gnark's raw form: c1 before c0."""
    return bytes(128) if point is None else b"".join(word(c[1]) + word(c[0]) for c in point)


def g1_from_bytes(data: bytes) -> G1Point:
    """Return inverse of g1_bytes."""
    x, y = words(data[:64])
    return None if (x, y) == (0, 0) else (x, y)


def g2_from_bytes(data: bytes) -> G2Point:
    """Return inverse of g2_bytes."""
    x0, x1, y0, y1 = words(data[:128])
    return None if (x0, x1, y0, y1) == (0, 0, 0, 0) else ((x0, x1), (y0, y1))


def g1_compressed(point: G1Point) -> bytes:
    """Return gnark's compressed form."""
    if point is None:
        return b"\x40" + bytes(31)
    flag = 0xC0 if point[1] > (P - 1) // 2 else 0x80
    encoded = word(point[0])
    return bytes([encoded[0] | flag]) + encoded[1:]


def g2_compressed(point: G2Point) -> bytes:
    """Return gnark's compressed form: c1 before c0."""
    if point is None:
        return b"\x40" + bytes(63)
    (x0, x1), (y0, y1) = point
    flag = 0xC0 if (y1 or y0) > (P - 1) // 2 else 0x80
    encoded = word(x1) + word(x0)
    return bytes([encoded[0] | flag]) + encoded[1:]


def fq12_bytes(value: Any) -> bytes:
    """Return py_ecc's element of Fp12, a polynomial in w over Fp, in the tower of the hooks.

    u = w^6 - 9, so coefficients a of w^i and b of w^(i+6) belong to (a + 9b) + b*u at w^i; the tower has w^0, w^2, w^4
    first and w^1, w^3, w^5 then.
    """
    c = [int(x) for x in value.coeffs]
    return b"".join(word((c[i] + 9 * c[i + 6]) % P) + word(c[i + 6]) for i in (0, 2, 4, 1, 3, 5))


def fq12_from_bytes(data: bytes) -> Any:
    """Return inverse of fq12_bytes."""
    values = words(data[:384])
    coefficients = [0] * 12
    for place, i in enumerate((0, 2, 4, 1, 3, 5)):
        c0, c1 = values[2 * place], values[2 * place + 1]
        coefficients[i] = (c0 - 9 * c1) % P
        coefficients[i + 6] = c1
    return bn.FQ12(coefficients)
