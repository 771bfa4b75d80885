"""Prepared keys: files that are loaded keys once they are mapped, without a conversion."""

import math
import mmap
from contextlib import ExitStack
from typing import Any

from msgspec import Struct

from prover.kernel._native import ffi, lib
from prover.kernel.cancellation import CancelFlag, Progress, cell_of
from prover.kernel.engine import Engine, LoadedKey
from prover.kernel.status import call


class PreparedInfo(Struct, frozen=True):
    """Header of a prepared file: its size, and size and SHA-256 of the key file that it was made from.

    ``point_format`` is the value of a PointFormat, or a value that another version defines.
    """

    version: int
    point_format: int
    sections: int
    file_bytes: int
    source_bytes: int
    source_sha256: bytes


class FoldCheckpoint(Struct, frozen=True):
    """Storage of the progress of folding: a mapped file that outlives the process.

    ``data`` is shared, writable, of ``fold_checkpoint_bytes`` bytes, and initially zeros. States are at least
    ``interval_s`` seconds apart; with 0 a state is saved after every 256 points.
    """

    data: mmap.mmap
    interval_s: float


def prepared_bytes(key: LoadedKey, table_bytes: int = 0, *, fold: bool = False) -> int:
    """Return the size of the prepared key, with the best tables that fit into ``table_bytes``.

    With ``fold`` it includes folded bases.
    """
    with key.handle.use() as pointer:
        return int(lib.g16_prepared_bytes(pointer, table_bytes, fold))


def fold_checkpoint_bytes(key: LoadedKey) -> int:
    """Return the size of a checkpoint of folding this key."""
    with key.handle.use() as pointer:
        return int(lib.g16_fold_checkpoint_bytes(pointer))


def fold_checkpoint_permille(key: LoadedKey, data: mmap.mmap, source_sha256: bytes) -> int | None:
    """Return the thousandths of folding a key that a checkpoint has saved; None if it has no valid state of the key."""
    with key.handle.use() as pointer, ffi.from_buffer("uint8_t[]", data) as source:
        permille = int(lib.g16_fold_checkpoint_permille(pointer, source, len(source), source_sha256))
    return None if permille < 0 else permille


def write_prepared(
    engine: Engine,
    key: LoadedKey,
    out: mmap.mmap,
    source_sha256: bytes,
    progress: Progress,
    cancel: CancelFlag,
    *,
    table_bytes: int = 0,
    fold: bool = False,
    checkpoint: FoldCheckpoint | None = None,
) -> None:
    """Fill ``out`` with the prepared key; the same key, ``table_bytes`` and ``fold`` give the same bytes.

    ``out`` has the length that ``prepared_bytes`` gives, ``source_sha256`` is the digest of the file that the key was
    loaded from. The engine's threads compute tables and folded bases; folded bases of the key are copied. Folding
    continues from the state of ``checkpoint``. Raises Cancelled, OutOfMemory, UnsupportedKey (cannot be folded) or
    KernelMisused.
    """
    with ExitStack() as stack:
        threads = stack.enter_context(engine.handle.use())
        pointer = stack.enter_context(key.handle.use())
        target = stack.enter_context(ffi.from_buffer("uint8_t[]", out, require_writable=True))
        kept = ffi.NULL if checkpoint is None else _checkpoint_of(stack, checkpoint)
        what = (pointer, target, len(target), table_bytes, fold, source_sha256, kept)
        call(lib.g16_prepared_write, threads, *what, progress.cell, cancel.cell)


def _checkpoint_of(stack: ExitStack, checkpoint: FoldCheckpoint) -> Any:
    data = stack.enter_context(ffi.from_buffer("uint8_t[]", checkpoint.data, require_writable=True))
    interval_ms = math.ceil(1000 * checkpoint.interval_s)
    return ffi.new("g16_fold_checkpoint *", {"data": data, "size": len(data), "interval_ms": interval_ms})


def describe_prepared(data: mmap.mmap) -> PreparedInfo:
    """Read the header of a prepared file; raises MalformedKey or UnsupportedKey."""
    info = ffi.new("g16_prepared_info *")
    with ffi.from_buffer("uint8_t[]", data) as source:
        call(lib.g16_prepared_describe, info, source, len(source))
    return PreparedInfo(
        info.version,
        info.point_format,
        info.sections,
        info.file_bytes,
        info.source_bytes,
        bytes(ffi.buffer(info.source_sha256)),
    )


def open_prepared(
    engine: Engine, data: mmap.mmap, cancel: CancelFlag | None = None, *, check_points: bool = True
) -> LoadedKey:
    """Return the key of a mapped prepared file; the key owns the map, and after an error the caller still does.

    Without ``check_points`` the checksums of the point lists, most of the file, are not checked.

    Raises MalformedKey, UnsupportedKey (another version or point format), OutOfMemory or Cancelled.
    """
    out = ffi.new("g16_key **")
    source = ffi.from_buffer("uint8_t[]", data)

    def destroy(pointer: Any) -> None:
        lib.g16_key_destroy(pointer)
        ffi.release(source)
        data.close()

    try:
        with engine.handle.use() as pointer:
            call(lib.g16_prepared_load, pointer, out, source, len(source), check_points, cell_of(cancel))
    except BaseException:
        ffi.release(source)
        raise
    return engine.adopt_key(out[0], destroy, data)


def verify_prepared(data: mmap.mmap, cancel: CancelFlag) -> None:
    """Compare all checksums of a mapped prepared file; raises MalformedKey, UnsupportedKey or Cancelled."""
    with ffi.from_buffer("uint8_t[]", data) as source:
        call(lib.g16_prepared_verify, source, len(source), cancel.cell)
