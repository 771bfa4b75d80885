"""Core deterministic CBOR: shortest integers, definite lengths, keys in the order of their encodings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tagged:
    """An item with a tag."""

    tag: int
    item: object


def head(major: int, argument: int) -> bytes:
    """Return the head of an item: its major type with a length or value below 2^64."""
    if argument < 24:
        return bytes([major << 5 | argument])
    for code, size in enumerate((1, 2, 4, 8), 24):
        if argument < 1 << 8 * size:
            return bytes([major << 5 | code]) + argument.to_bytes(size, "big")
    raise OverflowError(f"{argument} has more than 64 bits")


def encoded(item: object) -> bytes:
    """Encode None, natural numbers, text, lists, dictionaries and tagged items. Raise TypeError for others."""
    match item:
        case None:
            return b"\xf6"
        case int() if not isinstance(item, bool) and item >= 0:
            return head(0, item)
        case str():
            text = item.encode()
            return head(3, len(text)) + text
        case list() | tuple():
            return head(4, len(item)) + b"".join(map(encoded, item))
        case dict():
            pairs = sorted((encoded(key), encoded(value)) for key, value in item.items())
            return head(5, len(pairs)) + b"".join(key + value for key, value in pairs)
        case Tagged():
            return head(6, item.tag) + encoded(item.item)
        case _:
            raise TypeError(f"cannot encode {item!r}")
