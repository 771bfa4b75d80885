"""GPUs that make proofs: opened through a library of their own, which an installation may lack.

A key is copied to a device once and proved with there as often as wanted. Calls block, release the interpreter lock,
and may run at once. Proofs are not verified here.
"""

import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prover.errors import DeviceUnavailable
from prover.kernel import _native
from prover.kernel._native import ffi, lib
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import BlindingForm, KernelProof, LoadedKey, ProofCalls
from prover.kernel.handles import Handle, Owner
from prover.kernel.status import check, new_error

LIBRARY_NAME = "libgroth16_cuda.so"
_LIBRARY_REMEDY = (
    "build it with `make native-cuda`, name another with --cuda-library (PROVER_CUDA_LIBRARY), "
    "or prove on the processor with --device cpu (PROVER_DEVICE)"
)
_CALLS = ProofCalls(lib.g16_device_prove_scratch_bytes, lib.g16_device_prove, lib.g16_device_prove_with_blinding)


@dataclass(frozen=True)
class DeviceInfo:
    """What a GPU is and what of its memory is taken; sizes are bytes.

    ``capability`` is major and minor; versions are those of CUDA, 12040 for 12.4. ``budget_bytes`` bounds what this
    process takes, of which ``used_bytes`` are taken.
    """

    name: str
    index: int
    capability: tuple[int, int]
    multiprocessors: int
    driver_version: int
    runtime_version: int
    memory_bytes: int
    free_bytes: int
    budget_bytes: int
    used_bytes: int


def installed_library() -> Path:
    """Where the library lies if it was installed: beside the extension."""
    return Path(_native.__file__).with_name(LIBRARY_NAME)


def find_library(named: Path | None = None) -> Path:
    """Return the library that was named, else the installed one; raises DeviceUnavailable if it is not there."""
    path = named or installed_library()
    if path.is_file():
        return path
    if named is not None:
        raise DeviceUnavailable(
            f"there is no CUDA library {named} (--cuda-library, PROVER_CUDA_LIBRARY): name another, or none"
        )
    raise DeviceUnavailable(f"there is no CUDA library {path}: {_LIBRARY_REMEDY}")


def cuda_version(number: int) -> str:
    """Spell a version of CUDA: 12040 is 12.4."""
    return f"{number // 1000}.{number % 1000 // 10}"


def device_count(library: Path) -> int:
    """Return how many GPUs there are; raises DeviceUnavailable without library or driver."""
    count = ffi.new("uint32_t *")
    error = new_error()
    check(lib.g16_device_count(os.fsencode(library), count, error), error)
    return int(count[0])


class Device(Owner):
    """A GPU that keys are copied to. Close it, or use it as a context manager; it ends after its last key."""

    def __init__(self, library: Path, index: int = 0, budget_bytes: int = 0) -> None:
        """Open a GPU by index; of its memory ``budget_bytes`` may be used, 0 for nine tenths of what is free.

        Raises DeviceUnavailable, DeviceOutOfMemory or DeviceLost.
        """
        out = ffi.new("g16_device **")
        error = new_error()
        check(lib.g16_device_open(out, os.fsencode(library), index, budget_bytes, error), error)
        self._handle = Handle("device", out[0], lib.g16_device_close)

    def describe(self) -> DeviceInfo:
        """Tell what it is and what is taken now; raises DeviceLost."""
        info = ffi.new("g16_device_info *")
        error = new_error()
        with self._handle.use() as device:
            check(lib.g16_device_describe(device, info, error), error)
        return DeviceInfo(
            name=ffi.string(info.name).decode("ascii", "replace"),
            index=info.index,
            capability=(info.capability_major, info.capability_minor),
            multiprocessors=info.multiprocessors,
            driver_version=info.driver_version,
            runtime_version=info.runtime_version,
            memory_bytes=info.memory_bytes,
            free_bytes=info.free_bytes,
            budget_bytes=info.budget_bytes,
            used_bytes=info.used_bytes,
        )

    def key_bytes(self, key: LoadedKey) -> int:
        """Memory of the device that a key takes, proofs in progress apart."""
        with self._handle.use() as device, key.handle.use() as pointer:
            return int(lib.g16_device_key_bytes(device, pointer))

    def proof_bytes(self, key: LoadedKey) -> int:
        """Memory of the device that one proof in progress takes beside its key."""
        with self._handle.use() as device, key.handle.use() as pointer:
            return int(lib.g16_device_proof_bytes(device, pointer))

    def load_key(self, key: LoadedKey, cancel: CancelFlag | None = None) -> "DeviceKey":
        """Copy a key to the device; device and key end after the copy.

        Raises DeviceOutOfMemory, DeviceLost, UnsupportedKey or Cancelled.
        """
        out = ffi.new("g16_device_key **")
        error = new_error()
        with ExitStack() as stack:
            device = stack.enter_context(self._handle.use())
            pointer = stack.enter_context(key.handle.use())
            cell = ffi.NULL if cancel is None else cancel.cell
            check(lib.g16_device_key_load(device, out, pointer, cell, error), error)
            return DeviceKey(key, out[0], stack.pop_all())

    def close(self) -> None:
        """Close the device once its keys are gone and running calls have returned."""
        self._handle.close()


class DeviceKey(Owner):
    """The copy of a key on a device. Close it, or use it as a context manager."""

    def __init__(self, key: LoadedKey, pointer: Any, holds: ExitStack) -> None:
        """Own a C key; ``holds`` keeps what it stands on until it is destroyed."""

        def destroy(ended: Any) -> None:
            lib.g16_device_key_destroy(ended)
            holds.close()

        self._key = key
        self._handle = Handle("key on the device", pointer, destroy)

    @property
    def scratch_bytes(self) -> int:
        """Working memory of one proof on the host, in bytes."""
        return self._key.scratch_by(_CALLS, self._handle)

    def prove(
        self,
        inputs: bytes,
        cancel: CancelFlag | None = None,
        blinding: tuple[bytes, bytes] | None = None,
        form: BlindingForm = BlindingForm.CLASSICAL,
    ) -> KernelProof:
        """Prove as LoadedKey.prove does, with the same bytes for the same blinding.

        Raises what that raises, DeviceOutOfMemory and DeviceLost.
        """
        return self._key.prove_by(_CALLS, self._handle, inputs, cancel, blinding, form)

    def close(self) -> None:
        """Release the memory of the device once running calls have returned."""
        self._handle.close()
