"""Progress of the folding of a key: a hidden file next to its prepared key, from which the next run resumes.

Its name contains the digest of the key file. The kernel accepts only a complete state of this key; another file is
removed. It is locked while a process folds. Its disk space is reserved first, since a write through a map to a full
disk would end the process. Without space or locks no checkpoint is saved, which is logged.
"""

import contextlib
import errno
import glob
import mmap
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from prover.errors import UnsupportedKey
from prover.kernel.engine import LoadedKey
from prover.kernel.prepared import FoldCheckpoint, fold_checkpoint_bytes, fold_checkpoint_permille
from prover.keys.files.file_owner import untrusted_reason
from shared.process.file_lock import lock, try_lock
from shared.process.logs import get_logger

_log = get_logger(__name__)

SUFFIX = ".fold"

_INTERVAL_S = 30.0
"""Time between two saved states; shorter folding saves none."""
_RESERVED_DISK_BYTES = 2**29
"""Disk space that a checkpoint leaves free."""
_DIGEST_DIGITS = 16


@contextlib.contextmanager
def open_checkpoint(path: Path, key: LoadedKey, source_sha256: bytes) -> Iterator[FoldCheckpoint | None]:
    """Yield the checkpoint of the folding of a key, with the state of an earlier run; None if there can be none.

    ``path`` is the prepared key that is written. After a failure the checkpoint stays, unless the key cannot be folded;
    ``discard`` removes it once the prepared key exists.
    """
    own = path.with_name(f".{path.name}.{source_sha256.hex()[:_DIGEST_DIGITS]}{SUFFIX}")
    size = fold_checkpoint_bytes(key)
    try:
        for foreign in set(_checkpoints_of(path)) - {own}:
            _remove(foreign, "it belongs to another release of the key")
        view = _resume(own, key, source_sha256, size) or _create(own, size)
    except OSError as error:
        _log.warning("fold_checkpoint_not_saved", file=str(own), error=str(error), detail="a stopped run restarts")
        yield None
        return
    with view:
        try:
            yield FoldCheckpoint(view, _INTERVAL_S)
        except UnsupportedKey:
            discard(path)
            raise
        except BaseException:
            permille = fold_checkpoint_permille(key, view, source_sha256)
            if permille is None:
                discard(path)
            else:
                _log.info(
                    "fold_checkpoint_saved",
                    file=str(own),
                    percent=permille / 10,
                    detail="the next run resumes there",
                )
            raise


def discard(path: Path) -> None:
    """Remove all checkpoints of a prepared key."""
    for left in _checkpoints_of(path):
        with contextlib.suppress(OSError):
            left.unlink(missing_ok=True)


def abandoned_checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints in a folder that no process uses, including those of removed keys."""
    found = folder.glob(f".*.{'[0-9a-f]' * _DIGEST_DIGITS}{SUFFIX}")
    return sorted(file for file in found if not _is_in_use(file))


def _is_in_use(file: Path) -> bool:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        return try_lock(descriptor) is not True
    finally:
        os.close(descriptor)


def _checkpoints_of(path: Path) -> list[Path]:
    return list(path.parent.glob(f".{glob.escape(path.name)}.*{SUFFIX}"))


def _resume(own: Path, key: LoadedKey, source_sha256: bytes, size: int) -> mmap.mmap | None:
    """Map the checkpoint of an earlier run, or remove it if it is invalid. Raises OSError."""
    try:
        descriptor = os.open(own, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        lock(descriptor)
        reason = _refusal_reason(os.fstat(descriptor), size)
        if reason is None:
            os.posix_fallocate(descriptor, 0, size)  # a copy may have holes
            view = mmap.mmap(descriptor, size)  # the map duplicates the descriptor, which keeps the lock
            permille = fold_checkpoint_permille(key, view, source_sha256)
            if permille is not None:
                _log.info("fold_resumed", file=str(own), percent=permille / 10)
                return view
            view.close()
            reason = "it has no complete state of the folding of this key"
    finally:
        os.close(descriptor)
    _remove(own, reason)
    return None


def _refusal_reason(stat: os.stat_result, size: int) -> str | None:
    if (reason := untrusted_reason(stat)) is not None:
        return reason
    if stat.st_size != size:
        return f"it has {stat.st_size} bytes instead of {size}"
    return None


def _create(own: Path, size: int) -> mmap.mmap:
    """Create and map a file of zeros; raises OSError and leaves no file when the disk has no room for it."""
    if shutil.disk_usage(own.parent).free < size + _RESERVED_DISK_BYTES:
        raise OSError(errno.ENOSPC, f"no room for {size} bytes on a disk where {_RESERVED_DISK_BYTES} stay free")
    descriptor = os.open(own, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        lock(descriptor)
        os.posix_fallocate(descriptor, 0, size)
        return mmap.mmap(descriptor, size)
    except BaseException:
        own.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def _remove(file: Path, reason: str) -> None:
    _log.warning("fold_checkpoint_removed", file=str(file), reason=reason)
    file.unlink(missing_ok=True)
