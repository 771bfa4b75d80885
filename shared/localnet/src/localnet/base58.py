"""Base58 with the Bitcoin alphabet, for any length: keys, hashes, signatures and page cursors."""

_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_DIGITS = {character: value for value, character in enumerate(_ALPHABET)}
# Pairs of digits halve the number of divisions of a big integer.
_PAIRS = [high + low for high in _ALPHABET for low in _ALPHABET]
_PAIR = 58 * 58

HASH_BYTES = 32
SIGNATURE_BYTES = 64


def encode(data: bytes) -> str:
    """Return the base58 text of ``data``; each leading zero byte is one ``1``."""
    number = int.from_bytes(data, "big")
    parts: list[str] = []
    while number:
        number, pair = divmod(number, _PAIR)
        parts.append(_PAIRS[pair])
    text = "".join(reversed(parts)).lstrip("1")
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + text


def decode(text: str, length: int | None = None) -> bytes:
    """Return the bytes of base58 ``text``; ValueError for another alphabet or another ``length`` in bytes."""
    # A text far too long is refused before the quadratic work.
    if length is not None and len(text) > 2 * length:
        raise ValueError(f"{len(text)} characters are too many for {length} bytes")
    number = 0
    for character in text:
        digit = _DIGITS.get(character)
        if digit is None:
            raise ValueError(f"{character!r} is not a base58 digit")
        number = number * 58 + digit
    zeros = len(text) - len(text.lstrip("1"))
    data = bytes(zeros) + number.to_bytes((number.bit_length() + 7) // 8, "big")
    if length is not None and len(data) != length:
        raise ValueError(f"base58 of {len(data)} bytes where {length} are expected")
    return data
