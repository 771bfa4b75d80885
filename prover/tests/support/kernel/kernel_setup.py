"""Trusted setups by the kernel over cffi, for given secrets."""

from __future__ import annotations

from typing import Any

from device_library import accept
from kernel_library import Kernel

_DECLARATIONS = """
int g16_setup_create(void *engine, void **setup, const uint8_t *system, size_t size, const uint32_t *header,
                     uint32_t header_words, const int32_t *cancel, g16_error *error);
void g16_setup_destroy(void *setup);
size_t g16_setup_key_bytes(void *setup);
int g16_setup_run(void *engine, void *setup, uint8_t *file, size_t size, const uint8_t *secrets, uint32_t *progress,
                  const int32_t *cancel, g16_error *error);
"""


def _declared(kernel: Kernel) -> Any:
    kernel._ffi.cdef(_DECLARATIONS, override=True)  # maybe again
    return kernel._library


class Setup:
    """A constraint system ready to become keys; a context manager."""

    def __init__(self, kernel: Kernel, system: bytes, header: list[int]) -> None:
        self.kernel, self.calls = kernel, _declared(kernel)
        self._system = kernel._ffi.new("uint8_t[]", system)
        handle, null = kernel._ffi.new("void **"), kernel._ffi.NULL
        words = kernel._ffi.new("uint32_t[]", header)
        create = self.calls.g16_setup_create
        source = (self._system, len(system), words, len(header), null)
        accept(kernel._call(create, kernel._engine, handle, *source))
        self.handle = handle[0]

    def __enter__(self) -> Setup:
        return self

    def __exit__(self, *_: object) -> None:
        self.calls.g16_setup_destroy(self.handle)

    def run(self, secrets: bytes) -> bytes:
        """Return the key file; raises Refused."""
        kernel, ffi = self.kernel, self.kernel._ffi
        size = int(self.calls.g16_setup_key_bytes(self.handle))
        file, null = ffi.new("uint8_t[]", size), ffi.NULL
        call = (kernel._engine, self.handle, file, size, secrets, null, null)
        accept(kernel._call(self.calls.g16_setup_run, *call))
        return bytes(ffi.buffer(file))
