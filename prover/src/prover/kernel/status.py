"""Exceptions for each status of the kernel."""

from collections.abc import Callable
from typing import Any

from prover.errors import (
    Cancelled,
    DeviceLost,
    DeviceOutOfMemory,
    DeviceUnavailable,
    KernelMisused,
    MalformedKey,
    MalformedProof,
    OutOfMemory,
    ProofRejected,
    ProverError,
    UnsupportedKey,
    WitnessRejected,
)
from prover.kernel._native import ffi, lib


def _malformed_key(message: str, error: Any) -> ProverError:
    offset = int(error.offset)
    return MalformedKey(f"{message} (byte {offset} of the file)", offset=offset)


def _unsatisfied(message: str, error: Any) -> ProverError:
    return WitnessRejected(message, constraint=int(error.constraint))


def _out_of_memory(message: str, _: Any) -> ProverError:
    return OutOfMemory(f"{message}: add memory, prove fewer at a time, or use smaller batches")


EXCEPTIONS: dict[int, Callable[[str, Any], ProverError]] = {
    lib.G16_INVALID_ARGUMENT: lambda message, _: KernelMisused(message),
    lib.G16_OUT_OF_MEMORY: _out_of_memory,
    lib.G16_CANCELLED: lambda _message, _error: Cancelled(),
    lib.G16_MALFORMED_KEY: _malformed_key,
    lib.G16_UNSUPPORTED_KEY: lambda message, _: UnsupportedKey(message),
    lib.G16_UNSATISFIED_CONSTRAINT: _unsatisfied,
    lib.G16_MALFORMED_PROOF: lambda message, _: MalformedProof(message),
    lib.G16_PROOF_REJECTED: lambda message, _: ProofRejected(message),
    lib.G16_RANDOMNESS_UNAVAILABLE: lambda message, _: DeviceUnavailable(message),
    lib.G16_THREADS_UNAVAILABLE: lambda message, _: DeviceUnavailable(message),
    lib.G16_DEVICE_UNAVAILABLE: lambda message, _: DeviceUnavailable(message),
    lib.G16_DEVICE_OUT_OF_MEMORY: lambda message, _: DeviceOutOfMemory(message),
    lib.G16_DEVICE_LOST: lambda message, _: DeviceLost(message),
}
"""Every status but G16_OK; a test compares the table with the header."""


def call(function: Callable[..., int], *arguments: Any) -> None:
    """Call a function of the kernel, whose last argument describes a failure; raise the exception of its status."""
    error = ffi.new("g16_error *")
    failure = failure_of(function(*arguments, error), error)
    if failure is not None:
        raise failure


def failure_of(status: int, error: Any) -> ProverError | None:
    """Return the exception of a status, None for success."""
    if status == lib.G16_OK:
        return None
    message = ffi.string(error.message).decode("ascii", "replace")
    if not message:
        message = ffi.string(lib.g16_status_name(status)).decode("ascii").replace("_", " ")
    make = EXCEPTIONS.get(status)
    return make(message, error) if make else KernelMisused(f"unknown status {status}: {message}")
