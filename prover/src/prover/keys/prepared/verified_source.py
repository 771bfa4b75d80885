"""Record that a prepared key was verified against its source, so that a load need not read the source.

The record is a small hidden file next to the prepared key. It holds inode, size, modification time and change time
(ctime, which no process can set) of both files. Any change of one of them invalidates it, and it is valid for no other
file. It is a separate file because a prepared key is never changed: setting its times would copy all of it if it is
in a layer of a container image.
"""

import contextlib
import hashlib
import os
import time
from pathlib import Path

from prover.errors import SettingsInvalid
from prover.keys.files.atomic_file import atomic_file
from prover.keys.files.file_owner import untrusted_reason

_SECOND_NS = 10**9
_COARSE_S = 2
"""Time after which file systems with whole seconds give two changes different times."""


def is_verified(path: Path, prepared: os.stat_result, source: os.stat_result) -> bool:
    """Return whether the prepared key at ``path`` is recorded as made from its source; the rest are their statuses."""
    with contextlib.suppress(OSError):
        descriptor = os.open(_record_path(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            text = _text(prepared, source)
            return (
                untrusted_reason(os.fstat(descriptor), prepared.st_uid) is None
                and os.read(descriptor, len(text) + 1) == text
            )
        finally:
            os.close(descriptor)
    return False


def record_verified(path: Path, prepared: os.stat_result, source: os.stat_result) -> None:
    """Record that the prepared key at ``path`` was made from its source.

    Failures are ignored: the next load then reads the source.
    """
    if any(_may_change_unseen(status) for status in (prepared, source)):
        return
    with contextlib.suppress(SettingsInvalid, OSError), atomic_file(_record_path(path), force=True) as file:
        os.fchmod(file.fileno(), 0o444)  # independent of the umask: all users may read the prepared key, too
        file.write(_text(prepared, source))


def _may_change_unseen(file: os.stat_result) -> bool:
    """Return whether a change may keep the times of a file: whole seconds of now, or times set by an image build."""
    if file.st_ctime_ns % _SECOND_NS:
        return False
    return abs(time.time() - file.st_ctime) < _COARSE_S or file.st_ctime_ns == file.st_mtime_ns


def _record_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.mark")


def _text(*files: os.stat_result) -> bytes:
    facts = [(file.st_ino, file.st_size, file.st_mtime_ns, file.st_ctime_ns) for file in files]
    return hashlib.sha256(repr(facts).encode()).hexdigest().encode()
