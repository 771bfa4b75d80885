"""Entries of the arq queues: each makes one idle worker claim a job.

An entry names no job; ``JobStore.claim`` chooses it. The scripts write entries in the format of arq, together with the
change that makes them necessary. They use JSON, because the scripts cannot write an empty mapping as msgpack, and
because reading JSON runs no code: the default of arq is pickle.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import msgspec

FUNCTION = "claim"
"""Name of arq's function; its only argument is the name of the circuit queue (``CircuitQueue.value``)."""

_LATEST_MS = 10**14


class _WakeUp(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry as the scripts write it, under arq's names."""

    f: Literal["claim"]
    a: tuple[Annotated[str, msgspec.Meta(max_length=64)]]
    k: _NoArguments
    t: Literal[1]
    et: Annotated[int, msgspec.Meta(ge=0, le=_LATEST_MS)]


class _NoArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An empty mapping of keyword arguments."""


def encode(job: dict[str, Any]) -> bytes:
    """Return an entry as JSON, for arq; exceptions become their text."""
    return msgspec.json.encode(job, enc_hook=str)


def decode(data: bytes) -> dict[str, Any]:
    """Return an entry for arq; raises ValueError unless a script can have written it."""
    entry = msgspec.json.decode(data, type=_WakeUp)
    return {"f": entry.f, "a": entry.a, "k": {}, "t": entry.t, "et": entry.et}


def is_name(name: bytes, queue_name: str) -> bool:
    """Return whether an entry of an arq queue has a name that the scripts give."""
    return re.fullmatch(re.escape(queue_name.encode()) + rb":[0-9]{1,16}", name) is not None
