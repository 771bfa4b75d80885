"""How far the folding of a key came: a hidden file beside its prepared form, from which the next run goes on.

Its name holds the digest of the key file, and the kernel takes nothing from it that is not whole and of this key: such
a file is removed. It is locked while a process folds. All of it is reserved first, since a write through a map to a
full disk would end the process; where there is no room, or no locks, folding is not kept, which is logged.
"""

import contextlib
import errno
import fcntl
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
from shared.logs import get_logger

_log = get_logger(__name__)

SUFFIX = ".fold"

_INTERVAL_S = 30.0
"""Between two states that are kept; what takes less leaves none."""
_LEFT_FREE_BYTES = 2**29
"""Of the disk."""
_DIGEST_DIGITS = 16


@contextlib.contextmanager
def kept_folding(path: Path, key: LoadedKey, source_sha256: bytes) -> Iterator[FoldCheckpoint | None]:
    """Give a place where the folding of a key is kept, with what an earlier one left; None where none can be had.

    ``path`` is the prepared form that is made. After a failure what was kept stays, unless the key cannot be folded;
    ``discard`` removes it when the prepared form is there.
    """
    own = path.with_name(f".{path.name}.{source_sha256.hex()[:_DIGEST_DIGITS]}{SUFFIX}")
    size = fold_checkpoint_bytes(key)
    try:
        for foreign in set(_of(path)) - {own}:
            _remove(foreign, "it is of another edition of the key")
        view = _continued(own, key, source_sha256, size) or _new(own, size)
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
    """Remove what foldings for a prepared form have left."""
    for left in _of(path):
        with contextlib.suppress(OSError):
            left.unlink(missing_ok=True)


def remains(folder: Path) -> list[Path]:
    """Return what foldings into this folder have left, also of keys that are gone, and no process uses."""
    found = folder.glob(f".*.{'[0-9a-f]' * _DIGEST_DIGITS}{SUFFIX}")
    return sorted(file for file in found if not _is_in_use(file))


def _is_in_use(file: Path) -> bool:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _of(path: Path) -> list[Path]:
    return list(path.parent.glob(f".{glob.escape(path.name)}.*{SUFFIX}"))


def _continued(own: Path, key: LoadedKey, source_sha256: bytes, size: int) -> mmap.mmap | None:
    """Map what an earlier run left, if it holds; else it is removed. Raises OSError."""
    try:
        descriptor = os.open(own, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        reason = _objection(os.fstat(descriptor), size)
        if reason is None:
            os.posix_fallocate(descriptor, 0, size)  # a copy may have holes
            view = mmap.mmap(descriptor, size)  # with a descriptor of its own, which keeps the lock
            permille = fold_checkpoint_permille(key, view, source_sha256)
            if permille is not None:
                _log.info("fold_resumed", file=str(own), percent=permille / 10)
                return view
            view.close()
            reason = "it holds nothing whole of the folding of this key"
    finally:
        os.close(descriptor)
    _remove(own, reason)
    return None


def _objection(stat: os.stat_result, size: int) -> str | None:
    if (reason := untrusted_reason(stat)) is not None:
        return reason
    if stat.st_size != size:
        return f"it has {stat.st_size} bytes in place of {size}"
    return None


def _new(own: Path, size: int) -> mmap.mmap:
    """Make and map a file of zeros; raises OSError and leaves nothing when the disk has no room for it."""
    if shutil.disk_usage(own.parent).free < size + _LEFT_FREE_BYTES:
        raise OSError(errno.ENOSPC, f"no room for {size} bytes on a disk where {_LEFT_FREE_BYTES} stay free")
    descriptor = os.open(own, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
