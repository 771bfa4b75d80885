"""Key files in memory: from their prepared form where that is valid, else from gnark's.

A prepared file is written once, under a hidden name, and takes its own name when it is whole; nothing ever changes it
afterwards, so processes map it without copying. It belongs to its source by size and SHA-256. The digest is not
computed at every load (prepared_mark).
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
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from prover.errors import KeyUnavailable, MalformedKey, OutOfMemory, UnsupportedKey
from prover.kernel.cancellation import CancelFlag
from prover.kernel.engine import Engine, LoadedKey
from prover.kernel.prepared import (
    PreparedInfo,
    WriteProgress,
    describe_prepared,
    open_prepared,
    prepared_bytes,
    verify_prepared,
    write_prepared,
)
from prover.keys.files.atomic_file import atomic_file, explained, mapped
from prover.keys.files.file_owner import untrusted_reason
from prover.keys.files.memory_budget import require_memory_for_folding
from prover.keys.files.provenance import sha256_of_file
from prover.keys.prepared import fold_checkpoint
from prover.keys.prepared.preparation_lock import preparation_lock
from prover.keys.prepared.verified_source import is_marked, mark
from prover.observability.memory import memory_limit_bytes
from shared.logs import get_logger

_log = get_logger(__name__)

Digests = frozenset[bytes]
"""SHA-256 digests of which a key file must have one; none means that nobody knows."""


FOLDER = "prepared"
"""Name of the folder of prepared files inside a keys directory."""
SUFFIX = ".prepared"

_WHOLLY_CHECKED_BYTES = 2**30
"""Of larger files a load compares the checksums of what is not points; `verify` compares all."""
_LEFT_FREE_BYTES = 2**29
"""Of a disk, by keys that are prepared in the background."""
_READ_BYTES = 8 * 2**20
_READ_ONLY = 0o444
_GROUP_MAY_WRITE = 0o020


class _UntrustedOwner(Exception):
    """A prepared file that is not believed here, and may be of use to others."""


@dataclass(frozen=True)
class Source:
    """A key file as it was when its bytes were read."""

    stat: os.stat_result
    sha256: bytes


def load(engine: Engine, source: Path, folder: Path, cancel: CancelFlag | None = None) -> LoadedKey:
    """Load a key file, from its prepared form where ``folder`` has a valid one; errors name the file.

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
    """Load a key file itself, and tell what was read, for ``prepare_loaded``; raises like ``load_source``."""
    return _load_gnark(engine, source, cancel, accepted, with_digest=True)


def path_of(engine: Engine, source: Path, folder: Path) -> Path:
    """Where the prepared form of a key file lies; it serves the arithmetic of this engine."""
    form = engine.point_form.name.lower().replace("_", "-")
    return folder / f"{source.name}.{form}{SUFFIX}"


def open_existing(
    engine: Engine,
    source: Path,
    folder: Path,
    cancel: CancelFlag | None = None,
    accepted: Digests = frozenset(),
) -> LoadedKey | None:
    """Map the prepared form of a key file; None when there is none or it does not hold, which is logged."""
    return _existing(engine, source, folder, cancel, accepted)[0]


def _existing(
    engine: Engine, source: Path, folder: Path, cancel: CancelFlag | None, accepted: Digests
) -> tuple[LoadedKey | None, bool]:
    """As ``open_existing``, and whether there is one that does not hold here, but may for other users or versions."""
    path = path_of(engine, source, folder)
    try:
        with _mapped_file(path, source) as (data, stat):
            info = describe_prepared(data)
            is_accepted = not accepted or info.source_sha256 in accepted
            if not is_accepted or not _is_made_from(source, info, path, stat, cancel):
                _log.info("prepared_key_outdated", file=str(path), source=str(source))
                return None, False
            return open_prepared(engine, data, cancel, check_points=stat.st_size <= _WHOLLY_CHECKED_BYTES), False
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
    table_bytes: int = 0,
    fold: bool = False,
    force: bool = False,
    progress: WriteProgress | None = None,
    cancel: CancelFlag | None = None,
) -> bool:
    """Make the prepared form of a key file unless a valid one is there; tells whether it was made.

    ``check`` sees the key before anything is written and may raise. ``table_bytes`` is room for tables of precomputed
    bases, ``fold`` asks for folded bases; a prepared form with smaller tables than that gives, or without the folded
    bases, is made anew, and one that is folded stays so unless ``force`` is given. Folding that was stopped continues
    (fold_checkpoint). When another process makes it at this moment, its result is waited for and used. Raises
    SettingsInvalid when the folder cannot be written or has no room, and what ``load`` raises.
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
                wanted = prepared_bytes(existing, table_bytes, fold=is_folded)
                if (is_folded or not fold) and existing.mapped_bytes >= wanted:
                    if is_folded:
                        fold_checkpoint.discard(path)
                    return False
                fold = fold or is_folded
        key, origin = load_with_origin(engine, source, flag)
        with key:
            check(key)
            if fold:
                require_memory_for_folding(key.info, memory_limit_bytes())
            _write(engine, key, origin, path, progress or WriteProgress(), flag, table_bytes, fold)
    return True


def prepare_loaded(
    key: LoadedKey, origin: Source, engine: Engine, source: Path, folder: Path, cancel: CancelFlag
) -> bool:
    """Do the same with a key that load_with_origin gave, if that leaves some room on the disk.

    Nobody asked for it, so a disk that is nearly full is left alone, and it gets no tables. So is a form of another
    user or version, which would do the same: both would write at every start. Nor is another process waited for that
    prepares the key at this moment: folding takes hours. Raises KernelMisused when the key is closed.
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
            if shutil.disk_usage(folder).free < prepared_bytes(key) + _LEFT_FREE_BYTES:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        _write(engine, key, origin, path, WriteProgress(), cancel, 0, fold=False)
    return True


def forms_of(source: Path, folder: Path) -> list[Path]:
    """Return the prepared forms of a key file, of all kinds of processors."""
    return sorted(folder.glob(f"{glob.escape(source.name)}.*{SUFFIX}"))


def verify(path: Path, source: Path, source_sha256: bytes, cancel: CancelFlag) -> None:
    """Compare all checksums of a prepared file, whosever it is, and that it is of its source.

    Raises MalformedKey, KeyUnavailable (for one of ours that others may write, too), or UnsupportedKey for one of
    another version.
    """
    with _named(path), _mapped_file(path, None) as (data, stat):
        if stat.st_uid == os.geteuid() and (reason := untrusted_reason(stat)) is not None:
            raise KeyUnavailable(f"prepared key {path.name}: {reason}")
        if describe_prepared(data).source_sha256 != source_sha256:
            raise MalformedKey(f"it was made from another edition of {source.name}")
        verify_prepared(data, cancel)


# ---- prepared files --------------------------------------------------------------------------------


@contextlib.contextmanager
def _mapped_file(path: Path, source: Path | None) -> Iterator[tuple[mmap.mmap, os.stat_result]]:
    """Map a file for reading, one that is believed if a source is given; closes the map unless a key has taken it.

    Raises OSError or KeyUnavailable.
    """
    with open(path, "rb", opener=_without_waiting) as file:
        if source is not None:
            _require_believed(file.fileno(), source)
        stat = os.fstat(file.fileno())
        if stat.st_size == 0:
            raise MalformedKey("it is empty")
        data = mmap.mmap(file.fileno(), stat.st_size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
    try:
        yield data, stat
    finally:
        with contextlib.suppress(BufferError):  # a key owns it now
            data.close()


def _without_waiting(path: str, flags: int) -> int:
    """Open a file, and a pipe that somebody planted in its place without waiting for who writes to it."""
    return os.open(path, flags | os.O_NONBLOCK)


def _require_believed(descriptor: int, source: Path) -> None:
    """Keep our group from writing to a file, once it is known to be of those that are believed.

    Raises _OfAnotherUser, or KeyUnavailable for one of ours that others may have written.
    """
    stat = os.fstat(descriptor)
    if (reason := untrusted_reason(stat, source.stat().st_uid)) is not None:
        raise KeyUnavailable(reason) if stat.st_uid == os.geteuid() else _UntrustedOwner(reason)
    if stat.st_mode & _GROUP_MAY_WRITE:
        with contextlib.suppress(OSError):
            os.fchmod(descriptor, _READ_ONLY)


def _is_made_from(
    source: Path, info: PreparedInfo, path: Path, made: os.stat_result, cancel: CancelFlag | None
) -> bool:
    now = source.stat()
    if now.st_size != info.source_bytes:
        return False
    if is_marked(path, made, now):
        return True
    if sha256_of_file(source, cancel.check if cancel is not None else None) != info.source_sha256.hex():
        return False
    mark(path, made, now)
    return True


def _write(
    engine: Engine,
    key: LoadedKey,
    origin: Source,
    path: Path,
    progress: WriteProgress,
    cancel: CancelFlag,
    table_bytes: int,
    fold: bool,
) -> None:
    """Write a prepared file and read it back before it takes its name."""
    with explained(path), atomic_file(path, force=True) as file:
        with (
            mapped(file, prepared_bytes(key, table_bytes, fold=fold)) as view,
            fold_checkpoint.kept_folding(path, key, origin.sha256) if fold else contextlib.nullcontext() as kept,
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
                checkpoint=kept,
            )
            verify_prepared(view, cancel)
        # Versions before the mark go by this time.
        os.utime(file.fileno(), ns=(origin.stat.st_mtime_ns, origin.stat.st_mtime_ns))
        os.fchmod(file.fileno(), _READ_ONLY)
        written = os.fstat(file.fileno())
    with contextlib.suppress(OSError):
        if (published := path.stat()).st_ino == written.st_ino:
            mark(path, published, origin.stat)
    if fold:
        fold_checkpoint.discard(path)
    _log.info("key_prepared", file=str(path))


# ---- gnark's files ---------------------------------------------------------------------------------


def _load_gnark(
    engine: Engine, source: Path, cancel: CancelFlag | None, accepted: Digests, *, with_digest: bool
) -> tuple[LoadedKey, Source]:
    """Load from a private copy of the bytes: another process that cuts the file short cannot end this one."""
    with _opened(source) as file, _named(source):
        stat = os.fstat(file.fileno())
        if stat.st_size == 0:
            raise MalformedKey("the file is empty")
        with _room(stat.st_size) as data:
            digest = hashlib.sha256()
            for piece in _pieces(file.fileno(), data, cancel):
                if with_digest:
                    digest.update(piece)
            if accepted and digest.digest() not in accepted:
                expected = " or ".join(sorted(known.hex() for known in accepted))
                raise MalformedKey(f"checksum mismatch: its SHA-256 is {digest.hexdigest()}, expected {expected}")
            return engine.load_key(data, cancel), Source(stat, digest.digest())


def _room(size: int) -> mmap.mmap:
    try:
        return mmap.mmap(-1, size)
    except (OSError, MemoryError, OverflowError) as error:
        raise OutOfMemory(f"{size} bytes for reading a key file are not available: add memory") from error


@contextlib.contextmanager
def _opened(source: Path) -> Iterator[BinaryIO]:
    with _named(source):
        file = source.open("rb")
    with file:
        yield file


def _pieces(descriptor: int, data: mmap.mmap, cancel: CancelFlag | None) -> Iterator[memoryview]:
    """Fill ``data`` from a file; gives each piece once it is there."""
    done = 0
    with memoryview(data) as whole:
        while done < len(whole):
            _check(cancel)
            with whole[done : done + _READ_BYTES] as room:
                count = os.preadv(descriptor, [room], done)
                if count == 0:
                    raise MalformedKey(f"the file was cut short to {done} bytes while it was read", offset=done)
                with room[:count] as piece:
                    yield piece
            done += count


def _check(cancel: CancelFlag | None) -> None:
    if cancel is not None:
        cancel.check()


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Put the name of the file in front of errors about it."""
    try:
        yield
    except (MalformedKey, UnsupportedKey) as error:
        error.detail = f"key file {path.name}: {error.detail}"
        error.args = (error.detail,)
        raise
    except OSError as error:
        raise KeyUnavailable(f"key file {path.name} cannot be read: {error.strerror}") from error
