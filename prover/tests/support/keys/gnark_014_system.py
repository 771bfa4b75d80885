"""Constraint systems in the format of gnark 0.14, in memory."""

from __future__ import annotations

import io

from prover.circuits.frontend.compiled import CompiledCircuit
from prover.circuits.output.gnark_014 import write_constraint_system


def constraint_system_bytes(circuit: CompiledCircuit) -> bytes:
    """Return the bytes of `write_constraint_system`."""
    file = io.BytesIO()
    write_constraint_system(circuit, file)
    return file.getvalue()
