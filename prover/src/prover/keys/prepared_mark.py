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

_SECOND_NS = 10**9
_COARSE_S = 2
"""File systems that keep whole seconds tell two changes apart after this."""


def is_marked(path: Path, form: os.stat_result, source: os.stat_result) -> bool:
    """Whether ``path``, a prepared file as ``form`` has it, was found to be of ``source``."""
    with contextlib.suppress(OSError):
        note = _note_of(path)
        status = note.stat()
        believed = status.st_uid in (os.geteuid(), 0, form.st_uid) and not status.st_mode & 0o022
        return believed and note.read_bytes() == _text(form, source)
    return False


def mark(path: Path, form: os.stat_result, source: os.stat_result) -> None:
    """Note that ``path`` is of ``source``; without a word where that cannot be, which costs the next load time."""
    for status in (form, source):
        if status.st_ctime_ns % _SECOND_NS == 0 and abs(time.time() - status.st_ctime) < _COARSE_S:
            return
    note = _note_of(path)
    hidden = note.with_name(f"{note.name}.{secrets.token_hex(8)}")
    with contextlib.suppress(OSError):
        try:
            descriptor = os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644)
            with os.fdopen(descriptor, "wb") as file:
                file.write(_text(form, source))
            hidden.replace(note)
        finally:
            hidden.unlink(missing_ok=True)


def _note_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.mark")


def _text(*files: os.stat_result) -> bytes:
    facts = [(file.st_ino, file.st_size, file.st_mtime_ns, file.st_ctime_ns) for file in files]
    return hashlib.sha256(repr(facts).encode()).hexdigest().encode()
