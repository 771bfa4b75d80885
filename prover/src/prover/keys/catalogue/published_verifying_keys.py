"""Verifying keys of the published circuits, from ``published_verifying_keys.json`` next to this module.

The releases of a circuit's key have verifying keys of their own. Which release the workers of a queue prove with is
unknown to an instance without keys, so all of them count.
"""

import base64
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec

from shared.requests.circuit_id import CircuitId


class _File(msgspec.Struct):
    keys: dict[str, dict[str, str]]


def published_verifying_keys(circuit: CircuitId) -> tuple[bytes, ...]:
    """Return the verifying keys of a circuit in gnark's compressed format, the latest first; none if unpublished.

    Beta and delta in G1, which no verification reads, are placeholders.
    """
    return tuple(base64.b64decode(text) for text in _keys().get(circuit.name, {}).values())


@cache
def _keys() -> Mapping[str, Mapping[str, str]]:
    file = Path(__file__).with_name("published_verifying_keys.json")
    return msgspec.json.decode(file.read_bytes(), type=_File).keys
