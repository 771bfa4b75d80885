"""Constraint systems in the bytes of gnark 0.8 (prover/docs/reference/gnark-keys.md, "Constraint system 0.8").

Debug data is omitted. Constraints are listed by level; hints are not listed. The solver calls a hint when it first
reads one of its wires, so one constraint that reads them must be a level before all others that do.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import BinaryIO, Final

import numpy as np
import numpy.typing as npt
from cbor_columns import heads, numbers

from prover.circuits.frontend.compiled import CompiledCircuit, HintCall, Row
from prover.circuits.frontend.gnark_release import GnarkRelease, Hint
from prover.circuits.output import cbor
from shared.trees.field import SCALAR_MODULUS

GNARK_08: Final = GnarkRelease(
    version="0.8.0",
    bits=Hint("github.com/consensys/gnark/std/math/bits.NBits"),
    inverse_or_zero=Hint("github.com/consensys/gnark/backend/hint.InvZero"),
    is_zero_is_boolean=False,
    maximum_terms=None,
)
"""Release of the keys published up to package version 0.27."""

Indices = npt.NDArray[np.intp]

_ROWS_AT_ONCE: Final = 1 << 14

_COEFFICIENT_KIND: Final = 3
_WIRE_KIND: Final = 4
_PREFIXES: Final = (b"\xa3\x61L", b"\x61O", b"\x61R", b"\xa2\x63CID", b"\x63VID")
_MAJORS: Final = (4, 4, 4, 0, 0)


class HintUsedLate(ValueError):
    """The instruction after a hint does not read its outputs, or depends on a later one."""


def write_constraint_system(circuit: CompiledCircuit, file: BinaryIO) -> int:
    """Write a constraint system and return its length in bytes. Raises ValueError for one of another gnark release."""
    if circuit.release is not GNARK_08:
        raise ValueError(f"a constraint system of gnark {circuit.release.version} has another format")
    hints = _hints(circuit)
    table = [(value << 256) % SCALAR_MODULUS for value in circuit.coefficients]
    small: dict[str, object] = {
        "Logs": None,
        "MDebug": {},
        "MHints": {wire: _hint_record(hint) for hint in hints for wire in hint.outputs},
        "Public": circuit.public_names,
        "Secret": circuit.secret_names,
        "DebugInfo": None,
        "ScalarField": f"{SCALAR_MODULUS:x}",
        "SymbolTable": {"Functions": None, "Locations": None},
        "Coefficients": [[value >> 64 * limb & (1 << 64) - 1 for limb in range(4)] for value in table],
        "GnarkVersion": circuit.release.version,
        "CommitmentInfo": {
            "HintID": 0,
            "Committed": None,
            "CommitmentIndex": 0,
            "NbPrivateCommitted": 0,
            "CommittedAndCommitment": None,
        },
        "MHintsDependencies": {hint.hint_id: circuit.release.hints[hint.hint_id] for hint in hints},
        "NbInternalVariables": circuit.internal_wires,
    }
    large = {"Levels": _levels, "Constraints": _constraints}
    length = file.write(cbor.head(5, len(small) + len(large)))
    for key in sorted([*small, *large], key=cbor.encoded):
        length += file.write(cbor.encoded(key))
        for piece in large[key](circuit) if key in large else (cbor.encoded(small[key]),):
            length += file.write(piece)
    return length


def constraint_system_bytes(circuit: CompiledCircuit) -> bytes:
    """Return the bytes of `write_constraint_system`."""
    file = io.BytesIO()
    write_constraint_system(circuit, file)
    return file.getvalue()


def _hints(circuit: CompiledCircuit) -> list[HintCall]:
    calls = (circuit.instruction(number) for number in np.flatnonzero(circuit.is_hint).tolist())
    return [call for call in calls if isinstance(call, HintCall)]


def _hint_record(hint: HintCall) -> dict[str, object]:
    inputs = [[{"CID": coefficient, "VID": wire} for coefficient, wire in terms] for terms in hint.inputs]
    return {"ID": hint.hint_id, "Wires": list(hint.outputs), "Inputs": inputs}


def _levels(circuit: CompiledCircuit) -> Iterator[bytes]:
    levels = circuit.levels.astype(np.int64)
    for number in np.flatnonzero(circuit.is_hint).tolist():
        hint, caller = circuit.instruction(number), circuit.instruction(number + 1)
        if not isinstance(hint, HintCall) or not isinstance(caller, Row):
            raise HintUsedLate(f"hint {number} is not followed by a constraint")
        reads = {wire for side in (caller.left, caller.right, caller.out) for _, wire in side}
        if reads.isdisjoint(hint.outputs) or levels[number + 1] != levels[number] + 1:
            raise HintUsedLate(f"constraint {circuit.constraint_offsets[number]} does not call hint {number}")
        levels[number + 1] = levels[number]
    by_row = levels[~circuit.is_hint]
    order = np.argsort(by_row, kind="stable")
    ends = np.searchsorted(by_row[order], np.arange(by_row.max(initial=-1) + 1), side="right")
    levels_listed = [level for level in np.split(order, ends[:-1]) if len(level)] if len(order) else []
    yield cbor.head(4, len(levels_listed))
    for level in levels_listed:
        yield cbor.head(4, len(level)) + numbers(level).tobytes()


def _constraints(circuit: CompiledCircuit) -> Iterator[bytes]:
    yield cbor.head(4, circuit.constraints)
    starts = circuit.starts[~circuit.is_hint].astype(np.intp)
    for first in range(0, len(starts), _ROWS_AT_ONCE):
        here = starts[first : first + _ROWS_AT_ONCE]
        source, kinds = _in_map_order(circuit, here)
        yield heads(_PREFIXES, kinds, _MAJORS, circuit.words[source].astype(np.int64)).tobytes()


def _in_map_order(circuit: CompiledCircuit, starts: Indices) -> tuple[Indices, npt.NDArray[np.int64]]:
    """Return the indices of the words in the rows' maps, in the order L, O, R, and each word's kind of item."""
    lengths = circuit.words[starts[:, np.newaxis] + [1, 2, 3]].astype(np.intp)
    terms_at = starts[:, np.newaxis] + 4 + 2 * (np.cumsum(lengths, axis=1) - lengths)
    order = [0, 2, 1]
    counts = (1 + 2 * lengths[:, order]).ravel()  # items of a side: its length, then two per term
    side = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(side)) - np.repeat(np.cumsum(counts) - counts, counts)
    length_at = (starts[:, np.newaxis] + 1 + np.array(order)).ravel()
    source = np.where(place == 0, length_at[side], terms_at[:, order].ravel()[side] + place - 1)
    kinds = np.where(place == 0, side % 3, np.where(place % 2 == 1, _COEFFICIENT_KIND, _WIRE_KIND))
    return source, kinds
