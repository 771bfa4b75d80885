"""Entries of the arq queues: each makes one idle worker look for a job.

Which job is chosen when a worker looks (``JobStore.claim``); an entry names none. The scripts write entries in
arq's own format, together with the change that makes them necessary. JSON, because the scripts cannot write an
empty mapping as msgpack, and because reading it runs no code: arq's default is pickle.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import msgspec

FUNCTION = "claim"
"""Name of arq's function; it is called with the lane's queue name (``CircuitQueue.value``) as its only argument."""

_LATEST_MS = 10**14


class _WakeUp(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry as the scripts write it, under arq's names."""

    f: Literal["claim"]
    a: tuple[Annotated[str, msgspec.Meta(max_length=64)]]
    k: _Nothing
    t: Literal[1]
    et: Annotated[int, msgspec.Meta(ge=0, le=_LATEST_MS)]


class _Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mapping without members."""


def encode(job: dict[str, Any]) -> bytes:
    """arq's serializer; exceptions become their text."""
    return msgspec.json.encode(job, enc_hook=str)


def decode(data: bytes) -> dict[str, Any]:
    """arq's deserializer; raises ValueError for what the scripts do not write."""
    entry = msgspec.json.decode(data, type=_WakeUp)
    return {"f": entry.f, "a": entry.a, "k": {}, "t": entry.t, "et": entry.et}


def is_name(name: bytes, queue_name: str) -> bool:
    """Whether an entry of an arq queue has a name that the scripts give."""
    return re.fullmatch(re.escape(queue_name.encode()) + rb":[0-9]{1,16}", name) is not None
