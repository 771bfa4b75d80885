"""The test hooks of key parsing and witness solving (native/tests/hooks/testing_constraint_system.c) in Python."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import cffi
from gnark_conversion import key_sections
from kernel_library import STATUSES

FORMAT_08: Final = 1
FORMAT_014: Final = 2
IS_HINT: Final = 0x80000000
SIDES: Final = ("left", "right", "out")
BACKEND_CHOICES: Final = {"portable": 1, "adx": 2, "ifma": 3, "avx512": 4, "avx2": 5}

_DECLARATIONS = """
typedef struct { char message[256]; uint64_t offset; uint32_t constraint; } g16_error;
void *t_cs_read(const uint8_t *data, size_t size, uint64_t base_offset, uint32_t format_version, const int32_t *cancel,
                int32_t *status, g16_error *error);
void t_cs_free(void *cs);
void t_cs_counts(const void *cs, uint64_t *out);
void t_cs_coefficients(const void *cs, uint8_t *out);
void t_cs_row(const void *cs, uint32_t row, uint32_t *out);
void t_cs_hint(const void *cs, uint32_t hint, uint32_t *out);
uint32_t t_cs_expression(const void *cs, uint32_t expression, uint32_t *pairs, uint32_t capacity);
void t_cs_program(const void *cs, uint32_t *program, uint32_t *component_start, uint32_t *slice_start);
uint32_t t_cs_digest_bytes(const void *cs, const uint8_t *values, uint32_t row, uint8_t *out, uint64_t capacity,
                           uint64_t *used);
int32_t t_cs_solve(const void *cs, uint32_t choice, uint32_t threads, uint8_t *wires, uint8_t *a, uint8_t *b,
                   uint8_t *c, const uint8_t *inputs, size_t count, const int32_t *cancel, g16_error *error);
uint64_t t_cs_short_terms(const void *cs);
uint32_t t_cs_differing_rows(const void *cs, uint32_t choice, uint32_t threads, const uint8_t *inputs, size_t count);
const char *t_cs_intcomp_u32(uint32_t *values, uint64_t capacity, const uint8_t *data, size_t size, uint64_t *count,
                             uint64_t *bytes, size_t *place);
const char *t_cs_intcomp_u64(uint64_t *values, uint64_t capacity, const uint8_t *data, size_t size, uint64_t *count,
                             uint64_t *bytes, size_t *place);
uint64_t t_cs_leb128(uint32_t *values, uint64_t capacity, const uint8_t *data, size_t size, uint64_t *used);
void *t_chains_make(const void *cs, uint32_t domain_log2, uint32_t forced, char *reason, uint64_t *counts);
void t_chains_free(void *chains);
uint32_t t_chains_differing(const void *cs, const void *chains, uint32_t domain_log2, uint32_t choice, uint32_t threads,
                            uint32_t order, const uint8_t *inputs, size_t count, uint64_t *found, int32_t *failed);
"""


class Refused(Exception):
    """The kernel refused a constraint system, or inputs to it."""

    def __init__(self, status: str, message: str, offset: int, constraint: int) -> None:
        super().__init__(f"{status} at {offset}: {message}")
        self.status, self.message, self.offset, self.constraint = status, message, offset, constraint


@dataclass(frozen=True)
class Counts:
    """Numbers of everything in a constraint system, in the order of t_cs_counts."""

    public: int
    secret: int
    internal: int
    wires: int
    constraints: int
    coefficients: int
    expressions: int
    hints: int
    instructions: int
    terms: int
    file_terms: int
    components: int
    checks_start: int
    levels: int
    batch_kind: int
    bytes: int
    struct_bytes: int
    slices: int


@dataclass(frozen=True)
class Row:
    """A constraint: numbers of its expressions, which side it solves (0 none, 1 L, 2 R, 3 O) and its level."""

    left: int
    right: int
    out: int
    solves: int
    solved_wire: int
    solved_coefficient: int
    level: int


@dataclass(frozen=True)
class Hint:
    """A hint: 1 for bits, 2 for inverse or zero; the number of its input expression; its outputs."""

    kind: int
    input: int
    first_output: int
    outputs: int


@dataclass(frozen=True)
class Solution:
    """Wires and the vectors a, b, c, 32 bytes big-endian per value."""

    wires: bytes
    a: bytes
    b: bytes
    c: bytes


@dataclass(frozen=True)
class ChainCounts:
    """Parts of a constraint system that device and CPU solve, in the order of t_chains_make."""

    chains: int
    shapes: int
    device_rows: int
    first_rows: int
    second_rows: int
    checks: int
    products: int
    longest_products: int
    values: int
    first_wires: int
    second_wires: int


@dataclass(frozen=True)
class Difference:
    """Wires, a and b that a device solves otherwise than the CPU, and whether a row failed on either side."""

    wires: int
    a: int
    b: int
    on_cpu: bool
    in_parts: bool
    on_device: bool


class Hooks:
    """The loaded test library."""

    def __init__(self, library: Path) -> None:
        self.ffi = cffi.FFI()
        self.ffi.cdef(_DECLARATIONS)
        self.library: Any = self.ffi.dlopen(str(library))

    def read(self, data: bytes, format_version: int, base_offset: int = 0, cancelled: bool = False) -> ConstraintSystem:
        """Read a constraint system. Raise Refused."""
        status = self.ffi.new("int32_t *")
        error = self.ffi.new("g16_error *")
        cancel = self.ffi.new("int32_t *", int(cancelled))
        buffer = self.ffi.from_buffer(data)
        handle = self.library.t_cs_read(buffer, len(data), base_offset, format_version, cancel, status, error)
        if status[0]:
            assert handle == self.ffi.NULL
            raise self.refusal(status[0], error)
        return ConstraintSystem(self, handle)

    def read_key(self, path: Path) -> ConstraintSystem:
        """Read the constraint system of a key file of gnark 0.8."""
        data = path.read_bytes()
        wrapper = 8 if int.from_bytes(data[8:16], "big").bit_count() == 1 else 16
        offset = key_sections(data, wrapper=wrapper).verifying_key_end
        return self.read(data[offset:], FORMAT_08, offset)

    def refusal(self, status: int, error: Any) -> Refused:
        """Return a status other than ok with its error record."""
        message = self.ffi.string(error.message).decode("ascii")
        return Refused(STATUSES[status], message, int(error.offset), int(error.constraint))

    def column(self, data: bytes, width: int, capacity: int) -> tuple[list[int], int] | str:
        """Return values and byte length of an integer column, or why it was refused."""
        values = self.ffi.new("uint32_t[]" if width == 32 else "uint64_t[]", max(capacity, 1))
        count, used = self.ffi.new("uint64_t *"), self.ffi.new("uint64_t *")
        place = self.ffi.new("size_t *")
        read = self.library.t_cs_intcomp_u32 if width == 32 else self.library.t_cs_intcomp_u64
        problem = read(values, capacity, self.ffi.from_buffer(data), len(data), count, used, place)
        if problem != self.ffi.NULL:
            assert place[0] <= len(data)
            return str(self.ffi.string(problem).decode("ascii"))
        return list(values[0 : count[0]]), int(used[0])

    def words(self, data: bytes) -> tuple[list[int], int]:
        """Return variable-length words up to the first that is refused, and the bytes they take."""
        values = self.ffi.new("uint32_t[]", len(data) + 1)
        used = self.ffi.new("uint64_t *")
        count = self.library.t_cs_leb128(values, len(data) + 1, self.ffi.from_buffer(data), len(data), used)
        return list(values[0:count]), int(used[0])


class ConstraintSystem:
    """A constraint system that the kernel has read. Memory is freed with the object."""

    def __init__(self, hooks: Hooks, handle: Any) -> None:
        self._hooks = hooks
        self._ffi = hooks.ffi
        self._handle = self._ffi.gc(handle, hooks.library.t_cs_free)
        out = self._ffi.new("uint64_t[18]")
        hooks.library.t_cs_counts(self._handle, out)
        self.counts = Counts(*out)

    def _fields(self, function: Any, index: int, count: int) -> list[int]:
        out = self._ffi.new(f"uint32_t[{count}]")
        function(self._handle, index, out)
        return list(out)

    def row(self, number: int) -> Row:
        """Return constraint `number`."""
        return Row(*self._fields(self._hooks.library.t_cs_row, number, 7))

    def hint(self, number: int) -> Hint:
        """Return hint `number`."""
        return Hint(*self._fields(self._hooks.library.t_cs_hint, number, 4))

    def expression(self, number: int) -> list[tuple[int, int]]:
        """Return terms (coefficient id, wire) of an expression."""
        count = self._hooks.library.t_cs_expression(self._handle, number, self._ffi.NULL, 0)
        pairs = self._ffi.new("uint32_t[]", 2 * count + 1)
        self._hooks.library.t_cs_expression(self._handle, number, pairs, count)
        return [(pairs[2 * i], pairs[2 * i + 1]) for i in range(count)]

    def program(self) -> tuple[list[int], list[int], list[int]]:
        """Return instructions in the order of execution, starts of the components, starts of the slices."""
        program = self._ffi.new("uint32_t[]", self.counts.instructions)
        components = self._ffi.new("uint32_t[]", self.counts.components + 1)
        slices = self._ffi.new("uint32_t[]", self.counts.slices + 1)
        self._hooks.library.t_cs_program(self._handle, program, components, slices)
        return list(program), list(components), list(slices)

    def coefficients(self) -> bytes:
        """Return the coefficient table, 32 bytes big-endian each."""
        out = self._ffi.new("uint8_t[]", 32 * self.counts.coefficients)
        self._hooks.library.t_cs_coefficients(self._handle, out)
        return bytes(self._ffi.buffer(out))

    def digest(self, prefix: bytes = b"") -> str:
        """Return SHA-256 of `prefix` and all constraints, as the vectors define it."""
        values = self.coefficients()
        size = 1 << 20
        out, used = self._ffi.new("uint8_t[]", size), self._ffi.new("uint64_t *")
        digest, row = hashlib.sha256(prefix), 0
        while row < self.counts.constraints:
            following = self._hooks.library.t_cs_digest_bytes(self._handle, values, row, out, size, used)
            assert following > row, "a row does not fit the buffer"
            digest.update(self._ffi.buffer(out, used[0]))
            row = following
        return digest.hexdigest()

    @property
    def short_terms(self) -> int:
        """Number of terms that the solver evaluates."""
        return int(self._hooks.library.t_cs_short_terms(self._handle))

    def differing_rows(self, inputs: Iterable[int], backend: str = "portable", threads: int = 1) -> int:
        """Solve for any inputs, satisfiable or not.

        Gives the number of rows whose sides are not the sums of the file's terms, or that solve a wire and do not hold.
        """
        packed = b"".join(value.to_bytes(32, "big") for value in inputs)
        rows = self._hooks.library.t_cs_differing_rows(
            self._handle, BACKEND_CHOICES[backend], threads, packed, len(packed) // 32
        )
        assert rows != 0xFFFFFFFF, "the solver refused the inputs"
        return int(rows)

    def solve(
        self, inputs: Iterable[int], backend: str = "portable", threads: int = 1, cancelled: bool = False
    ) -> Solution:
        """Solve the witness; inputs are below 2^256. Raise Refused."""
        packed = b"".join(value.to_bytes(32, "big") for value in inputs)
        rows = self.counts.constraints
        outs = [self._ffi.new("uint8_t[]", 32 * size) for size in (self.counts.wires, rows, rows, rows)]
        error = self._ffi.new("g16_error *")
        cancel = self._ffi.new("int32_t *", int(cancelled))
        status = self._hooks.library.t_cs_solve(
            self._handle, BACKEND_CHOICES[backend], threads, *outs, packed, len(packed) // 32, cancel, error
        )
        if status:
            raise self._hooks.refusal(status, error)
        return Solution(*(bytes(self._ffi.buffer(out)) for out in outs))

    def chains(self, forced: bool = True) -> Chains | str:
        """Return the system as a device solves it, or why the CPU should; ``forced`` ignores the cost."""
        reason, counts = self._ffi.new("char[160]"), self._ffi.new("uint64_t[11]")
        log2 = (self.counts.constraints - 1).bit_length()
        handle = self._hooks.library.t_chains_make(self._handle, log2, int(forced), reason, counts)
        if handle == self._ffi.NULL:
            return str(self._ffi.string(reason).decode("ascii"))
        return Chains(self, handle, log2, ChainCounts(*counts))


class Chains:
    """A constraint system cut into chains for a device."""

    def __init__(self, system: ConstraintSystem, handle: Any, log2: int, counts: ChainCounts) -> None:
        self.system, self.log2, self.counts = system, log2, counts
        self._handle = system._ffi.gc(handle, system._hooks.library.t_chains_free)

    def compare(
        self, inputs: Iterable[int], backend: str = "portable", threads: int = 1, backwards: bool = False
    ) -> Difference:
        """Solve any inputs on both sides; ``backwards`` is the order of the device's threads."""
        system, ffi = self.system, self.system._ffi
        found, failed = ffi.new("uint64_t[3]"), ffi.new("int32_t[3]")
        packed = b"".join(value.to_bytes(32, "big") for value in inputs)
        done = system._hooks.library.t_chains_differing(
            system._handle,
            self._handle,
            self.log2,
            BACKEND_CHOICES[backend],
            threads,
            int(backwards),
            packed,
            len(packed) // 32,
            found,
            failed,
        )
        assert done, "the solver refused the inputs"
        assert failed[2] in (0, 1), "the device failed"
        return Difference(*found, *map(bool, failed))
