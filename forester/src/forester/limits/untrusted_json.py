"""JSON from other processes, which may be nested more deeply than Python's stack allows."""

from typing import TypeVar

import msgspec

_T = TypeVar("_T")


def decode_untrusted(decoder: msgspec.json.Decoder[_T], text: bytes | str | msgspec.Raw) -> _T:
    """Return the value of a text; ValueError if it is not JSON, not of the decoder's type, or nested too deeply."""
    try:
        return decoder.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
