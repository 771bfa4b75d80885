"""Answers to repeated requests: the Idempotency-Key header.

Only proofs are stored; a request that failed may be repeated under its key.
"""

import re
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from prover.errors import IdempotencyKeyReused, MalformedRequest

HEADER = "Idempotency-Key"
REPLAYED_HEADER = "Idempotency-Replayed"
_VALUE = re.compile(r"[!-~]{1,255}", re.ASCII)
_CAPACITY = 4096

Name = tuple[str, str]
"""Name of the API key, or without keys the address of the client, and the Idempotency-Key that it chose."""


class _Entry(Struct):
    digest: bytes
    expires: float
    answer: bytes | None = None
    claims: int = 0


class IdempotentAnswers:
    """Answers of the latest 4096 keys, each for ``retention_s`` seconds."""

    def __init__(self, retention_s: float) -> None:
        self._retention_s = retention_s
        self._entries: OrderedDict[Name, _Entry] = OrderedDict()

    @contextmanager
    def claim(self, name: Name | None, digest: bytes) -> Iterator["Claim"]:
        """Reserve a key for a body during the block; afterwards a key without an answer is free again.

        Raises IdempotencyKeyReused when the key belongs to another body. Without a name nothing is reserved.
        """
        if name is None:
            yield Claim(None)
            return
        entry = self._entry(name, digest)
        entry.claims += 1
        try:
            yield Claim(entry)
        finally:
            entry.claims -= 1
            if not entry.claims and entry.answer is None and self._entries.get(name) is entry:
                del self._entries[name]

    def _entry(self, name: Name, digest: bytes) -> _Entry:
        now = time.monotonic()
        entry = self._entries.get(name)
        if entry is not None and entry.expires > now:
            if entry.digest != digest:
                raise IdempotencyKeyReused
            return entry
        entry = self._entries[name] = _Entry(digest, now + self._retention_s)
        self._entries.move_to_end(name)
        while len(self._entries) > _CAPACITY:
            self._entries.popitem(last=False)
        return entry


class Claim:
    """A key that is reserved for one body."""

    def __init__(self, entry: _Entry | None) -> None:
        self._entry = entry

    @property
    def answer(self) -> bytes | None:
        """Stored answer, None without one."""
        return self._entry.answer if self._entry else None

    def keep(self, answer: bytes) -> None:
        """Store an answer."""
        if self._entry:
            self._entry.answer = answer


def read_key(value: str | None) -> str | None:
    """Return the header of a request. Raises MalformedRequest for an invalid one."""
    if value is not None and not _VALUE.fullmatch(value):
        raise MalformedRequest(f"{HEADER} must have 1 to 255 visible ASCII characters")
    return value
