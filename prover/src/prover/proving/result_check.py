"""Verification of stored proofs before they are answered: any process that writes to the store may have made them."""

import enum
from typing import Final

from prover.errors import ProofFailed
from prover.kernel.engine import SCALAR_BYTES
from prover.keys.files.verifying_keys import VerifyingKeys
from prover.proving.proof_encoding import read_proof
from prover.proving.statement import Statement
from shared.circuit_id import KEY_SUFFIX, CircuitId

UNVERIFIED_REMEDY: Final = (
    "put its key into the keys directory (--keys-dir), or a file CIRCUIT.vkey that `prover export-vk` makes of the key"
)


class Verdict(enum.Enum):
    """Outcome of a check, as metrics name it."""

    VERIFIED = "verified"
    REJECTED = "rejected"
    UNVERIFIED = "unverified"
    """Without a verifying key here; all other checks passed."""


def check_result(keys: VerifyingKeys, statement: Statement | None, proof: bytes) -> tuple[Verdict, str]:
    """Check that a proof in JSON proves a statement; return the reason if not. Takes about a millisecond."""
    if statement is None:
        return Verdict.REJECTED, "its job does not say what it proves, or its id belongs to another statement"
    circuit = CircuitId.from_key_file(statement.circuit + KEY_SUFFIX)
    if circuit is None:
        return Verdict.REJECTED, "its circuit has no proofs"
    try:
        points = read_proof(proof)
        verifying_key = keys.find(circuit)
        if verifying_key is None:
            return Verdict.UNVERIFIED, f"there is no verifying key of {circuit} here"
        if len(statement.public_inputs) != SCALAR_BYTES * verifying_key.public_inputs:
            return Verdict.REJECTED, f"{circuit} has {verifying_key.public_inputs} public inputs"
        verifying_key.verify(points, statement.public_inputs)
    except ProofFailed as error:
        return Verdict.REJECTED, error.detail
    return Verdict.VERIFIED, ""
