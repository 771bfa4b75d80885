"""Constraint systems in the bytes of gnark 0.14 (prover/docs/reference/gnark-keys.md, "Constraint system 0.14")."""

from __future__ import annotations

import itertools
import struct
from typing import BinaryIO, Final

import numpy as np

from prover.circuits.frontend.compiled import CompiledCircuit
from prover.circuits.frontend.gnark_release import GNARK_014
from prover.circuits.output import cbor
from prover.circuits.output.integer_columns import encoded_column, varint_bytes, varints
from shared.trees.field import SCALAR_MODULUS

_HINT_BLUEPRINT: Final = 0
_ROW_BLUEPRINT: Final = 1
_BLUEPRINT_TAGS: Final = (5309735, 5309736)
_COMMITMENTS_TAG: Final = 5309737
_R1CS: Final = 1


def write_constraint_system(circuit: CompiledCircuit, file: BinaryIO) -> int:
    """Write a constraint system and return its length in bytes. Raises ValueError for one of another gnark release."""
    if circuit.release is not GNARK_014:
        raise ValueError(f"a constraint system of gnark {circuit.release.version} has another format")
    levels, instructions, body = _levels(circuit), _instructions(circuit), body_bytes(circuit)
    calldata = 8 + varint_bytes(circuit.words)
    table = coefficient_table(circuit)
    lengths = (len(levels), len(instructions), calldata, len(body))
    total = 32 + sum(lengths) + len(table)
    version = map(int, circuit.release.version.split("."))
    file.write(struct.pack("<8Q", total, *version, *lengths))
    file.write(levels)
    file.write(instructions)
    file.write(struct.pack("<Q", len(circuit.words)))
    file.writelines(piece.data for piece in varints(circuit.words))
    file.write(body)
    file.write(table)
    return 32 + total


def _levels(circuit: CompiledCircuit) -> bytes:
    order, bounds = circuit.level_order
    ends = bounds.tolist()
    columns = (encoded_column(order[start:end], 32) for start, end in itertools.pairwise(ends))
    return struct.pack("<Q", len(ends) - 1) + b"".join(columns)


def _instructions(circuit: CompiledCircuit) -> bytes:
    blueprints = np.where(circuit.is_hint, np.uint32(_HINT_BLUEPRINT), np.uint32(_ROW_BLUEPRINT))
    columns = [encoded_column(column, 32) for column in (blueprints, circuit.constraint_offsets, circuit.wire_counts)]
    return b"".join((*columns, encoded_column(circuit.starts, 64)))


def body_bytes(circuit: CompiledCircuit) -> bytes:
    """Return the body: names, counts and hints."""
    called = set(circuit.words[circuit.starts[circuit.is_hint].astype(np.intp) + 1].tolist())
    return cbor.encoded(
        {
            "Logs": None,
            "Type": _R1CS,
            "MDebug": {},
            "Public": circuit.public_names,
            "Secret": circuit.secret_names,
            "GkrInfo": {
                "Prints": None,
                "Circuit": None,
                "Dependencies": None,
                "HashName": "",
                "NbInstances": 0,
                "ProveHintID": 0,
                "SolveHintID": 0,
            },
            "DebugInfo": None,
            "Blueprints": [cbor.Tagged(tag, {}) for tag in _BLUEPRINT_TAGS],
            "ScalarField": f"{SCALAR_MODULUS:x}",
            "SymbolTable": {"Functions": None, "Locations": None},
            "GnarkVersion": circuit.release.version,
            "NbConstraints": circuit.constraints,
            "CommitmentInfo": cbor.Tagged(_COMMITMENTS_TAG, []),
            "MHintsDependencies": {number: circuit.release.hints[number] for number in called},
            "NbInternalVariables": circuit.internal_wires,
        }
    )


def coefficient_table(circuit: CompiledCircuit) -> bytes:
    """Return the coefficients in Montgomery form, four little-endian 64-bit limbs each, after their number."""
    montgomery = ((value << 256) % SCALAR_MODULUS for value in circuit.coefficients)
    table = b"".join(value.to_bytes(32, "little") for value in montgomery)
    return struct.pack("<Q", len(circuit.coefficients)) + table
