"""Constraint systems as bytes, in the form of the generation that they were compiled for."""

from __future__ import annotations

from typing import BinaryIO

from prover.circuits.frontend.compiled import CompiledCircuit
from prover.circuits.frontend.generation import GENERATION_08
from prover.circuits.output import generation_014, generation_08


def write_constraint_system(circuit: CompiledCircuit, file: BinaryIO) -> int:
    """Writes a constraint system as key files hold it and returns its length in bytes.

    Calldata and constraints go out in pieces: a production batch needs little memory beside the circuit.
    """
    if circuit.generation is GENERATION_08:
        return generation_08.write_constraint_system(circuit, file)
    return generation_014.write_constraint_system(circuit, file)
