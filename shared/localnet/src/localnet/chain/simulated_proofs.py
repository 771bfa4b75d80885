"""Proofs made from a known trapdoor instead of a witness, which the programs accept, for tests of everything else.

Source: shared/localnet/docs/chain.md, "Simulated proofs". The trapdoor allows proofs of any statement, so such keys
never leave a localnet.
"""

import hashlib
from collections.abc import Sequence
from functools import cache

from localnet.chain.artefacts import Artefacts
from localnet.chain.bn254 import G1, G1_GENERATOR, G2_GENERATOR, g1_bytes, g1_mul, g2_bytes
from localnet.chain.verifying_keys import VerifyingKey, keys_in_programs, with_verifying_keys
from shared.requests.proof_wire import ProofJson
from shared.trees.field import SCALAR_MODULUS as R


def _scalar(name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"localnet trapdoor {name}".encode()).digest(), "big") % R


@cache
def _multiple(name: str) -> G1:
    return g1_mul(G1_GENERATOR, _scalar(name))


def simulated_key(public_inputs: int) -> VerifyingKey:
    """Return the key under which ``simulate_proof`` proves statements with this number of public inputs."""
    main = g1_bytes(_multiple("alpha")) + 3 * g2_bytes(G2_GENERATOR)
    return VerifyingKey(main, b"".join(g1_bytes(_multiple(f"ic{index}")) for index in range(public_inputs + 1)))


def simulate_proof(public_inputs: Sequence[int]) -> ProofJson:
    """Return a proof that the simulated key of that size accepts for these public inputs, and for no others."""
    total = _scalar("ic0") + sum(value * _scalar(f"ic{index}") for index, value in enumerate(public_inputs, 1))
    c = g1_mul(G1_GENERATOR, _scalar("a") - _scalar("alpha") - total)
    (x0, x1), (y0, y1) = G2_GENERATOR
    return ProofJson(_pair(*_multiple("a")), (_pair(x1, x0), _pair(y1, y0)), _pair(*c))


def _pair(first: int, second: int) -> tuple[str, str]:
    return f"{first:#066x}", f"{second:#066x}"


def with_simulated_keys(artefacts: Artefacts) -> Artefacts:
    """Return programs that accept simulated proofs for every circuit."""
    names = keys_in_programs(artefacts)
    return with_verifying_keys(artefacts, {name: simulated_key(key.public_inputs) for name, key in names.items()})
