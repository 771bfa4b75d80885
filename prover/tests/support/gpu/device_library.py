"""Proofs on a device over cffi: libgroth16_testing.so with libgroth16_cuda_host.so in the place of a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel_library import STATUSES, Kernel, Key, Outcome

from prover.kernel.engine import STAGES

TIMED = {"witness", "ntt", "msm_a", "msm_b2", "msm_k", "assemble"}  # the stages that a device times alone
Stages = list[dict[str, int]]  # of each call, nanoseconds by the name of the stage

_DECLARATIONS = """
typedef struct {
    char name[128];
    uint32_t index, capability_major, capability_minor, multiprocessors, driver_version, runtime_version;
    uint64_t memory_bytes, free_bytes, budget_bytes, used_bytes;
} g16_device_info;
int g16_device_count(const char *library, uint32_t *count, g16_error *error);
int g16_device_open(void **device, const char *library, uint32_t index, uint64_t budget, g16_error *error);
void g16_device_close(void *device);
int g16_device_describe(void *device, g16_device_info *info, g16_error *error);
typedef struct { uint64_t key_bytes, proof_bytes; uint32_t batch_limit; } g16_device_sizes;
void g16_device_key_sizes(void *device, void *key, g16_device_sizes *sizes);
int g16_device_key_load(void *device, void **device_key, void *key, uint64_t table_limit, const int32_t *cancel,
                        g16_error *error);
void g16_device_key_destroy(void *key);
uint64_t g16_device_key_bytes(void *key);
uint32_t g16_device_key_batch_limit(void *key);
typedef struct {
    uint32_t on_device, chains, shapes, device_rows, processor_rows, check_rows;
    uint64_t products, longest_products, bus_bytes;
    char reason[160];
} g16_device_witness;
void g16_device_key_witness(void *key, g16_device_witness *witness);
size_t g16_device_prove_scratch_bytes(void *key, size_t batch);
int g16_device_prove(void *engine, void *key, uint8_t *proofs, int *statuses, uint64_t *stage_ns,
                     const uint8_t *blinding, const uint8_t *const *inputs, size_t count, size_t batch, void *scratch,
                     size_t scratch_size, const int32_t *cancel, g16_error *errors);
"""


class Refused(Exception):
    """A call that came back with another status than ok."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.message)
        self.status = outcome.status


@dataclass(frozen=True)
class Batch:
    """Result of a call for several proofs: its status, and the outcome and bytes of each proof."""

    status: str
    outcomes: list[Outcome]
    proofs: list[bytes]

    @property
    def statuses(self) -> list[str]:
        """Status of each proof."""
        return [outcome.status for outcome in self.outcomes]


def accept(outcome: Outcome) -> None:
    """Raise Refused unless the status is ok."""
    if outcome.status != "ok":
        raise Refused(outcome)


def declare(kernel: Kernel) -> Any:
    """Return the kernel's library with the functions for devices."""
    if "g16_device_info" not in kernel._ffi.list_types()[0]:
        kernel._ffi.cdef(_DECLARATIONS)
    return kernel._library


def count_devices(kernel: Kernel, library: Path) -> int:
    """Return how many GPUs a CUDA library finds."""
    count = kernel._ffi.new("uint32_t *")
    accept(kernel._call(declare(kernel).g16_device_count, str(library).encode(), count))
    return int(count[0])


class Device:
    """An open device; a context manager."""

    def __init__(self, kernel: Kernel, library: Path, index: int = 0, budget: int = 0) -> None:
        self.kernel, self.calls = kernel, declare(kernel)
        handle = kernel._ffi.new("void **")
        accept(kernel._call(self.calls.g16_device_open, handle, str(library).encode(), index, budget))
        self.handle = handle[0]

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        self.calls.g16_device_close(self.handle)

    def describe(self) -> Any:
        """Return the fields of g16_device_info."""
        info = self.kernel._ffi.new("g16_device_info *")
        accept(self.kernel._call(self.calls.g16_device_describe, self.handle, info))
        return info

    def key_bytes(self, key: Key) -> int:
        """Return device memory that a key would take."""
        return int(self._sizes(key).key_bytes)

    def proof_bytes(self, key: Key) -> int:
        """Return device memory that a proof takes."""
        return int(self._sizes(key).proof_bytes)

    def batch_limit(self, key: Key) -> int:
        """Return proofs of a batch at most."""
        return int(self._sizes(key).batch_limit)

    def _sizes(self, key: Key) -> Any:
        sizes = self.kernel._ffi.new("g16_device_sizes *")
        self.calls.g16_device_key_sizes(self.handle, key._handle, sizes)
        return sizes

    def load(self, key: Key, cancelled: bool = False, table_limit: int = 0) -> DeviceKey:
        """Return a key on the device; with tables it has at most ``table_limit`` bytes, 0 for no limit."""
        return DeviceKey(self, key, cancelled, table_limit)


class DeviceKey:
    """A key on a device; a context manager."""

    def __init__(self, device: Device, key: Key, cancelled: bool = False, table_limit: int = 0) -> None:
        self.device, self.kernel, self.calls = device, device.kernel, device.calls
        handle, cancel = self.kernel._ffi.new("void **"), self.kernel._ffi.new("int32_t *", int(cancelled))
        given = (device.handle, handle, key._handle, table_limit, cancel)
        accept(self.kernel._call(self.calls.g16_device_key_load, *given))
        self.handle = handle[0]

    def __enter__(self) -> DeviceKey:
        return self

    def __exit__(self, *_: object) -> None:
        self.calls.g16_device_key_destroy(self.handle)

    def key_bytes(self) -> int:
        """Return device memory of the key."""
        return int(self.calls.g16_device_key_bytes(self.handle))

    def batch_limit(self) -> int:
        """Return proofs of a batch at most."""
        return int(self.calls.g16_device_key_batch_limit(self.handle))

    def witness(self) -> Any:
        """Return the fields of g16_device_witness."""
        witness = self.kernel._ffi.new("g16_device_witness *")
        self.calls.g16_device_key_witness(self.handle, witness)
        return witness

    def prove_with_blinding(self, inputs: bytes, rho: bytes, sigma: bytes) -> bytes:
        """Return a proof with given blinding values."""
        return self._only(self._prove([inputs], rho + sigma))

    def prove(self, inputs: bytes, stages: Stages | None = None, cancel: Any = None) -> bytes:
        """Return a proof with fresh blinding; stages: a list to which the times of its stages are added."""
        return self._only(self.prove_many([inputs], cancel, stages))

    def _only(self, batch: Batch) -> bytes:
        accept(batch.outcomes[0])
        return batch.proofs[0]

    def prove_many(self, inputs: list[bytes], cancel: Any = None, stages: Stages | None = None) -> Batch:
        """Return proofs with fresh blinding."""
        times = self.kernel._ffi.new("uint64_t[]", len(STAGES))
        batch = self._prove(inputs, None, times, cancel)
        if stages is not None:
            stages.append(dict(zip(STAGES, times, strict=True)))
        return batch

    def prove_many_with_blinding(
        self, inputs: list[bytes], values: list[tuple[int, int]], less_scratch: int = 0
    ) -> Batch:
        """Return proofs with given rho and sigma, a pair for each."""
        blinding = b"".join(value.to_bytes(32, "big") for pair in values for value in pair)
        return self._prove(inputs, blinding, less_scratch=less_scratch)

    def _prove(
        self, inputs: list[bytes], blinding: bytes | None, times: Any = None, cancel: Any = None, less_scratch: int = 0
    ) -> Batch:
        kernel, ffi, batch = self.kernel, self.kernel._ffi, len(inputs)
        size = int(self.calls.g16_device_prove_scratch_bytes(self.handle, batch)) - less_scratch
        buffers = [ffi.new("uint8_t[]", data) for data in inputs]
        proofs, statuses = ffi.new("uint8_t[]", 256 * batch), ffi.new("int[]", batch)
        errors = ffi.new("g16_error[]", batch)
        given = (times or ffi.NULL, blinding or ffi.NULL, ffi.new("uint8_t *[]", buffers), len(inputs[0]) // 32, batch)
        rest = (ffi.new("uint8_t[]", size), size, cancel or ffi.NULL, errors)
        status = self.calls.g16_device_prove(kernel._engine, self.handle, proofs, statuses, *given, *rest)
        outcomes = [
            Outcome(STATUSES[own], ffi.string(error.message).decode("ascii") if own else "", int(error.offset))
            for own, error in zip(statuses, errors, strict=True)
        ]
        data = bytes(ffi.buffer(proofs))
        return Batch(STATUSES[status], outcomes, [data[i : i + 256] for i in range(0, len(data), 256)])
