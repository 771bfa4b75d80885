"""Statements of proofs, by which jobs and their results are recognized."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Statement:
    """A statement of a proof: the name of its circuit, and its public inputs of 32 bytes each."""

    circuit: str
    public_inputs: bytes
