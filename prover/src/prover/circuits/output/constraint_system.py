"""Constraint systems as bytes, in the format of the gnark release that they were compiled for."""

from __future__ import annotations

from typing import BinaryIO

from prover.circuits.frontend.compiled import CompiledCircuit
from prover.circuits.frontend.gnark_release import GNARK_08
from prover.circuits.output import gnark_014, gnark_08


def write_constraint_system(circuit: CompiledCircuit, file: BinaryIO) -> int:
    """Write a constraint system in the format of key files; return its length in bytes.

    Calldata and constraints are written in pieces, so that a production batch needs little memory besides the circuit.
    """
    if circuit.release is GNARK_08:
        return gnark_08.write_constraint_system(circuit, file)
    return gnark_014.write_constraint_system(circuit, file)
