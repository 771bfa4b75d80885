"""Points of keys from a device over cffi: whole setups and foldings by the kernel, and the library's own table.

The GPU is libgroth16_cuda_host.so, whose interface is read from device_abi.h.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cffi
from device_library import Device, accept
from kernel_library import Kernel, Key, P, R

ABI = Path(__file__).resolve().parent.parent / "native/src/device_abi.h"
_DECLARATIONS = """
int g16_setup_create(void *engine, void **setup, const uint8_t *system, size_t size, const uint32_t *header,
                     uint32_t header_words, const int32_t *cancel, g16_error *error);
void g16_setup_destroy(void *setup);
size_t g16_setup_key_bytes(void *setup);
int g16_setup_run(void *engine, void *setup, uint8_t *file, size_t size, const uint8_t *secrets, uint32_t *progress,
                  const int32_t *cancel, g16_error *error);
int g16_device_setup_run(void *engine, void *device, void *setup, uint8_t *file, size_t size, const uint8_t *secrets,
                         uint32_t *progress, const int32_t *cancel, g16_error *error);
int g16_device_prepared_write(void *engine, void *device, void *key, uint8_t *out, size_t size, uint64_t table_bytes,
                              int fold, const uint8_t *sha256, uint32_t *progress, const int32_t *cancel,
                              g16_error *error);
"""
_MONTGOMERY = 2**256


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
        call = (
            self.calls.g16_setup_create,
            kernel._engine,
            handle,
            self._system,
            len(system),
            words,
            len(header),
            null,
        )
        accept(kernel._call(*call))
        self.handle = handle[0]

    def __enter__(self) -> Setup:
        return self

    def __exit__(self, *_: object) -> None:
        self.calls.g16_setup_destroy(self.handle)

    def run(self, secrets: bytes, device: Device | None = None, *, cancelled: bool = False) -> tuple[bytes, int]:
        """The key file, and the progress in the end; raises Refused."""
        kernel, ffi = self.kernel, self.kernel._ffi
        size = int(self.calls.g16_setup_key_bytes(self.handle))
        file, progress, cancel = ffi.new("uint8_t[]", size), ffi.new("uint32_t *"), ffi.new("int32_t *", int(cancelled))
        rest = (self.handle, file, size, secrets, progress, cancel)
        if device is None:
            accept(kernel._call(self.calls.g16_setup_run, kernel._engine, *rest))
        else:
            accept(kernel._call(self.calls.g16_device_setup_run, kernel._engine, device.handle, *rest))
        return bytes(ffi.buffer(file)), int(progress[0])


def folded(device: Device, key: Key, table_bytes: int = 0, *, cancelled: bool = False) -> tuple[bytes, int]:
    """The prepared form of a key with folded bases of the device, and the progress in the end; raises Refused."""
    kernel, ffi, calls = key._kernel, key._kernel._ffi, _declared(key._kernel)
    size = int(calls.g16_prepared_bytes(key._handle, table_bytes, 1))
    out, progress, cancel = ffi.new("uint8_t[]", size), ffi.new("uint32_t *"), ffi.new("int32_t *", int(cancelled))
    rest = (key._handle, out, size, table_bytes, 1, bytes(32), progress, cancel)
    accept(kernel._call(calls.g16_device_prepared_write, kernel._engine, device.handle, *rest))
    return bytes(ffi.buffer(out)), int(progress[0])


# ---- the library's own table ---------------------------------------------------------------------

Coordinates = tuple[int, ...]
"""Of an affine point: two in G1, four in G2, the coefficient of 1 first; zeros for infinity."""


def points_to_bytes(points: list[Coordinates]) -> bytes:
    """As the device takes them: Montgomery form, little-endian."""
    return b"".join((c * _MONTGOMERY % P).to_bytes(32, "little") for point in points for c in point)


def points_from_bytes(data: bytes, coordinates: int) -> list[Coordinates]:
    """The reverse."""
    inverse = pow(_MONTGOMERY, -1, P)
    numbers = [int.from_bytes(data[i : i + 32], "little") for i in range(0, len(data), 32)]
    assert all(number < P for number in numbers)
    plain = [number * inverse % P for number in numbers]
    return [tuple(plain[i : i + coordinates]) for i in range(0, len(plain), coordinates)]


def scalars_to_bytes(scalars: list[int]) -> bytes:
    """Scalars in Montgomery form, little-endian."""
    return b"".join((scalar * _MONTGOMERY % R).to_bytes(32, "little") for scalar in scalars)


class PointLibrary:
    """The functions of device_abi.h that make points, on a GPU in software that is opened for each use."""

    def __init__(self, library: Path, budget: int = 2**28) -> None:
        self._ffi = cffi.FFI()
        lines = (line for line in ABI.read_text().splitlines() if not line.startswith(("#", "static ")))
        self._ffi.cdef("\n".join(lines))
        self._ffi.cdef("const device_abi_library *groth16_device_library(void);")
        self._object: Any = self._ffi.dlopen(str(library))
        self._table = self._object.groth16_device_library()
        self._budget = budget

    @contextmanager
    def _device(self) -> Iterator[tuple[Any, Any]]:
        handle, message = self._ffi.new("void **"), self._ffi.new("char[200]")
        assert self._table.open(handle, 0, self._budget, message) == 0
        yield handle[0], message
        self._table.close(handle[0])

    def multiples(self, group: int, point: Coordinates, scalars: list[int], expected: int = 0) -> list[Coordinates]:
        """Multiples of a point; `expected`: how many to announce."""
        given = self._ffi.from_buffer(points_to_bytes([point]))
        out, null = self._ffi.new("uint8_t[]", 64 * group * len(scalars)), self._ffi.NULL
        handle = self._ffi.new("void **")
        with self._device() as (device, message):
            count = expected or len(scalars)
            assert self._table.multiples_open(device, handle, group, given, count, null, message) == 0
            values = self._ffi.from_buffer(scalars_to_bytes(scalars))
            assert self._table.multiples_run(handle[0], out, values, len(scalars), null, message) == 0
            self._table.multiples_close(handle[0])
        return points_from_bytes(bytes(self._ffi.buffer(out)), 2 * group)

    def _used(self, device: Any, message: Any) -> int:
        """Bytes of the budget that are taken."""
        info = self._ffi.new("device_abi_info *")
        assert self._table.describe(device, info, message) == 0
        return int(info.used_bytes)

    def multiples_bytes(self, group: int, point: Coordinates, count: int) -> int:
        """What multiples of a point take of the device's memory, so many of them announced."""
        given, handle = self._ffi.from_buffer(points_to_bytes([point])), self._ffi.new("void **")
        with self._device() as (device, message):
            assert self._table.multiples_open(device, handle, group, given, count, self._ffi.NULL, message) == 0
            used = self._used(device, message)
            self._table.multiples_close(handle[0])
        return used

    def lists_bytes(self, log2: int) -> int:
        """What transforms of 2^log2 points take of the device's memory."""
        table, handle = self._ffi.from_buffer(bytes(32 << log2)), self._ffi.new("void **")
        with self._device() as (device, message):
            assert self._table.lists_open(device, handle, log2, table, self._ffi.NULL, message) == 0
            used = self._used(device, message)
            self._table.lists_close(handle[0])
        return used

    @contextmanager
    def _lists(self, log2: int, roots: list[int]) -> Iterator[tuple[Any, Any, Any]]:
        table = self._ffi.from_buffer(scalars_to_bytes(roots))
        watch, handle = self._ffi.new("device_abi_watch *"), self._ffi.new("void **")
        with self._device() as (device, message):
            assert self._table.lists_open(device, handle, log2, table, self._ffi.NULL, message) == 0
            yield handle[0], watch, message
            self._table.lists_close(handle[0])

    def scale(self, points: list[Coordinates], scalars: list[int]) -> list[Coordinates]:
        """Each point of G1 times a scalar of its own, in the memory of a transform of two points."""
        data = self._ffi.new("uint8_t[]", points_to_bytes(points))
        values = self._ffi.from_buffer(scalars_to_bytes(scalars))
        with self._lists(1, [1, 1]) as (lists, watch, message):
            assert self._table.lists_scale(lists, data, values, len(points), watch, message) == 0
        return points_from_bytes(bytes(self._ffi.buffer(data))[: 64 * len(points)], 2)

    def transform(self, points: list[Coordinates], roots: list[int], *, forward: bool) -> list[Coordinates]:
        """A transform of points of G1."""
        log2 = len(points).bit_length() - 1
        data = self._ffi.new("uint8_t[]", points_to_bytes(points))
        with self._lists(log2, roots) as (lists, watch, message):
            assert self._table.lists_transform(lists, data, log2, forward, watch, message) == 0
        return points_from_bytes(bytes(self._ffi.buffer(data))[: 64 * len(points)], 2)
