"""Groth16 verification without our code: py_ecc's pairing, and the reference binary's own verifier.

Both start from the bytes of a verifying key (gnark's compressed form). The reference's ``verify`` command can
only check proofs against one public input of value 0, so the public inputs are folded into the key:
K0' = K0 + sum x_i K_(i+1), and a published key file carries the folded key into the binary. That is the
same pairing equation, computed by gnark.
"""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from golden_vectors import load
from py_ecc.optimized_bn128 import (
    FQ,
    FQ2,
    add,
    curve_order,
    field_modulus,
    final_exponentiate,
    is_on_curve,
    multiply,
    neg,
    normalize,
    pairing,
)
from py_ecc.optimized_bn128 import b as b_g1
from py_ecc.optimized_bn128 import b2 as b_g2

P = field_modulus
_HALF = (P - 1) // 2
_G1_BYTES, _G2_BYTES = 32, 64


@dataclass(frozen=True)
class IndependentKey:
    """A verifying key as py_ecc points, and the compressed bytes it came from."""

    alpha: Any
    beta: Any
    gamma: Any
    delta: Any
    k: tuple[Any, ...]
    head: bytes
    """alpha, beta, beta2, gamma2, delta, delta2: everything before K."""

    @classmethod
    def read(cls, data: bytes) -> IndependentKey:
        """Read gnark's compressed points, of either format version."""
        order = (("alpha", 0), ("beta1", 0), ("beta", 1), ("gamma", 1), ("delta1", 0), ("delta", 1))
        at, points = 0, {}
        for name, group in order:
            size = _G2_BYTES if group else _G1_BYTES
            points[name] = (read_g2 if group else read_g1)(data[at : at + size])
            at += size
        (count,) = struct.unpack_from(">I", data, at)
        start = at + 4
        k = tuple(read_g1(data[start + _G1_BYTES * i : start + _G1_BYTES * (i + 1)]) for i in range(count))
        if len(data) - (start + _G1_BYTES * count) not in (0, 8):
            raise ValueError("bytes after the verifying key")
        return cls(points["alpha"], points["beta"], points["gamma"], points["delta"], k, data[:at])

    def folded(self, public_inputs: Sequence[int]) -> Any:
        """Return k0 + sum x_i K_(i+1)."""
        if len(public_inputs) != len(self.k) - 1:
            raise ValueError("wrong number of public inputs")
        total = self.k[0]
        for value, point in zip(public_inputs, self.k[1:], strict=True):
            total = add(total, multiply(point, value % curve_order))
        return total


def holds(key: IndependentKey, proof: dict[str, Any], public_inputs: Sequence[int]) -> bool:
    """Return whether e(A, B) = e(alpha, beta) e(K, gamma) e(C, delta), by py_ecc."""
    a, b, c = points_of(proof)
    if not (is_on_curve(a, b_g1) and is_on_curve(b, b_g2) and is_on_curve(c, b_g1)):
        return False
    product = (
        pairing(b, neg(a), final_exponentiate=False)
        * pairing(key.beta, key.alpha, final_exponentiate=False)
        * pairing(key.gamma, key.folded(public_inputs), final_exponentiate=False)
        * pairing(key.delta, c, final_exponentiate=False)
    )
    return bool(final_exponentiate(product) == type(product).one())


def points_of(proof: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Return Ar, Bs and Krs of a proof."""
    (x1, x0), (y1, y0) = ([int(text, 16) for text in pair] for pair in proof["bs"])
    ar, krs = (g1(*(int(text, 16) for text in proof[name])) for name in ("ar", "krs"))
    return ar, (FQ2([x0, x1]), FQ2([y0, y1]), FQ2.one()), krs


def reference_accepts(
    binary: Path, carrier: Path, folder: Path, key: IndependentKey, proof: bytes, public_inputs: Sequence[int]
) -> bool:
    """Return whether the reference binary's verifier accepts; ``carrier`` is the published inclusion_32_1.key."""
    sections = load("gnark/inclusion_32_1.json")["sections"]
    published = carrier.read_bytes()
    folded = write_g1(key.folded(public_inputs))
    verifying_key = key.head + struct.pack(">I", 2) + folded + write_g1(key.k[1])
    file = folder / "carrier.key"
    file.write_bytes(published[: sections["vk_offset"]] + verifying_key + published[sections["cs_offset"] :])
    answer = subprocess.run(
        [str(binary), "verify", "--keys-file", str(file), "--circuit", "inclusion"],
        input=proof,
        capture_output=True,
        check=False,
    )
    return answer.returncode == 0


def g1(x: int, y: int) -> Any:
    """Return an affine point."""
    return (FQ(x), FQ(y), FQ.one())


def read_g1(data: bytes) -> Any:
    """Return a compressed G1 point."""
    flags, x = data[0] >> 6, int.from_bytes(bytes([data[0] & 0x3F]) + data[1:], "big")
    if flags not in (2, 3) or x >= P:
        raise ValueError("not a compressed point")
    y = pow(x**3 + 3, (P + 1) // 4, P)
    if (y > _HALF) != (flags == 3):
        y = P - y
    point = g1(x, y)
    if not is_on_curve(point, b_g1):
        raise ValueError("not on the curve")
    return point


def write_g1(point: Any) -> bytes:
    """Return a G1 point, compressed."""
    x, y = (int(value) for value in normalize(point))
    data = bytearray(x.to_bytes(_G1_BYTES, "big"))
    data[0] |= 0xC0 if y > _HALF else 0x80
    return bytes(data)


def read_g2(data: bytes) -> Any:
    """Return a compressed G2 point, imaginary part of x first."""
    flags = data[0] >> 6
    x1 = int.from_bytes(bytes([data[0] & 0x3F]) + data[1:32], "big")
    x0 = int.from_bytes(data[32:], "big")
    if flags not in (2, 3) or max(x0, x1) >= P:
        raise ValueError("not a compressed point")
    x = FQ2([x0, x1])
    y = _sqrt_fq2(x * x * x + b_g2)
    imaginary, real = int(y.coeffs[1]), int(y.coeffs[0])
    larger = imaginary > _HALF if imaginary else real > _HALF
    return (x, y if larger == (flags == 3) else -y, FQ2.one())


def _sqrt_fq2(value: Any) -> Any:
    """Return a square root in Fp2 for p = 3 mod 4 (complex method)."""
    a, b = (int(part) for part in value.coeffs)
    norm = pow(a * a + b * b, (P + 1) // 4, P)
    for sign in (1, -1):
        half = (a + sign * norm) * pow(2, -1, P) % P
        real = pow(half, (P + 1) // 4, P)
        if real * real % P == half and real:
            root = FQ2([real, b * pow(2 * real, -1, P) % P])
            if root * root == value:
                return root
    root = FQ2([0, pow(-a % P, (P + 1) // 4, P)])
    if root * root != value:
        raise ValueError("not on the curve")
    return root


def on_chain_block(key: IndependentKey) -> tuple[bytes, bytes]:
    """Return the key as on-chain programs hold it: main block of 448 bytes, and the K points, 64 bytes each."""

    def raw_g1(point: Any) -> bytes:
        return b"".join(int(value).to_bytes(32, "big") for value in normalize(point))

    def raw_g2(point: Any) -> bytes:
        x, y = normalize(point)
        return b"".join(int(part).to_bytes(32, "big") for part in (x.coeffs[1], x.coeffs[0], y.coeffs[1], y.coeffs[0]))

    main = raw_g1(key.alpha) + raw_g2(key.beta) + raw_g2(key.gamma) + raw_g2(key.delta)
    return main, b"".join(map(raw_g1, key.k))


def as_json(proof: bytes) -> dict[str, Any]:
    """Return a proof body as JSON values."""
    values: dict[str, Any] = json.loads(proof)
    return values
