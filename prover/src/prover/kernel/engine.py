"""The proving kernel as Python objects. Calls block, release the interpreter lock, and may run concurrently.

Scalars are 32 bytes, big-endian, below the modulus; several of them are one ``bytes`` object. Inputs are
the public inputs of a circuit followed by its secret inputs.
"""

import enum
import mmap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from msgspec import Struct

from prover.errors import KernelMisused
from prover.kernel._native import ffi, lib
from prover.kernel.buffers import ScratchPool
from prover.kernel.cancellation import CancelFlag, cell_of
from prover.kernel.handles import Handle, Owner
from prover.kernel.status import call
from shared.process.cpus_and_memory import available_cpus

SCALAR_BYTES = 32
PROOF_BYTES: int = lib.G16_PROOF_BYTES
STAGES = ("witness", "ntt", "msm_sort", "msm_a", "msm_b1", "msm_b2", "msm_k", "msm_z", "assemble")

_RELEASED_BYTES = 32 * 2**20

Readable = bytes | bytearray | memoryview | mmap.mmap


class Backend(enum.Enum):
    """Arithmetic that the kernel uses."""

    AUTO = lib.G16_BACKEND_AUTO
    PORTABLE = lib.G16_BACKEND_PORTABLE
    ADX = lib.G16_BACKEND_ADX
    IFMA = lib.G16_BACKEND_IFMA
    AVX512 = lib.G16_BACKEND_AVX512
    AVX2 = lib.G16_BACKEND_AVX2
    AARCH64 = lib.G16_BACKEND_AARCH64


class Encoding(enum.Enum):
    """Encoding of the points of a verifying key."""

    COMPRESSED = lib.G16_COMPRESSED
    RAW = lib.G16_RAW


class PointFormat(enum.Enum):
    """Representation of the points of proving keys; a prepared key serves backends of one representation."""

    R256 = lib.G16_POINTS_R256
    R260_LOOSE = lib.G16_POINTS_R260_LOOSE


class KeyInfo(Struct, frozen=True):
    """Description of a key file; names and meanings are those of g16_key_info."""

    kind: int
    version: int
    format_version: int
    header: tuple[int, ...]
    constraints: int
    wires: int
    public_inputs: int
    secret_inputs: int
    internal_wires: int
    coefficients: int
    instructions: int
    hints: int
    terms: int
    domain_size: int
    points_a: int
    points_b: int
    points_k: int
    points_z: int
    proving_key_offset: int
    verifying_key_offset: int
    constraint_system_offset: int
    file_bytes: int
    resident_bytes: int
    mapped_bytes: int
    table_bytes: int
    fold_bytes: int


class KernelProof(Struct, frozen=True):
    """Proof points (PROOF_BYTES, layout in groth16.h) and CPU seconds per stage."""

    points: bytes
    stage_seconds: Mapping[str, float]


class Witness(Struct, frozen=True):
    """All wires, and the three sides of every constraint, 32 bytes per value."""

    wires: bytes
    a: bytes
    b: bytes
    c: bytes


class Engine(Owner):
    """Threads and arithmetic shared by all calls. Close it, or use it as a context manager."""

    def __init__(self, threads: int = 0, backend: Backend = Backend.AUTO) -> None:
        """Start ``threads`` workers, 0 for one per available CPU."""
        out = ffi.new("g16_engine **")
        call(lib.g16_engine_create, out, threads or available_cpus(), backend.value)
        self.handle = Handle("engine", out[0], lib.g16_engine_destroy)
        """The C engine, for other modules of this package."""
        self._scratch = ScratchPool()

    @property
    def backend(self) -> str:
        """Name of the arithmetic in use."""
        with self.handle.use() as engine:
            return _text(lib.g16_engine_backend(engine))

    @property
    def threads(self) -> int:
        """Workers of one call, the calling thread included."""
        with self.handle.use() as engine:
            return int(lib.g16_engine_threads(engine))

    @property
    def point_format(self) -> PointFormat:
        """Representation of key points by the arithmetic in use."""
        with self.handle.use() as engine:
            return PointFormat(lib.g16_engine_point_format(engine))

    def adopt_key(self, pointer: Any, destroy: Callable[[Any], None], file: mmap.mmap | None = None) -> "LoadedKey":
        """Return the owner of a C key of another module of this package; ``destroy`` ends it and its mapped file."""
        return LoadedKey(self.handle, self._scratch, Handle("key", pointer, destroy), file)

    def load_key(self, data: Readable, cancel: CancelFlag | None = None) -> "LoadedKey":
        """Return the key of a whole key file; ``data`` may be released afterwards.

        Raises MalformedKey, UnsupportedKey, OutOfMemory or Cancelled.
        """
        out = ffi.new("g16_key **")
        with self.handle.use() as engine, ffi.from_buffer("uint8_t[]", data) as source:
            call(lib.g16_key_load, engine, out, source, len(source), cell_of(cancel))
        return self.adopt_key(out[0], lib.g16_key_destroy)

    def load_verifying_key(self, data: Readable) -> "VerifyingKey":
        """Return a verifying key, compressed or raw, of gnark 0.8 or 0.14. Raises MalformedKey."""
        out = ffi.new("g16_vk **")
        with self.handle.use() as engine, ffi.from_buffer("uint8_t[]", data) as source:
            call(lib.g16_vk_load, engine, out, source, len(source))
        return VerifyingKey(self.handle, Handle("verifying key", out[0], lib.g16_vk_destroy))

    def close(self) -> None:
        """Stop the workers once running calls have returned. Keys cannot be used afterwards."""
        self.handle.close()
        self._scratch.close()


class VerifyingKey(Owner):
    """A verifying key, standalone or part of a loaded key, with which it is then released."""

    def __init__(self, engine: Handle, owner: Handle, pointer: Any = None) -> None:
        self._engine = engine
        self._owner = owner
        self._inside = pointer

    @property
    def public_inputs(self) -> int:
        """Number of public inputs of a proof."""
        with self._owner.use() as owned:
            return int(lib.g16_vk_public_inputs(self._pointer(owned)))

    def verify(self, proof: bytes, public_inputs: bytes) -> None:
        """Verify a proof. Raises ProofRejected or MalformedProof if it is invalid."""
        _require(len(proof) == PROOF_BYTES, f"a proof has {PROOF_BYTES} bytes")
        with self._engine.use() as engine, self._owner.use() as owned:
            pointer = self._pointer(owned)
            call(lib.g16_verify, engine, pointer, proof, public_inputs, _count(public_inputs))

    def write(self, encoding: Encoding = Encoding.COMPRESSED) -> bytes:
        """Return the key in gnark's binary format."""
        with self._owner.use() as owned:
            pointer = self._pointer(owned)
            size = int(lib.g16_vk_bytes(pointer, encoding.value))
            out = ffi.new("uint8_t[]", size)
            call(lib.g16_vk_write, pointer, out, size, encoding.value)
        return bytes(ffi.buffer(out))

    def close(self) -> None:
        """Destroy a standalone key; one that is part of a loaded key is released with it."""
        if self._inside is None:
            self._owner.close()

    def _pointer(self, owned: Any) -> Any:
        return owned if self._inside is None else self._inside


class LoadedKey(Owner):
    """A key file in memory, ready to prove. Close it, or use it as a context manager."""

    def __init__(
        self,
        engine: Handle,
        scratch: ScratchPool,
        handle: Handle,
        file: mmap.mmap | None = None,
    ) -> None:
        self._engine = engine
        self._scratch = scratch
        self.handle = handle
        """The C key, for other modules of this package."""
        self._file = file
        with handle.use() as key:
            info = ffi.new("g16_key_info *")
            lib.g16_key_describe(key, info)
            self.info = _key_info(info)
            self.verifying_key = VerifyingKey(engine, handle, lib.g16_key_verifying_key(key))

    @property
    def scratch_bytes(self) -> int:
        """Working memory of one proof, in bytes."""
        with self._engine.use() as engine, self.handle.use() as key:
            return int(lib.g16_prove_scratch_bytes(engine, key))

    @contextmanager
    def working(self, scratch_bytes: int, handle: Handle) -> Iterator[tuple[Any, Any, Any]]:
        """Yield the C engine, the C key of ``handle`` and working memory for a call. Raises OutOfMemory."""
        with self._engine.use() as engine, handle.use() as key, self._scratch.lend(scratch_bytes) as scratch:
            yield engine, key, scratch

    def prove(
        self, inputs: bytes, cancel: CancelFlag | None = None, blinding: tuple[bytes, bytes] | None = None
    ) -> KernelProof:
        """Return an unverified proof for these inputs.

        Given ``blinding``, rho and sigma (prover/docs/explanation/blinding.md, "How a proof is blinded"), makes the
        proof reproducible and NOT zero-knowledge; for tests. Raises WitnessRejected, Cancelled, OutOfMemory or
        DeviceUnavailable.
        """
        proof = ffi.new("uint8_t[]", PROOF_BYTES)
        stage_ns = ffi.new("uint64_t[]", lib.G16_STAGE_COUNT)
        count = _count(inputs)
        if blinding is not None:
            _require(all(len(value) == SCALAR_BYTES for value in blinding), "blinding values have 32 bytes")
        given = ffi.NULL if blinding is None else b"".join(blinding)
        with self.working(self.scratch_bytes, self.handle) as (engine, key, scratch):
            rest = (inputs, count, scratch, len(scratch), cell_of(cancel))
            call(lib.g16_prove, engine, key, proof, stage_ns, given, *rest)
        return KernelProof(bytes(ffi.buffer(proof)), stage_seconds(stage_ns))

    def solve(self, inputs: bytes, cancel: CancelFlag | None = None) -> Witness:
        """Return all wires for these inputs. Raises WitnessRejected or Cancelled."""
        wires = ffi.new("uint8_t[]", self.info.wires * SCALAR_BYTES)
        a, b, c = (ffi.new("uint8_t[]", self.info.constraints * SCALAR_BYTES) for _ in range(3))
        with self._engine.use() as engine, self.handle.use() as key:
            call(lib.g16_solve, engine, key, wires, a, b, c, inputs, _count(inputs), cell_of(cancel))
        return Witness(*(bytes(ffi.buffer(column)) for column in (wires, a, b, c)))

    def release_pages(self) -> None:
        """Unmap the pages of a mapped file from this process's memory; they stay in the page cache of the system.

        Does nothing for a key that is closed or not mapped.
        """
        if self._file is None:
            return
        with suppress(KernelMisused), self.handle.use():
            # In steps of a millisecond, since each holds the interpreter lock.
            for start in range(0, len(self._file), _RELEASED_BYTES):
                self._file.madvise(mmap.MADV_DONTNEED, start, _RELEASED_BYTES)

    def close(self) -> None:
        """Destroy the key once running calls have returned."""
        self.handle.close()


def stage_seconds(stage_ns: Any, proofs: int = 1) -> dict[str, float]:
    """Return the seconds per stage that a call reported, shared equally by the proofs that it made."""
    return {name: ns / 1e9 / proofs for name, ns in zip(STAGES, stage_ns, strict=True)}


def kernel_version() -> str:
    """Return the version of the kernel, for example ``0.1.0``."""
    return _text(lib.g16_version())


def _key_info(info: Any) -> KeyInfo:
    fields = {name: getattr(info, name) for name in KeyInfo.__struct_fields__ if name != "header"}
    return KeyInfo(header=tuple(info.header)[: info.header_words], **fields)


def _text(pointer: Any) -> str:
    text: str = ffi.string(pointer).decode("ascii")
    return text


def _count(scalars: bytes) -> int:
    count, rest = divmod(len(scalars), SCALAR_BYTES)
    _require(rest == 0, f"scalars have {SCALAR_BYTES} bytes each")
    return count


def _require(holds: bool, rule: str) -> None:
    if not holds:
        raise KernelMisused(rule)
