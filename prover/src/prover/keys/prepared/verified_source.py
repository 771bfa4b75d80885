"""Whether a prepared file was found to be of its source before, so that its source need not be read for that.

The note is a small hidden file beside the prepared one. It names both files as they were: inode, size, time of
modification and of change (ctime, which nobody can set). Whatever happens to one of them makes it void, and it stands
for no other file. It is a file of its own since a prepared file is never touched: to set its times would copy all of it
where it lies in a layer of a container's image.
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
"""File systems that keep whole seconds tell two changes apart after this."""


def is_marked(path: Path, form: os.stat_result, source: os.stat_result) -> bool:
    """Whether ``path``, a prepared file as ``form`` has it, was found to be of ``source``."""
    with contextlib.suppress(OSError):
        descriptor = os.open(_note_of(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            text = _text(form, source)
            return (
                untrusted_reason(os.fstat(descriptor), form.st_uid) is None
                and os.read(descriptor, len(text) + 1) == text
            )
        finally:
            os.close(descriptor)
    return False


def mark(path: Path, form: os.stat_result, source: os.stat_result) -> None:
    """Note that ``path`` is of ``source``; without a word where that cannot be, which costs the next load time."""
    if any(_may_change_unseen(status) for status in (form, source)):
        return
    with contextlib.suppress(SettingsInvalid, OSError), atomic_file(_note_of(path), force=True) as file:
        os.fchmod(file.fileno(), 0o444)  # whatever the umask: the form may be read by all, too
        file.write(_text(form, source))


def _may_change_unseen(file: os.stat_result) -> bool:
    """Whether the times of a file say little: whole seconds of now, or those that the maker of an image chose."""
    if file.st_ctime_ns % _SECOND_NS:
        return False
    return abs(time.time() - file.st_ctime) < _COARSE_S or file.st_ctime_ns == file.st_mtime_ns


def _note_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.mark")


def _text(*files: os.stat_result) -> bytes:
    facts = [(file.st_ino, file.st_size, file.st_mtime_ns, file.st_ctime_ns) for file in files]
    return hashlib.sha256(repr(facts).encode()).hexdigest().encode()
