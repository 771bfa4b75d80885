"""Checkpoints of folding, apart as src/key/fold_checkpoint.h lays them out, and folding that stops at its next one."""

from __future__ import annotations

import io
import mmap
import struct
from dataclasses import dataclass

from prepared_file import xxh64

from prover.circuits.catalogue import compile_circuit
from prover.circuits.output.gnark_014 import write_constraint_system
from prover.kernel._native import ffi
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine
from prover.kernel.setup import TrustedSetup
from prover.keys.files.key_description import header_of
from shared.requests.circuit_id import CircuitId, CircuitKind

HEADER = struct.Struct("<8sIIIIQQ32sQQQQ5QQQQ")
GENERATION_AT = 72
RUN_AT = 80
WORK_LIST_AT = 104
DATA_BYTES_AT = 144
POINTS_AT = 65536


@dataclass
class Checkpoint:
    """The bytes of a checkpoint in memory or in a mapped file, with its two halves."""

    data: mmap.mmap

    def half_at(self, generation: int) -> int:
        """Return the offset of the half of a generation."""
        return generation % 2 * (len(self.data) // 2)

    def word(self, generation: int, at: int) -> int:
        """Return a word of the header in this generation's half."""
        return int(struct.unpack_from("<Q", self.data, self.half_at(generation) + at)[0])

    def newest(self) -> int:
        """Return the last generation that was written, 0 for none."""
        return max(self.word(half, GENERATION_AT) for half in (0, 1))

    def seal(self, generation: int, at: int, value: int) -> None:
        """Change a word of a header and make its checksum right."""
        start, end = self.half_at(generation), HEADER.size - 8
        struct.pack_into("<Q", self.data, start + at, value)
        struct.pack_into("<Q", self.data, start + end, xxh64(bytes(self.data[start : start + end])))

    def flip(self, generation: int, at: int) -> None:
        """Change a bit of a half."""
        self.data[self.half_at(generation) + at] ^= 1


def stop_after_next_state(data: mmap.mmap, generation: int | None = None) -> CancelFlag:
    """Return a cancel flag that is the generation of the half which is written next, so it is raised by that state.

    ``generation`` says which one that is, if not the one after the newest.
    """
    checkpoint = Checkpoint(data)
    at = checkpoint.half_at(checkpoint.newest() + 1 if generation is None else generation) + GENERATION_AT
    struct.pack_into("<Q", data, at, 0)
    flag = CancelFlag()
    flag.cell = ffi.cast("g16_cancel *", ffi.from_buffer("uint8_t[]", data) + at)
    return flag


def inclusion_key(engine: Engine, height: int) -> bytes:
    """Return a key of one Merkle path, with a domain of 512 places for height 1 and of 1,024 for 2."""
    circuit = CircuitId(CircuitKind.INCLUSION, 2, (height,), (1,))
    system = io.BytesIO()
    write_constraint_system(compile_circuit(circuit), system)
    with TrustedSetup(engine, system.getvalue(), header_of(circuit)) as setup:
        key = bytearray(setup.key_bytes)
        setup.run(key)
    return bytes(key)
