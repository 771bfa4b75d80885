"""Entries of the arq queues: each makes one idle worker look for a job.

Which job is chosen when a worker looks (``JobStore.claim``); an entry names none. The scripts write entries in
arq's own format, together with the change that makes them necessary. JSON, because the scripts cannot write an
empty mapping as msgpack.
"""

from __future__ import annotations

from typing import Any

import msgspec

FUNCTION = "claim"
"""Name of arq's function; it is called with the lane's queue name (``Lane.value``) as its only argument."""


def encode(job: dict[str, Any]) -> bytes:
    """arq's serializer; exceptions become their text."""
    return msgspec.json.encode(job, enc_hook=str)


def decode(data: bytes) -> dict[str, Any]:
    """arq's deserializer."""
    return msgspec.json.decode(data, type=dict[str, Any])
