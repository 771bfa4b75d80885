"""libgroth16_testing.so over cffi: the public functions of groth16.h and the arithmetic hooks of both backends."""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cffi

P = 21888242871839275222246405745257275088696311157297823662689037894645226208583
R = 21888242871839275222246405745257275088548364400416034343698204186575808495617

STATUSES = (
    "ok",
    "invalid_argument",
    "out_of_memory",
    "cancelled",
    "malformed_key",
    "unsupported_key",
    "unsatisfied_constraint",
    "malformed_proof",
    "proof_rejected",
    "randomness_unavailable",
    "threads_unavailable",
    "device_unavailable",
    "device_out_of_memory",
    "device_lost",
)


def _backends() -> tuple[str, ...]:
    """Return the backends that this CPU runs."""
    cpuinfo = Path("/proc/cpuinfo")
    flags = set(cpuinfo.read_text().split()) if cpuinfo.exists() else set()
    needed: dict[str, set[str]] = {
        "portable": set(),
        "adx": {"adx", "bmi2"},
        "avx2": {"adx", "bmi2", "avx2", "fma"},
        "avx512": {"adx", "bmi2", "avx512f", "avx512dq", "avx512vl"},
        "ifma": {"adx", "bmi2", "avx512f", "avx512dq", "avx512vl", "avx512ifma"},
    }
    return tuple(name for name, features in needed.items() if features <= flags)


BACKENDS = _backends()

_DECLARATIONS = """
typedef struct { char message[256]; uint64_t offset; uint32_t constraint; } g16_error;
typedef struct {
    uint32_t kind, version, format_version, header[4], header_words, constraints, wires, public_inputs, secret_inputs,
        internal_wires, coefficients, instructions, hints;
    uint64_t terms, domain_size, points_a, points_b, points_k, points_z, proving_key_offset, verifying_key_offset,
        constraint_system_offset, file_bytes, resident_bytes, mapped_bytes, table_bytes, fold_bytes;
} g16_key_info;
int g16_engine_create(void **engine, uint32_t threads, int backend, g16_error *error);
void g16_engine_destroy(void *engine);
const char *g16_engine_backend(void *engine);
int g16_key_load(void *engine, void **key, const uint8_t *data, size_t size, const int32_t *cancel, g16_error *error);
void g16_key_destroy(void *key);
void g16_key_describe(void *key, g16_key_info *info);
void *g16_key_verifying_key(void *key);
typedef struct { uint8_t *data; size_t size; uint32_t interval_ms; } g16_fold_checkpoint;
size_t g16_fold_checkpoint_bytes(void *key);
size_t g16_prepared_bytes(void *key, uint64_t table_bytes, int fold);
int g16_prepared_write(void *engine, void *key, uint8_t *out, size_t size, uint64_t table_bytes, int fold,
                       const uint8_t *sha256, const g16_fold_checkpoint *checkpoint, uint32_t *progress,
                       const int32_t *cancel, g16_error *error);
int g16_prepared_load(void *engine, void **key, const uint8_t *data, size_t size, int check_points,
                      const int32_t *cancel, g16_error *error);
int g16_prepared_verify(const uint8_t *data, size_t size, const int32_t *cancel, g16_error *error);
size_t g16_prove_scratch_bytes(void *engine, void *key);
int g16_prove(void *engine, void *key, uint8_t *proof, uint64_t *stage_ns, const uint8_t *blinding,
              const uint8_t *inputs, size_t count, void *scratch, size_t scratch_size, const int32_t *cancel,
              g16_error *error);
int g16_vk_load(void *engine, void **vk, const uint8_t *data, size_t size, g16_error *error);
void g16_vk_destroy(void *vk);
uint32_t g16_vk_public_inputs(void *vk);
size_t g16_vk_bytes(void *vk, int encoding);
int g16_vk_write(void *vk, uint8_t *out, size_t out_size, int encoding, g16_error *error);
int g16_verify(void *engine, void *vk, const uint8_t *proof, const uint8_t *inputs, size_t count, g16_error *error);
"""


class NotCanonical(ValueError):
    """A hook refused an operand at or above its modulus."""


@dataclass(frozen=True)
class Outcome:
    """Status of a public function by name, its message and offset."""

    status: str
    message: str = ""
    offset: int = 0


class Arithmetic:
    """The arithmetic hooks of one backend; operands and results are bytes as testing_field_impl.h lays them out."""

    def __init__(self, library: Path, backend: str) -> None:
        self.backend = backend
        self._ffi = cffi.FFI()
        self._library: Any = self._ffi.dlopen(str(library))
        self._hooks: dict[str, Any] = {}

    def answer(self, name: str, *operands: bytes, out_bytes: int = 1024) -> tuple[int, bytes]:
        """Return the hook's return value and `out_bytes` of output. `name`: "field_fp_mul" and the like."""
        if name not in self._hooks:
            area, _, rest = name.partition("_")
            symbol = f"t_{area}_{self.backend}_{rest}"
            self._ffi.cdef(f"int32_t {symbol}(uint8_t *out, const uint8_t *in, size_t in_size);")
            self._hooks[name] = getattr(self._library, symbol)
        given = b"".join(operands)
        out = self._ffi.new("uint8_t[]", out_bytes)
        code = int(self._hooks[name](out, given, len(given)))
        if code == -1:
            raise NotCanonical(name)
        assert code not in {-2, -3}, f"{name}: aliasing changes the result or the size is wrong ({code})"
        return code, bytes(self._ffi.buffer(out))

    def predicate(self, name: str, *operands: bytes) -> bool:
        """Return the answer of a hook that says yes or no."""
        return bool(self.answer(name, *operands)[0])

    def compute(self, name: str, *operands: bytes, out_bytes: int) -> bytes:
        """Return the output of a hook that cannot fail for canonical operands."""
        code, out = self.answer(name, *operands, out_bytes=out_bytes)
        assert code == 0
        return out


def runs(library: Path, backend: str) -> bool:
    """Return whether the test library runs a backend here, AVX-512 IFMA in emulation too, which BACKENDS leaves out."""
    ffi = cffi.FFI()
    ffi.cdef("int32_t t_processor_runs(const char *backend);")
    return bool(ffi.dlopen(str(library)).t_processor_runs(backend.encode()))


class Kernel:
    """An engine of the public API. One thread by default; close() frees it."""

    def __init__(self, library: Path, backend: str = "portable", threads: int = 1) -> None:
        self._ffi = cffi.FFI()
        self._ffi.cdef(_DECLARATIONS)
        self._library: Any = self._ffi.dlopen(str(library))
        engine = self._ffi.new("void **")
        choice = {"portable": 1, "adx": 2, "ifma": 3, "avx512": 4, "avx2": 5}[backend]
        outcome = self._call(self._library.g16_engine_create, engine, threads, choice)
        assert outcome.status == "ok", outcome.message
        self._engine = engine[0]

    def close(self) -> None:
        """Free the engine."""
        self._library.g16_engine_destroy(self._engine)

    def _call(self, function: Any, *arguments: Any) -> Outcome:
        error = self._ffi.new("g16_error *")
        status = STATUSES[function(*arguments, error)]
        if status == "ok":
            return Outcome(status)
        return Outcome(status, self._ffi.string(error.message).decode("ascii"), int(error.offset))

    def load_key(self, data: bytes, cancelled: bool = False) -> tuple[Outcome, Key | None]:
        """Load a key file; the key is None unless the status is ok."""
        key = self._ffi.new("void **")
        buffer = self._ffi.new("uint8_t[]", data)
        cancel = self._ffi.new("int32_t *", int(cancelled))
        outcome = self._call(self._library.g16_key_load, self._engine, key, buffer, len(data), cancel)
        if outcome.status == "ok":
            return outcome, Key(self, key[0])
        assert key[0] == self._ffi.NULL
        return outcome, None

    def load_prepared(self, data: bytes) -> tuple[Outcome, Key | None]:
        """Load a key from a prepared file, whose bytes the key keeps."""
        ffi = self._ffi
        memory, start = self._aligned(data)
        key = ffi.new("void **")
        outcome = self._call(self._library.g16_prepared_load, self._engine, key, start, len(data), 1, ffi.NULL)
        if outcome.status == "ok":
            return outcome, Key(self, key[0], memory)
        assert key[0] == ffi.NULL
        return outcome, None

    def verify_prepared(self, data: bytes) -> Outcome:
        """Compare all checksums of a prepared file."""
        _memory, start = self._aligned(data)
        return self._call(self._library.g16_prepared_verify, start, len(data), self._ffi.NULL)

    def _aligned(self, data: bytes) -> tuple[Any, Any]:
        """Copy bytes to an address as a map would have; return the owner of the memory, and the address."""
        memory = self._ffi.new("uint8_t[]", len(data) + 63)
        start = memory + -int(self._ffi.cast("uintptr_t", memory)) % 64
        self._ffi.memmove(start, data, len(data))
        return memory, start

    def load_vk(self, data: bytes) -> tuple[Outcome, VerifyingKey | None]:
        """Load a separate verifying key."""
        vk = self._ffi.new("void **")
        outcome = self._call(self._library.g16_vk_load, self._engine, vk, self._ffi.new("uint8_t[]", data), len(data))
        if outcome.status == "ok":
            return outcome, VerifyingKey(self, vk[0], owned=True)
        assert vk[0] == self._ffi.NULL
        return outcome, None


class VerifyingKey:
    """A loaded verifying key."""

    def __init__(self, kernel: Kernel, handle: Any, owned: bool) -> None:
        self._kernel, self._handle, self._owned = kernel, handle, owned

    @property
    def public_inputs(self) -> int:
        """Their number, without the constant one-wire."""
        return int(self._kernel._library.g16_vk_public_inputs(self._handle))

    def encode(self, raw: bool) -> bytes:
        """Return the key as gnark writes it."""
        kernel, encoding = self._kernel, 2 if raw else 1
        size = kernel._library.g16_vk_bytes(self._handle, encoding)
        out = kernel._ffi.new("uint8_t[]", size)
        outcome = kernel._call(kernel._library.g16_vk_write, self._handle, out, size, encoding)
        assert outcome.status == "ok", outcome.message
        return bytes(kernel._ffi.buffer(out))

    def verify(self, proof: bytes, inputs: list[int]) -> Outcome:
        """Verify 256 bytes of proof for these public inputs (each below 2^256)."""
        kernel = self._kernel
        assert len(proof) == 256
        packed = b"".join(value.to_bytes(32, "big") for value in inputs)
        return kernel._call(kernel._library.g16_verify, kernel._engine, self._handle, proof, packed, len(inputs))

    def destroy(self) -> None:
        """Free the key if it is not a part of another."""
        if self._owned:
            self._kernel._library.g16_vk_destroy(self._handle)


class Key:
    """A loaded key file."""

    def __init__(self, kernel: Kernel, handle: Any, memory: Any = None) -> None:
        self._kernel, self._handle, self._memory = kernel, handle, memory

    def fold_checkpoint(self) -> mmap.mmap:
        """Return memory in which folding is kept after every step."""
        return mmap.mmap(-1, int(self._kernel._library.g16_fold_checkpoint_bytes(self._handle)))

    def prepared(
        self,
        source_sha256: bytes = bytes(32),
        table_bytes: int = 0,
        fold: bool = False,
        checkpoint: mmap.mmap | None = None,
    ) -> bytes:
        """Return the prepared key."""
        kernel, kept, memory = self._kernel, self._kernel._ffi.NULL, None
        if checkpoint is not None:
            memory = kernel._ffi.from_buffer("uint8_t[]", checkpoint)
            kept = kernel._ffi.new("g16_fold_checkpoint *", {"data": memory, "size": len(memory), "interval_ms": 0})
        size = int(kernel._library.g16_prepared_bytes(self._handle, table_bytes, fold))
        out = kernel._ffi.new("uint8_t[]", size)
        rest = (out, size, table_bytes, fold, source_sha256, kept, kernel._ffi.NULL, kernel._ffi.NULL)
        outcome = kernel._call(kernel._library.g16_prepared_write, kernel._engine, self._handle, *rest)
        assert outcome.status == "ok", outcome.message
        return bytes(kernel._ffi.buffer(out))

    def prove(self, inputs: bytes, blinding: bytes | None = None) -> tuple[Outcome, bytes]:
        """Return a proof in scratch memory of zeros."""
        kernel, null = self._kernel, self._kernel._ffi.NULL
        size = int(kernel._library.g16_prove_scratch_bytes(kernel._engine, self._handle))
        proof, scratch = kernel._ffi.new("uint8_t[]", 256), kernel._ffi.new("uint8_t[]", size)
        rest = (proof, null, blinding or null, inputs, len(inputs) // 32, scratch, size, null)
        outcome = kernel._call(kernel._library.g16_prove, kernel._engine, self._handle, *rest)
        return outcome, bytes(kernel._ffi.buffer(proof))

    def prove_with_blinding(self, inputs: bytes, rho: bytes, sigma: bytes) -> tuple[Outcome, bytes]:
        """Return the proof with given blinding values."""
        return self.prove(inputs, rho + sigma)

    def describe(self) -> dict[str, Any]:
        """Return the fields of g16_key_info."""
        info = self._kernel._ffi.new("g16_key_info *")
        self._kernel._library.g16_key_describe(self._handle, info)
        fields = {name: getattr(info, name) for name, _ in self._kernel._ffi.typeof("g16_key_info").fields}
        return {**fields, "header": list(info.header)}

    @property
    def verifying_key(self) -> VerifyingKey:
        """The verifying key inside; lives as long as this key."""
        return VerifyingKey(self._kernel, self._kernel._library.g16_key_verifying_key(self._handle), owned=False)

    def destroy(self) -> None:
        """Free the key."""
        self._kernel._library.g16_key_destroy(self._handle)
