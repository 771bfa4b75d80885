"""GPUs that make proofs, opened through a separate, optional library.

A key is copied to a device once, for any number of proofs, several in one call or one at a time. Calls block, release
the interpreter lock, and may run concurrently. Proofs are not verified here.
"""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prover.errors import DeviceUnavailable, KernelMisused, ProverError
from prover.kernel import _native
from prover.kernel._native import ffi, lib
from prover.kernel.cancellation import CancelFlag, cell_of
from prover.kernel.engine import (
    PROOF_BYTES,
    SCALAR_BYTES,
    KernelProof,
    LoadedKey,
    stage_seconds,
)
from prover.kernel.handles import Handle, Owner
from prover.kernel.status import call, failure_of

LIBRARY_NAME = "libgroth16_cuda.so"
_LIBRARY_REMEDY = (
    "build it with `make native-cuda`, name another with --cuda-library (PROVER_CUDA_LIBRARY), "
    "or prove on the CPU with --device cpu (PROVER_DEVICE)"
)


@dataclass(frozen=True)
class DeviceInfo:
    """Properties of a GPU and use of its memory; sizes are bytes.

    ``capability`` is major and minor; ``driver_version`` is that of CUDA, 12040 for 12.4. ``budget_bytes`` bounds the
    memory of this process, of which ``used_bytes`` are in use.
    """

    name: str
    capability: tuple[int, int]
    driver_version: int
    memory_bytes: int
    budget_bytes: int
    used_bytes: int


def installed_library() -> Path:
    """Return the path of an installed library, in the folder of the extension."""
    return Path(_native.__file__).with_name(LIBRARY_NAME)


def find_library(named: Path | None = None) -> Path:
    """Return the given library, by default the installed one. Raises DeviceUnavailable if it does not exist."""
    path = named or installed_library()
    if path.is_file():
        return path
    if named is not None:
        raise DeviceUnavailable(
            f"CUDA library {named} (--cuda-library, PROVER_CUDA_LIBRARY) does not exist: pass another path, or none"
        )
    raise DeviceUnavailable(f"CUDA library {path} does not exist: {_LIBRARY_REMEDY}")


def cuda_version(number: int) -> str:
    """Return a CUDA version as text: 12040 is 12.4."""
    return f"{number // 1000}.{number % 1000 // 10}"


def device_count(library: Path) -> int:
    """Return the number of GPUs. Raises DeviceUnavailable without library or driver."""
    count = ffi.new("uint32_t *")
    call(lib.g16_device_count, os.fsencode(library), count)
    return int(count[0])


class Device(Owner):
    """A GPU that keys are copied to. Close it, or use it as a context manager; it is released after its last key."""

    def __init__(self, library: Path, index: int = 0, budget_bytes: int = 0) -> None:
        """Open a GPU by index; of its memory ``budget_bytes`` may be used, 0 for nine tenths of what is free.

        Raises DeviceUnavailable, DeviceOutOfMemory or DeviceLost.
        """
        out = ffi.new("g16_device **")
        call(lib.g16_device_open, out, os.fsencode(library), index, budget_bytes)
        self._handle = Handle("device", out[0], lib.g16_device_close)

    def describe(self) -> DeviceInfo:
        """Return its properties and its memory in use. Raises DeviceLost."""
        info = ffi.new("g16_device_info *")
        with self._handle.use() as device:
            call(lib.g16_device_describe, device, info)
        return DeviceInfo(
            name=ffi.string(info.name).decode("ascii", "replace"),
            capability=(info.capability_major, info.capability_minor),
            driver_version=info.driver_version,
            memory_bytes=info.memory_bytes,
            budget_bytes=info.budget_bytes,
            used_bytes=info.used_bytes,
        )

    def key_bytes(self, key: LoadedKey) -> int:
        """Return the device memory that a key would take now, in bytes, without proofs and witness chains."""
        return int(self._sizes(key).key_bytes)

    def proof_bytes(self, key: LoadedKey) -> int:
        """Return the device memory of one proof in progress without its key, in bytes."""
        return int(self._sizes(key).proof_bytes)

    def _sizes(self, key: LoadedKey) -> Any:
        sizes = ffi.new("g16_device_sizes *")
        with self._handle.use() as device, key.handle.use() as pointer:
            lib.g16_device_key_sizes(device, pointer, sizes)
        return sizes

    def load_key(self, key: LoadedKey, cancel: CancelFlag | None = None, table_limit: int = 0) -> "DeviceKey":
        """Copy a key to the device; device and key are released after the copy.

        A copy with tables takes at most ``table_limit`` bytes; 0 for no limit but the budget.

        Raises DeviceOutOfMemory, DeviceLost, UnsupportedKey, Cancelled, or KernelMisused when the device is closed.
        """
        out = ffi.new("g16_device_key **")
        with ExitStack() as stack:
            device = stack.enter_context(self._handle.use())
            pointer = stack.enter_context(key.handle.use())
            call(lib.g16_device_key_load, device, out, pointer, table_limit, cell_of(cancel))
            return DeviceKey(key, out[0], stack.pop_all())

    def close(self) -> None:
        """Close the device once its keys are gone and running calls have returned."""
        self._handle.close()


class DeviceKey(Owner):
    """The copy of a key on a device. Close it, or use it as a context manager."""

    def __init__(self, key: LoadedKey, pointer: Any, holds: ExitStack) -> None:
        """Own a C key; ``holds`` keeps device and host key until it is destroyed."""

        def destroy(ended: Any) -> None:
            lib.g16_device_key_destroy(ended)
            holds.close()

        self._key = key
        self._handle = Handle("key on the device", pointer, destroy)
        self.bytes = int(lib.g16_device_key_bytes(pointer))
        """Device memory of the copy, without proofs."""
        self.batch_limit = int(lib.g16_device_key_batch_limit(pointer))
        """Maximum proofs of one call; 1 for keys of which one proof fills the device."""

    def scratch_bytes_of(self, proofs: int) -> int:
        """Return the working memory on the host, in bytes, of a call that makes ``proofs`` proofs."""
        with self._handle.use() as key:
            return int(lib.g16_device_prove_scratch_bytes(key, proofs))

    @property
    def witness_solver(self) -> str:
        """``gpu`` if it solves the witnesses of this key, else the reason why the CPU does."""
        found = ffi.new("g16_device_witness *")
        with self._handle.use() as pointer:
            lib.g16_device_key_witness(pointer, found)
        return "gpu" if found.on_device else ffi.string(found.reason).decode("ascii", "replace")

    def prove(self, inputs: Sequence[bytes], cancel: CancelFlag | None = None) -> list[KernelProof | ProverError]:
        """Make 1 to ``batch_limit`` proofs in one call, for inputs of equal length.

        Returns in order each proof, or the error that LoadedKey.prove would raise. Unsatisfied inputs fail alone; a
        fault of the device (DeviceOutOfMemory, DeviceLost), or the flag, fails all others. Raises OutOfMemory, or
        KernelMisused when lengths differ, before any proof is begun.
        """
        batch, length = len(inputs), len(inputs[0])
        if length % SCALAR_BYTES or any(len(one) != length for one in inputs):
            raise KernelMisused(f"inputs of one call have equal lengths, {SCALAR_BYTES} bytes for each scalar")
        proofs = ffi.new("uint8_t[]", batch * PROOF_BYTES)
        statuses, errors = ffi.new("g16_status[]", batch), ffi.new("g16_error[]", batch)
        stage_ns = ffi.new("uint64_t[]", lib.G16_STAGE_COUNT)
        held = [ffi.from_buffer("uint8_t[]", one) for one in inputs]
        pointers = ffi.new("uint8_t *[]", held)
        with self._key.working(self.scratch_bytes_of(batch), self._handle) as (engine, key, scratch):
            rest = (ffi.NULL, pointers, length // SCALAR_BYTES, batch, scratch, len(scratch), cell_of(cancel), errors)
            status = lib.g16_device_prove(engine, key, proofs, statuses, stage_ns, *rest)
        points, seconds = bytes(ffi.buffer(proofs)), stage_seconds(stage_ns, batch)
        return [
            failure_of(statuses[place] or status, errors[place])
            or KernelProof(points[place * PROOF_BYTES : (place + 1) * PROOF_BYTES], seconds)
            for place in range(batch)
        ]

    def close(self) -> None:
        """Release the device memory once running calls have returned."""
        self._handle.close()
