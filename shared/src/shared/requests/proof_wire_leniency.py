"""Texts that the reference's decoder accepts and a strict one refuses; texts that both accept cost nothing extra.

Go leaves a number that is ``null`` at zero, and reads half of a surrogate pair as U+FFFD.
"""

import re
from collections.abc import Iterable
from typing import Any, Final, TypeVar

import msgspec

Decoded = TypeVar("Decoded")

_HIGH: Final = rb"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW: Final = rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
# Escaped backslashes are matched separately: the character after them is no escape.
_SURROGATES: Final = re.compile(rb"(?:\\\\)+|" + _HIGH + _LOW + rb"|(?P<lone>" + _HIGH + rb"|" + _LOW + rb")")
_REPLACEMENT: Final = rb"\ufffd"


def decode_text(decoder: msgspec.json.Decoder[Decoded], body: bytes | bytearray | msgspec.Raw) -> Decoded:
    """Decode a text; if it is refused, decode it again without lone surrogates. Raises as the decoder does."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        given = bytes(body)
        text = without_lone_surrogates(given)
        if text == given:
            raise
    return decoder.decode(text)


def without_lone_surrogates(text: bytes) -> bytes:
    """Replace escapes of lone surrogates by that of U+FFFD, which has the same length, so positions do not change."""
    return _SURROGATES.sub(lambda found: _REPLACEMENT if found["lone"] else found[0], text)


def forget_nulls(elements: Iterable[Any], names: Iterable[str]) -> None:
    """Remove null members with the given names from the elements of an array that are objects."""
    for element in elements:
        for name in names:
            if isinstance(element, dict) and element.get(name, ...) is None:
                del element[name]
