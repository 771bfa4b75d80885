"""Hashes of an indexer's answers, written and read as an indexer does."""

from __future__ import annotations

from typing import Any

from forester.indexer.types import Hash32, decode_base58


def parse_hash(text: str) -> Hash32:
    """Read 32 bytes of base58; ValueError otherwise."""
    parsed: Hash32 = decode_base58(Hash32, text)
    return parsed


def encode_base58(value: Any) -> Any:
    """Write a Hash32; the hook of msgspec encoders."""
    if isinstance(value, Hash32):
        return str(value)
    raise NotImplementedError(type(value))
