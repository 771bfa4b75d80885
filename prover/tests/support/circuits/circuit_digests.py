"""Compiled circuits as the vector files count and digest them (circuits/r1cs_stats.json)."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from prover.circuits.frontend.compiled import CompiledCircuit

U32 = npt.NDArray[np.uint32]
Indices = npt.NDArray[np.intp]
TERM_WORDS = 9
"""A digested term is the wire and eight words of coefficient."""
ROWS_AT_ONCE = 1 << 15


@dataclass(frozen=True)
class Terms:
    """All terms of some consecutive constraints: side (0, 1, 2 for L, R, O), row, coefficient id and wire of each."""

    rows: int
    lengths: npt.NDArray[np.int64]
    side: Indices
    row: Indices
    coefficient: U32
    wire: U32


def terms_in_pieces(circuit: CompiledCircuit) -> Iterator[Terms]:
    """Yield the terms of all constraints in their order."""
    starts = circuit.starts[~circuit.is_hint].astype(np.intp)
    for first in range(0, len(starts), ROWS_AT_ONCE):
        here = starts[first : first + ROWS_AT_ONCE]
        lengths = circuit.words[here[:, np.newaxis] + [1, 2, 3]].astype(np.int64)
        flat = lengths.ravel()
        side_of_term = np.repeat(np.arange(len(flat)), flat)
        row = side_of_term // 3
        terms_before = np.cumsum(lengths.sum(axis=1)) - lengths.sum(axis=1)
        at = here[row] + 4 + 2 * (np.arange(len(row)) - terms_before[row])
        words = circuit.words
        yield Terms(len(here), lengths, side_of_term % 3, row, words[at], words[at + 1])


def constraint_digest(circuit: CompiledCircuit, *, with_counts: bool) -> str:
    """Return SHA-256 of all constraints: per side its number of terms, per term wire and coefficient."""
    table = np.frombuffer(b"".join(value.to_bytes(32, "big") for value in circuit.coefficients), "<u4").reshape(-1, 8)
    counts = (len(circuit.public_names), len(circuit.secret_names), circuit.internal_wires, circuit.constraints)
    digest = hashlib.sha256(struct.pack("<4I", *counts) if with_counts else b"")
    for terms in terms_in_pieces(circuit):
        flat = terms.lengths.ravel()
        side_starts = np.cumsum(TERM_WORDS * flat + 1) - (TERM_WORDS * flat + 1)
        out = np.empty(int(TERM_WORDS * flat.sum() + len(flat)), "<u4")
        out[side_starts] = flat
        at = np.arange(len(terms.wire)) * TERM_WORDS + 3 * terms.row + terms.side + 1
        out[at] = terms.wire
        out[at[:, np.newaxis] + np.arange(1, TERM_WORDS)] = table[terms.coefficient]
        digest.update(out.tobytes())
    return digest.hexdigest()


def term_counts(circuit: CompiledCircuit) -> dict[str, Any]:
    """Return terms and wires with a non-zero coefficient per side, and the longest expression."""
    counts = np.zeros(3, np.int64)
    occurs = np.zeros((3, circuit.wires), bool)
    longest = 0
    for terms in terms_in_pieces(circuit):
        longest = max(longest, int(terms.lengths.max()))
        present = terms.coefficient != 0
        counts += np.bincount(terms.side[present], minlength=3)
        occurs[terms.side[present], terms.wire[present]] = True
    return {
        "longestLE": longest,
        **{f"terms{side}": int(count) for side, count in zip("ABC", counts, strict=True)},
        **{f"wiresIn{side}": int(wires.sum()) for side, wires in zip("ABC", occurs, strict=True)},
    }


def levels_digest(circuit: CompiledCircuit) -> str:
    """Return SHA-256 of the levels: length and instructions of each."""
    order, bounds = circuit.level_order
    digest = hashlib.sha256()
    for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        digest.update(struct.pack("<I", end - start) + order[start:end].astype("<u4").tobytes())
    return digest.hexdigest()


def statistics(circuit: CompiledCircuit) -> dict[str, Any]:
    """Return all facts of r1cs_stats.json about a circuit, except its shape."""
    table = b"".join(value.to_bytes(32, "big") for value in circuit.coefficients)
    return {
        "public": len(circuit.public_names),
        "secret": len(circuit.secret_names),
        "internal": circuit.internal_wires,
        "wires": circuit.wires,
        "constraints": circuit.constraints,
        "instructions": circuit.instructions,
        "hints": int(circuit.is_hint.sum()),
        "coefficients": len(circuit.coefficients),
        "levels": int(circuit.levels.max()) + 1,
        "domain": 1 << (circuit.constraints - 1).bit_length(),
        "calldataWords": len(circuit.words),
        **term_counts(circuit),
        "r1csSha256": constraint_digest(circuit, with_counts=True),
        "calldataSha256": hashlib.sha256(circuit.words.astype("<u4", copy=False).tobytes()).hexdigest(),
        "coeffSha256": hashlib.sha256(table).hexdigest(),
        "levelsSha256": levels_digest(circuit),
    }
