"""Verification of stored proofs before they are answered: any process that writes to the store may have made them."""

import enum
from typing import Final

from prover.errors import ProofFailed
from prover.kernel.engine import SCALAR_BYTES, VerifyingKey
from prover.keys.files.verifying_keys import VerifyingKeys
from prover.proving.proof_encoding import read_proof
from prover.proving.statement import Statement
from shared.requests.circuit_id import KEY_SUFFIX, CircuitId

_REMEDY: Final = "put its key into --keys-dir, or CIRCUIT.vkey, which `prover export-vk` makes of the key"


class Verdict(enum.Enum):
    """Outcome of a check, as metrics name it."""

    VERIFIED = "verified"
    REJECTED = "rejected"
    UNVERIFIED = "unverified"
    """Without a usable verifying key here."""


def check_result(keys: VerifyingKeys, statement: Statement | None, proof: bytes) -> tuple[Verdict, str]:
    """Check that a proof in JSON proves a statement; return the reason if not. Takes about a millisecond."""
    if statement is None:
        return Verdict.REJECTED, "its job does not say what it proves, or its id belongs to another statement"
    circuit = CircuitId.from_key_file(statement.circuit + KEY_SUFFIX)
    if circuit is None:
        return Verdict.REJECTED, "its circuit has no proofs"
    try:
        points = read_proof(proof)
    except ProofFailed as error:
        return Verdict.REJECTED, error.detail
    verifying_keys = keys.find(circuit)
    if not verifying_keys:
        return Verdict.UNVERIFIED, f"this instance has no verifying key of {circuit}: {_REMEDY}"
    reasons = [_refusal(key, points, statement.public_inputs) for key in verifying_keys]
    if "" in reasons:
        return Verdict.VERIFIED, ""
    # Workers may prove with keys of their own, which the published verifying keys do not fit.
    return Verdict.REJECTED, f"{reasons[0]}; if workers prove {circuit} with another key, {_REMEDY}"


def _refusal(key: VerifyingKey, proof: bytes, public_inputs: bytes) -> str:
    """Return why a verifying key refuses a proof, nothing if it accepts it."""
    if len(public_inputs) != SCALAR_BYTES * key.public_inputs:
        return f"its circuit has {key.public_inputs} public inputs"
    try:
        key.verify(proof, public_inputs)
    except ProofFailed as error:
        return error.detail
    return ""
