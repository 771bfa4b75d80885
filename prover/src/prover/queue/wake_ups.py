"""Entries of the arq queues: wake-ups, each of which makes one idle worker claim a job, and timers.

A wake-up names no job; ``JobStore.claim`` chooses it. The scripts write wake-ups in the format of arq, together with
the change that makes them necessary. They use JSON, because the scripts cannot write an empty mapping as msgpack, and
because reading JSON runs no code: the default of arq is pickle.
"""

from __future__ import annotations

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


class _Timer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry as arq writes it for a cron job."""

    f: Annotated[str, msgspec.Meta(max_length=256)]
    a: tuple[()]
    k: _NoArguments
    t: None
    et: Annotated[int, msgspec.Meta(ge=0, le=_LATEST_MS)]


class _NoArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An empty mapping of keyword arguments."""


def encode(job: dict[str, Any]) -> bytes:
    """Return an entry as JSON, for arq; exceptions become their text."""
    return msgspec.json.encode(job, enc_hook=str)


def decode(data: bytes) -> dict[str, Any]:
    """Return a wake-up for arq; raises ValueError unless a script can have written it."""
    return _for_arq(msgspec.json.decode(data, type=_WakeUp))


def decode_timer(data: bytes) -> dict[str, Any]:
    """Return the entry of a cron job for arq; raises ValueError unless arq can have written it."""
    return _for_arq(msgspec.json.decode(data, type=_Timer))


def _for_arq(entry: _WakeUp | _Timer) -> dict[str, Any]:
    return {"f": entry.f, "a": entry.a, "k": {}, "t": entry.t, "et": entry.et}
