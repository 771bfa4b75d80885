"""Statements of proofs, by which jobs and their results are recognized."""

from msgspec import Struct


class Statement(Struct, frozen=True):
    """A statement of a proof: the name of its circuit, and its public inputs of 32 bytes each."""

    circuit: str
    public_inputs: bytes
