"""Small constraint systems made for a test, in both format versions, with a solver in Python integers."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from gnark_conversion import Expression, encode_cbor, frame, instructions_of, sections_014
from golden_vectors import SCALAR_MODULUS

BITS = 2224041163
INVERSE_OR_ZERO = 2162097565
ONE: Expression = [(1, 0)]
"""The constant one: coefficient 1 (id 1) times wire 0."""
ZERO: Expression = [(0, 0)]


class Unsatisfied(Exception):
    """A row does not hold."""


def montgomery_limbs(value: int) -> list[int]:
    """Return four 64-bit limbs of value * 2^256 mod r, least significant first."""
    montgomery = (value << 256) % SCALAR_MODULUS
    return [montgomery >> (64 * i) & (2**64 - 1) for i in range(4)]


@dataclass
class System:
    """A system under construction. Terms are (coefficient id, wire); wires are one, public, secret, internal."""

    public: int = 1
    secret: int = 1
    coefficients: list[int] = field(default_factory=lambda: [0, 1, 2, -1, -2])
    rows: list[tuple[Expression, Expression, Expression]] = field(default_factory=list)
    hints: list[tuple[int, Expression, int, int]] = field(default_factory=list)
    internal: int = 0

    @property
    def inputs(self) -> int:
        """Number of wires before the internal ones."""
        return 1 + self.public + self.secret

    def new_wire(self, count: int = 1) -> int:
        """Return the first of `count` new internal wires."""
        self.internal += count
        return self.inputs + self.internal - count

    def coefficient(self, value: int) -> int:
        """Return the id of a coefficient, which is added if it is new."""
        reduced = value % SCALAR_MODULUS
        known = [c % SCALAR_MODULUS for c in self.coefficients]
        if reduced not in known:
            self.coefficients.append(reduced)
            return len(known)
        return known.index(reduced)

    def row(self, left: Expression, right: Expression, out: Expression) -> None:
        """Add left * right = out."""
        self.rows.append((left, right, out))

    def hint(self, kind: int, terms: Expression, outputs: int = 1) -> int:
        """Return a hint; the first of its new output wires."""
        first = self.new_wire(outputs)
        self.hints.append((kind, terms, first, outputs))
        return first

    def decoded(self) -> dict[str, Any]:
        """Return the system as gnark 0.8's CBOR map says it."""
        raw = [[[{"CID": c, "VID": w} for c, w in side] for side in row] for row in self.rows]
        records = {}
        for kind, terms, first, outputs in self.hints:
            record = {
                "ID": kind,
                "Wires": list(range(first, first + outputs)),
                "Inputs": [[{"CID": c, "VID": w} for c, w in terms]],
            }
            records.update(dict.fromkeys(range(first, first + outputs), record))
        names = {
            BITS: "github.com/consensys/gnark/std/math/bits.NBits",
            INVERSE_OR_ZERO: "github.com/consensys/gnark/backend/hint.InvZero",
        }
        system: dict[str, Any] = {
            "Logs": None,
            "Levels": None,
            "MDebug": {},
            "MHints": records,
            "Public": ["1", *(f"P{i}" for i in range(self.public))],
            "Secret": [f"S{i}" for i in range(self.secret)],
            "DebugInfo": None,
            "Constraints": [{"L": left, "R": right, "O": out} for left, right, out in raw],
            "ScalarField": f"{SCALAR_MODULUS:x}",
            "SymbolTable": {"Functions": None, "Locations": None},
            "Coefficients": [montgomery_limbs(value) for value in self.coefficients],
            "GnarkVersion": "0.8.0",
            "CommitmentInfo": {
                "HintID": 0,
                "Committed": None,
                "CommitmentIndex": 0,
                "NbPrivateCommitted": 0,
                "CommittedAndCommitment": None,
            },
            "MHintsDependencies": {kind: names[kind] for kind, *_ in self.hints if kind in names},
            "NbInternalVariables": self.internal,
        }
        system["Levels"] = row_levels(system)
        return system

    def encode(self, format_version: int) -> bytes:
        """Return the bytes of the constraint system in a format version (1: 0.8, 2: 0.14)."""
        decoded = self.decoded()
        return encode_cbor(decoded) if format_version == 1 else frame(*sections_014(decoded))

    def solve(self, inputs: list[int]) -> tuple[list[int], list[int], list[int], list[int]]:
        """Return wires, a, b, c by Python integers; raise Unsatisfied for the first failing row of the lowest level."""
        return _PythonSolver(self, inputs).run()


def row_levels(decoded: dict[str, Any]) -> list[list[int]]:
    """Return row numbers per level: gnark 0.8 leaves hints out."""
    if any(hint["ID"] not in (BITS, INVERSE_OR_ZERO) for hint in decoded["MHints"].values()):
        return [list(range(len(decoded["Constraints"])))]
    out = instructions_of(copy.deepcopy(decoded))
    levels: dict[int, list[int]] = {}
    for kind, row, level in zip(out.blueprint, out.row_offset, out.level, strict=True):
        if kind == 1:
            levels.setdefault(level, []).append(row)
    return [levels[level] for level in sorted(levels)]


class _PythonSolver:
    def __init__(self, system: System, inputs: list[int]) -> None:
        self.system = system
        self.values: dict[int, int] = dict(enumerate([1, *inputs]))
        self.hint_of = {wire: hint for hint in system.hints for wire in range(hint[2], hint[2] + hint[3])}
        self.failures: list[int] = []

    def _sum(self, terms: Expression) -> tuple[int, Expression]:
        total, unknown = 0, []
        for coefficient, wire in terms:
            if wire not in self.values and wire in self.hint_of:
                self._hint(self.hint_of[wire])
            if wire in self.values:
                total += self.system.coefficients[coefficient] * self.values[wire]
            else:
                unknown.append((coefficient, wire))
        return total % SCALAR_MODULUS, unknown

    def _hint(self, hint: tuple[int, Expression, int, int]) -> None:
        kind, terms, first, outputs = hint
        value, unknown = self._sum(terms)
        assert not unknown
        for i in range(outputs):
            self.values[first + i] = value >> i & 1 if kind == BITS else pow(value, SCALAR_MODULUS - 2, SCALAR_MODULUS)

    def run(self) -> tuple[list[int], list[int], list[int], list[int]]:
        rows = [self._row(number, row) for number, row in enumerate(self.system.rows)]
        levels = row_levels(self.system.decoded())
        order = [number for level in levels for number in level if number in self.failures]
        if order:
            raise Unsatisfied(order[0])
        wires = [self.values[wire] for wire in range(self.system.inputs + self.system.internal)]
        a, b, c = ([row[side] for row in rows] for side in range(3))
        return wires, a, b, c

    def _row(self, number: int, row: tuple[Expression, Expression, Expression]) -> list[int]:
        sums = [self._sum(terms) for terms in row]
        values = [total for total, _ in sums]
        unknown = [(side, *term) for side, (_, terms) in enumerate(sums) for term in terms]
        if not unknown:
            if (values[0] * values[1] - values[2]) % SCALAR_MODULUS:
                self.failures.append(number)
            return values
        ((side, coefficient, wire),) = unknown
        if side == 2:
            term = values[0] * values[1] - values[2]
        else:
            other = values[1 - side]
            term = values[2] * pow(other, -1, SCALAR_MODULUS) - values[side] if other else 0
            if not other and values[2]:
                self.failures.append(number)
        values[side] = (values[side] + term) % SCALAR_MODULUS
        self.values[wire] = term * pow(self.system.coefficients[coefficient], -1, SCALAR_MODULUS) % SCALAR_MODULUS
        return values
