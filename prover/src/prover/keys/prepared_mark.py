"""Whether a prepared file was found to be of its source before, so that its source need not be read for that.

The note is a small hidden file beside the prepared one. It names both files as they were: inode, size, time of
modification and of change (ctime, which nobody can set). Whatever happens to one of them makes it void, and it stands
for no other file. It is a file of its own since a prepared file is never touched: to set its times would copy all of it
where it lies in a layer of a container's image.
"""

import contextlib
import hashlib
import os
import secrets
import time
from pathlib import Path

from prover.keys.folder_trust import objection

_SECOND_NS = 10**9
_COARSE_S = 2
"""File systems that keep whole seconds tell two changes apart after this."""


def is_marked(path: Path, form: os.stat_result, source: os.stat_result) -> bool:
    """Whether ``path``, a prepared file as ``form`` has it, was found to be of ``source``."""
    with contextlib.suppress(OSError):
        note = _note_of(path)
        return objection(note.stat(), form.st_uid) is None and note.read_bytes() == _text(form, source)
    return False


def mark(path: Path, form: os.stat_result, source: os.stat_result) -> None:
    """Note that ``path`` is of ``source``; without a word where that cannot be, which costs the next load time."""
    if any(_may_change_unseen(status) for status in (form, source)):
        return
    note = _note_of(path)
    hidden = note.with_name(f"{note.name}.{secrets.token_hex(8)}")
    with contextlib.suppress(OSError):
        try:
            descriptor = os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644)
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, 0o444)  # whatever the umask: the form may be read by all, too
                file.write(_text(form, source))
            hidden.replace(note)
        finally:
            hidden.unlink(missing_ok=True)


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
