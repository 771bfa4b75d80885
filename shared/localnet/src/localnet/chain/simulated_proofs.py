"""Proofs made from a known trapdoor instead of a witness, which the programs accept, for tests of everything else.

Source: shared/docs/localnet.md, "Simulated proofs". The trapdoor allows proofs of any statement, so such keys never
leave a localnet.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from localnet.chain.artefacts import Artefacts
from localnet.chain.bn254 import G1, G1_GENERATOR, G2, G2_GENERATOR, g1_bytes, g1_mul, g2_bytes, g2_mul
from localnet.chain.verifying_keys import VerifyingKey, keys_in_programs, with_verifying_keys
from shared.field import BASE_MODULUS as P
from shared.field import SCALAR_MODULUS as R

_SIGN = 0x80


def _scalar(name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"localnet trapdoor {name}".encode()).digest(), "big") % R


@dataclass(frozen=True, slots=True)
class Proof:
    """A Groth16 proof: A in G1 as the prover's JSON has it (not negated), B in G2, C in G1."""

    a: G1
    b: G2
    c: G1


@cache
def _fixed_points() -> tuple[G1, G2]:
    return g1_mul(G1_GENERATOR, _scalar("a")), g2_mul(G2_GENERATOR, _scalar("b"))


@cache
def _main_block() -> bytes:
    return g1_bytes(g1_mul(G1_GENERATOR, _scalar("alpha"))) + b"".join(
        g2_bytes(g2_mul(G2_GENERATOR, _scalar(name))) for name in ("beta", "gamma", "delta")
    )


@cache
def _ic_point(index: int) -> bytes:
    return g1_bytes(g1_mul(G1_GENERATOR, _scalar(f"ic{index}")))


def simulated_key(public_inputs: int) -> VerifyingKey:
    """Return the key under which ``simulate_proof`` proves statements with this number of public inputs."""
    return VerifyingKey(_main_block(), b"".join(map(_ic_point, range(public_inputs + 1))))


def simulate_proof(public_inputs: Sequence[int]) -> Proof:
    """Return a proof that the simulated key of that size accepts for these public inputs, and for no others."""
    total = _scalar("ic0") + sum(value * _scalar(f"ic{index}") for index, value in enumerate(public_inputs, 1))
    product = _scalar("a") * _scalar("b") - _scalar("alpha") * _scalar("beta") - total * _scalar("gamma")
    a, b = _fixed_points()
    return Proof(a, b, g1_mul(G1_GENERATOR, product * pow(_scalar("delta"), -1, R)))


def compress_proof(proof: Proof) -> bytes:
    """Return the 128 bytes that instructions carry (forester/docs/reference/programs.md, "Proof encoding")."""
    (x0, x1), (y0, y1) = proof.b
    larger = (y1, y0) > ((P - y1) % P, (P - y0) % P)
    b = bytearray(x1.to_bytes(32, "big") + x0.to_bytes(32, "big"))
    b[0] |= _SIGN if larger else 0
    return _compress_g1((proof.a[0], P - proof.a[1])) + bytes(b) + _compress_g1(proof.c)


def _compress_g1(point: G1) -> bytes:
    data = bytearray(point[0].to_bytes(32, "big"))
    data[0] |= _SIGN if point[1] > P - point[1] else 0
    return bytes(data)


def parse_proof(answer: dict[str, object]) -> Proof:
    """Decode the prover's JSON members ``ar``, ``bs`` and ``krs``; raise KeyError or ValueError for anything else."""
    ar, bs, krs = (answer[name] for name in ("ar", "bs", "krs"))
    if not (isinstance(ar, list) and isinstance(bs, list) and isinstance(krs, list)):
        message = "ar, bs and krs are lists"
        raise ValueError(message)
    (x1, x0), (y1, y0) = ([int(word, 16) for word in pair] for pair in bs)
    return Proof((int(ar[0], 16), int(ar[1], 16)), ((x0, x1), (y0, y1)), (int(krs[0], 16), int(krs[1], 16)))


def with_simulated_keys(artefacts: Artefacts) -> Artefacts:
    """Return programs that accept simulated proofs for every circuit."""
    names = keys_in_programs(artefacts)
    return with_verifying_keys(artefacts, {name: simulated_key(key.public_inputs) for name, key in names.items()})
