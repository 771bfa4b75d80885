"""The unblinded proofs of the vectors follow from gnark's proofs, which have given r and s."""

from __future__ import annotations

from typing import Any

import pytest
from golden_vectors import load
from independent_groth16 import points_of, read_g1, read_g2
from py_ecc.optimized_bn128 import G1, G2, add, curve_order, eq, multiply, neg, pairing

PUBLISHED = ("inclusion_32_1", "mainnet_inclusion_26_1", "non-inclusion_40_1")


def published(name: str) -> tuple[Any, dict[str, Any], dict[str, Any], Any, Any]:
    vector = load(f"gnark/{name}.json")
    delta1, delta2 = (bytes.fromhex(vector["vk"]["compressed"][delta]) for delta in ("delta_g1", "delta_g2"))
    return vector["proof"], vector["proof"], vector["unblinded"], read_g1(delta1), read_g2(delta2)


def tiny(name: str) -> tuple[Any, dict[str, Any], dict[str, Any], Any, Any]:
    vector = load("gnark/tiny.json")
    case, delta = vector["cases"][name], int(vector["toxic_waste"]["delta"], 16)
    return case, case["proof"], case["unblinded"], multiply(G1, delta), multiply(G2, delta)


@pytest.mark.parametrize(
    "proofs", [*map(published, PUBLISHED), *map(tiny, ("z0", "z6"))], ids=[*PUBLISHED, "tiny z0", "tiny z6"]
)
def test_unblinded__blinded_as_gnark_does__is_gnarks_proof(proofs: Any) -> None:
    """Ar + r delta, Bs + s delta, and Krs + s Ar + r Bs - r s delta, of which Bs in G1 is known by its pairing."""
    values, blinded, unblinded, delta1, delta2 = proofs
    r, s = (int(values[name], 16) for name in ("r", "s"))
    (ar, bs, krs), (a, b, c) = points_of(blinded), points_of(unblinded)
    assert eq(ar, add(a, multiply(delta1, r)))
    assert eq(bs, add(b, multiply(delta2, s)))
    known = add(add(c, multiply(ar, s)), neg(multiply(delta1, r * s % curve_order)))
    assert pairing(G2, add(krs, neg(known))) == pairing(bs, multiply(G1, r))
