"""Key files in memory: from a valid prepared key, else from gnark's file.

A prepared key is written once, under a hidden name, and gets its own name when it is complete. It never changes
afterwards, so processes map it without copying. Size and SHA-256 tie it to its source. The digest is not computed at
every load (verified_source).
See prover/docs/reference/prepared-key-format.md, "What a reader does" and "What a writer does".
"""

import contextlib
import errno
import glob
import hashlib
import mmap
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from prover.errors import KeyUnavailable, MalformedKey, UnsupportedKey
from prover.kernel.cancellation import CancelFlag, Progress
from prover.kernel.engine import Engine, LoadedKey
from prover.kernel.prepared import (
    PreparedInfo,
    describe_prepared,
    open_prepared,
    prepared_bytes,
    verify_prepared,
    write_prepared,
)
from prover.keys.files.atomic_file import HUGE_PAGES_FROM, atomic_file, explained, mapped
from prover.keys.files.file_owner import untrusted_reason
from prover.keys.files.memory_budget import require_memory_for_folding
from prover.keys.files.private_copy import read_pieces, room_for
from prover.keys.files.provenance import sha256_of_file
from prover.keys.prepared import fold_checkpoint
from prover.keys.prepared.preparation_lock import preparation_lock
from prover.keys.prepared.table_room import room_for_tables
from prover.keys.prepared.verified_source import is_verified, record_verified
from shared.process.cpus_and_memory import memory_limit_bytes
from shared.process.logs import get_logger

_log = get_logger(__name__)

Digests = frozenset[bytes]
"""SHA-256 digests, one of which a key file must have; an empty set accepts any."""


FOLDER = "prepared"
"""Name of the folder of prepared files inside a keys directory."""
SUFFIX = ".prepared"

_FULL_CHECK_BYTES = 2**30
"""Size up to which a load compares all checksums; of larger files it skips those of points. `verify` compares all."""
_RESERVED_DISK_BYTES = 2**29
"""Disk space that preparation in the background leaves free."""
_READ_ONLY = 0o444
_GROUP_MAY_WRITE = 0o020


class _UntrustedOwner(Exception):
    """A prepared key that is not trusted here, but may be of use to other users."""


class Source(Struct, frozen=True):
    """Status and digest of a key file at the time when its bytes were read."""

    stat: os.stat_result
    sha256: bytes


def load(engine: Engine, source: Path, folder: Path, cancel: CancelFlag | None = None) -> LoadedKey:
    """Load a key file, from its prepared key if ``folder`` has a valid one; errors name the file.

    Raises KeyUnavailable, MalformedKey, UnsupportedKey, OutOfMemory or Cancelled.
    """
    return open_existing(engine, source, folder, cancel) or load_source(engine, source, cancel)


def load_source(
    engine: Engine, source: Path, cancel: CancelFlag | None = None, accepted: Digests = frozenset()
) -> LoadedKey:
    """Load a key file itself; raises like ``load``, and MalformedKey for a digest that is not accepted."""
    return _load_gnark(engine, source, cancel, accepted, with_digest=bool(accepted))[0]


def load_with_origin(
    engine: Engine, source: Path, cancel: CancelFlag | None = None, accepted: Digests = frozenset()
) -> tuple[LoadedKey, Source]:
    """Load a key file itself and return its Source for ``prepare_loaded``; raises like ``load_source``."""
    return _load_gnark(engine, source, cancel, accepted, with_digest=True)


def path_of(engine: Engine, source: Path, folder: Path) -> Path:
    """Return the path of the prepared key of a key file in the point format of an engine."""
    point_format = engine.point_format.name.lower().replace("_", "-")
    return folder / f"{source.name}.{point_format}{SUFFIX}"


def open_existing(
    engine: Engine,
    source: Path,
    folder: Path,
    cancel: CancelFlag | None = None,
    accepted: Digests = frozenset(),
) -> LoadedKey | None:
    """Map the prepared key of a key file; None if there is none or it is invalid, which is logged."""
    return _existing(engine, source, folder, cancel, accepted)[0]


def _existing(
    engine: Engine, source: Path, folder: Path, cancel: CancelFlag | None, accepted: Digests
) -> tuple[LoadedKey | None, bool]:
    """Open as ``open_existing`` does, and return whether an invalid one may be valid for other users or versions."""
    path = path_of(engine, source, folder)
    try:
        with _mapped_file(path, source) as (data, stat):
            info = describe_prepared(data)
            is_accepted = not accepted or info.source_sha256 in accepted
            if not is_accepted or not _is_made_from(source, info, path, stat, cancel):
                _log.info("prepared_key_outdated", file=str(path), source=str(source))
                return None, False
            return open_prepared(engine, data, cancel, check_points=stat.st_size <= _FULL_CHECK_BYTES), False
    except FileNotFoundError:
        return None, False
    except (OSError, KeyUnavailable, _UntrustedOwner) as error:
        _log.warning(
            "prepared_key_unusable",
            file=str(path),
            error=error.detail if isinstance(error, KeyUnavailable) else str(error),
            remedy="the key is read from its source; run `prover keys prepare` or remove the prepared file",
        )
        return None, isinstance(error, UnsupportedKey | _UntrustedOwner | PermissionError)


def prepare(
    engine: Engine,
    source: Path,
    folder: Path,
    *,
    check: Callable[[LoadedKey], None] = lambda _: None,
    table_bytes: int | None = 0,
    fold: bool = False,
    force: bool = False,
    progress: Progress | None = None,
    cancel: CancelFlag | None = None,
) -> bool:
    """Write the prepared key of a key file unless a valid one exists, and return whether it was written.

    ``check`` gets the key before the write and may raise. ``table_bytes`` is room for tables of precomputed bases, None
    the default for the circuit (table_room). ``fold`` requests folded bases. A prepared key with smaller tables or
    without the requested folded bases is written again; a folded one stays folded unless ``force`` is given. Stopped
    folding resumes (fold_checkpoint). If another process is writing it, its result is awaited and used. Raises
    SettingsInvalid when the folder cannot be written or has no room, and the errors of ``load``.
    """
    flag = cancel or CancelFlag()
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
    path = path_of(engine, source, folder)
    with _opened(source) as opened, preparation_lock(opened.fileno(), path, flag):
        existing = None if force else open_existing(engine, source, folder, flag)
        if existing is not None:
            with existing:
                is_folded = existing.info.fold_bytes > 0
                if (is_folded or not fold) and _has_tables(existing, table_bytes):
                    if is_folded:
                        fold_checkpoint.discard(path)
                    return False
                fold = fold or is_folded
        key, origin = load_with_origin(engine, source, flag)
        with key:
            check(key)
            if fold:
                require_memory_for_folding(key.info, memory_limit_bytes())
            room = room_for_tables(key.info, table_bytes)
            _write(engine, key, origin, path, progress or Progress(), flag, room, fold)
    return True


def prepare_loaded(
    key: LoadedKey, origin: Source, engine: Engine, source: Path, folder: Path, cancel: CancelFlag
) -> bool:
    """Write the prepared key, without tables, of a key that load_with_origin returned; return whether it was written.

    As no user requested it, nothing is written to a nearly full disk, nor over a file that another user
    or version wrote, which would replace ours in the same way at every start. It does not wait for another process that
    prepares the key: folding takes hours. Raises KernelMisused when the key is closed.
    """
    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
    path = path_of(engine, source, folder)
    with _opened(source) as opened, preparation_lock(opened.fileno(), path, cancel, waits=False) as is_alone:
        existing, is_foreign = _existing(engine, source, folder, cancel, frozenset()) if is_alone else (None, False)
        if existing is not None:
            existing.close()
        if existing is not None or is_foreign or not is_alone:
            return False
        with explained(folder):
            if shutil.disk_usage(folder).free < prepared_bytes(key) + _RESERVED_DISK_BYTES:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        _write(engine, key, origin, path, Progress(), cancel, 0, fold=False)
    return True


def prepared_files_of(source: Path, folder: Path) -> list[Path]:
    """Return the prepared keys of a key file in all point formats."""
    return sorted(folder.glob(f"{glob.escape(source.name)}.*{SUFFIX}"))


def verify(path: Path, source: Path, source_sha256: bytes, cancel: CancelFlag) -> None:
    """Verify all checksums of a prepared key of any user, and that it was made from its source.

    Raises MalformedKey, KeyUnavailable for a file of this user that others may write, or UnsupportedKey for one of
    another version. The file is mapped, as a copy of a folded key would need its whole size in memory: its owner may
    end this process by truncating it.
    """
    with _named(path), _mapped_file(path, None) as (data, stat):
        if stat.st_uid == os.geteuid() and (reason := untrusted_reason(stat)) is not None:
            raise KeyUnavailable(f"prepared key {path.name}: {reason}")
        if describe_prepared(data).source_sha256 != source_sha256:
            raise MalformedKey(f"it was made from another release of {source.name}")
        verify_prepared(data, cancel)


def _has_tables(existing: LoadedKey, table_bytes: int | None) -> bool:
    """Return whether the tables of a prepared key are as large as those that this room allows."""
    is_folded = existing.info.fold_bytes > 0
    wanted = prepared_bytes(existing, room_for_tables(existing.info, table_bytes), fold=is_folded)
    if existing.info.table_bytes == 0:  # no tables that this engine uses, but the file may have others
        return wanted == prepared_bytes(existing, 0, fold=is_folded)
    return existing.info.mapped_bytes >= wanted


# ---- prepared files --------------------------------------------------------------------------------


@contextlib.contextmanager
def _mapped_file(path: Path, source: Path | None) -> Iterator[tuple[mmap.mmap, os.stat_result]]:
    """Map a file for reading; with a source, only a trusted one. Closes the map unless a key owns it.

    Raises OSError or KeyUnavailable.
    """
    with open(path, "rb", opener=_open_nonblocking) as file:
        if source is not None:
            _require_trusted(file.fileno(), source)
        stat = os.fstat(file.fileno())
        if stat.st_size == 0:
            raise MalformedKey("it is empty")
        data = mmap.mmap(file.fileno(), stat.st_size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
        if stat.st_size >= HUGE_PAGES_FROM:
            # What is not cached is then read in huge pages, in whatever order proofs use it.
            with contextlib.suppress(OSError):
                data.madvise(mmap.MADV_HUGEPAGE)
    try:
        yield data, stat
    finally:
        with contextlib.suppress(BufferError):  # a key owns it now
            data.close()


def _open_nonblocking(path: str, flags: int) -> int:
    """Open a file; a pipe planted under its name does not block."""
    return os.open(path, flags | os.O_NONBLOCK)


def _require_trusted(descriptor: int, source: Path) -> None:
    """Make a trusted file read-only for its group.

    Raises _UntrustedOwner, or KeyUnavailable for a file of this user that others may have written.
    """
    stat = os.fstat(descriptor)
    if (reason := untrusted_reason(stat, source.stat().st_uid)) is not None:
        raise KeyUnavailable(reason) if stat.st_uid == os.geteuid() else _UntrustedOwner(reason)
    if stat.st_mode & _GROUP_MAY_WRITE:
        with contextlib.suppress(OSError):
            os.fchmod(descriptor, _READ_ONLY)


def _is_made_from(
    source: Path, info: PreparedInfo, path: Path, prepared: os.stat_result, cancel: CancelFlag | None
) -> bool:
    now = source.stat()
    if now.st_size != info.source_bytes:
        return False
    if is_verified(path, prepared, now):
        return True
    if sha256_of_file(source, cancel.check if cancel is not None else None) != info.source_sha256.hex():
        return False
    record_verified(path, prepared, now)
    return True


def _write(
    engine: Engine,
    key: LoadedKey,
    origin: Source,
    path: Path,
    progress: Progress,
    cancel: CancelFlag,
    table_bytes: int,
    fold: bool,
) -> None:
    """Write a prepared key and verify it before it gets its name."""
    with explained(path), atomic_file(path, force=True) as file:
        with (
            mapped(file, prepared_bytes(key, table_bytes, fold=fold)) as view,
            fold_checkpoint.open_checkpoint(path, key, origin.sha256)
            if fold
            else contextlib.nullcontext() as checkpoint,
        ):
            write_prepared(
                engine,
                key,
                view,
                origin.sha256,
                progress,
                cancel,
                table_bytes=table_bytes,
                fold=fold,
                checkpoint=checkpoint,
            )
            verify_prepared(view, cancel)
        # Versions before verified_source compare this time.
        os.utime(file.fileno(), ns=(origin.stat.st_mtime_ns, origin.stat.st_mtime_ns))
        os.fchmod(file.fileno(), _READ_ONLY)
        written = os.fstat(file.fileno())
    with contextlib.suppress(OSError):
        if (published := path.stat()).st_ino == written.st_ino:
            record_verified(path, published, origin.stat)
    if fold:
        fold_checkpoint.discard(path)
    _log.info("key_prepared", file=str(path))


# ---- gnark's files ---------------------------------------------------------------------------------


def _load_gnark(
    engine: Engine, source: Path, cancel: CancelFlag | None, accepted: Digests, *, with_digest: bool
) -> tuple[LoadedKey, Source]:
    """Load from a private copy of the bytes."""
    with _opened(source) as file, _named(source):
        stat = os.fstat(file.fileno())
        with room_for(stat.st_size) as data:
            digest = hashlib.sha256()
            for piece in read_pieces(file.fileno(), data, cancel):
                if with_digest:
                    digest.update(piece)
            if accepted and digest.digest() not in accepted:
                expected = " or ".join(sorted(known.hex() for known in accepted))
                raise MalformedKey(f"checksum mismatch: its SHA-256 is {digest.hexdigest()}, expected {expected}")
            return engine.load_key(data, cancel), Source(stat, digest.digest())


@contextlib.contextmanager
def _opened(source: Path) -> Iterator[BinaryIO]:
    with _named(source):
        file = source.open("rb")
    with file:
        yield file


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Prefix errors in the block with the name of the file."""
    try:
        yield
    except (MalformedKey, UnsupportedKey) as error:
        error.detail = f"key file {path.name}: {error.detail}"
        error.args = (error.detail,)
        raise
    except OSError as error:
        raise KeyUnavailable(f"key file {path.name} cannot be read: {error.strerror}") from error
