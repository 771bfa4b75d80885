"""Entries of the arq queues: each makes one idle worker look for a job.

Which job is chosen when a worker looks (``JobStore.claim``); an entry names none. The scripts write entries in
arq's own format, together with the change that makes them necessary.
"""

from __future__ import annotations

from typing import Any

import msgspec

FUNCTION = "claim"
"""Name of arq's function; it is called with the lane's queue name (``Lane.value``) as only argument."""


def encode(job: dict[str, Any]) -> bytes:
    """arq's serializer."""
    return msgspec.msgpack.encode(job)


def decode(data: bytes) -> dict[str, Any]:
    """arq's deserializer."""
    return msgspec.msgpack.decode(data, type=dict[str, Any])
