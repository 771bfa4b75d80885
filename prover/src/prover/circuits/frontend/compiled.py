"""A finished constraint system as flat arrays."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prover.circuits.frontend.gnark_release import GnarkRelease
from prover.circuits.frontend.system import ConstraintSystem

U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
Expression = list[tuple[int, int]]
"""Pairs (coefficient id, wire)."""


@dataclass(frozen=True)
class Row:
    """The constraint left · right = out."""

    left: Expression
    right: Expression
    out: Expression


@dataclass(frozen=True)
class HintCall:
    """A call of a hint, which computes the values of wires from expressions."""

    hint_id: int
    inputs: list[Expression]
    outputs: range


@dataclass(frozen=True, eq=False)
class CompiledCircuit:
    """A constraint system in the numbering of the reference compiler.

    ``words`` are the instructions back to back (prover/docs/reference/gnark-keys.md, "Calldata"). The other arrays have
    an entry per instruction: where it starts, whether it is a hint, the number of wires once it was appended, and its
    level. Wires are the constant 1, the public inputs, the secret inputs, and all others; ``public_names`` begins with
    ``1``. ``coefficients`` are the values in [0, r) of coefficient ids. Arrays must not be written to.
    """

    release: GnarkRelease
    public_names: tuple[str, ...]
    secret_names: tuple[str, ...]
    wires: int
    constraints: int
    words: U32
    starts: U64
    is_hint: npt.NDArray[np.bool_]
    wire_counts: U32
    levels: U32
    coefficients: tuple[int, ...]

    @classmethod
    def of(cls, system: ConstraintSystem) -> CompiledCircuit:
        """Return the arrays of a constraint system, which must not change afterwards."""
        instructions = system.instructions
        return cls(
            release=system.release,
            public_names=tuple(system.public_names),
            secret_names=tuple(system.secret_names),
            wires=instructions.wires,
            constraints=instructions.rows,
            words=np.frombuffer(instructions.words, np.uint32),
            starts=np.frombuffer(instructions.starts, np.uint64),
            is_hint=np.frombuffer(instructions.is_hint, np.bool_),
            wire_counts=np.frombuffer(instructions.wire_counts, np.uint32),
            levels=np.frombuffer(instructions.levels, np.uint32),
            coefficients=tuple(system.coefficients.values),
        )

    @property
    def internal_wires(self) -> int:
        """Number of wires that the solver computes."""
        return self.wires - len(self.public_names) - len(self.secret_names)

    @property
    def instructions(self) -> int:
        """Number of constraints and hint calls."""
        return len(self.starts)

    @functools.cached_property
    def constraint_offsets(self) -> U32:
        """Number of constraints before each instruction."""
        rows = ~self.is_hint
        return (np.cumsum(rows, dtype=np.uint32) - rows).astype(np.uint32)

    @functools.cached_property
    def level_order(self) -> tuple[U32, U64]:
        """Instructions by level, ascending within one; and where each level begins, closed by their number."""
        depth = int(self.levels.max()) + 1 if self.instructions else 0
        narrow = np.uint16 if depth <= 1 << 16 else np.uint32  # numpy sorts 16 bits by radix
        order = np.argsort(self.levels.astype(narrow), kind="stable").astype(np.uint32)
        bounds = np.concatenate(([0], np.cumsum(np.bincount(self.levels, minlength=depth)))).astype(np.uint64)
        return order, bounds

    def instruction(self, number: int) -> Row | HintCall:
        """Return one instruction, for tests and tools: reading all of them is slow."""
        start = int(self.starts[number])
        words: list[int] = self.words[start : start + int(self.words[start])].tolist()
        if self.is_hint[number]:
            inputs, at = [], 3
            for _ in range(words[2]):
                inputs.append(_pairs(words[at + 1 : at + 1 + 2 * words[at]]))
                at += 1 + 2 * words[at]
            return HintCall(words[1], inputs, range(words[at], words[at + 1]))
        first, second = 4 + 2 * words[1], 4 + 2 * (words[1] + words[2])
        return Row(_pairs(words[4:first]), _pairs(words[first:second]), _pairs(words[second:]))

    def program(self) -> Iterator[Row | HintCall]:
        """Yield all instructions in the order in which they can be solved."""
        return map(self.instruction, range(self.instructions))


def _pairs(words: list[int]) -> Expression:
    return list(zip(words[::2], words[1::2], strict=True))
