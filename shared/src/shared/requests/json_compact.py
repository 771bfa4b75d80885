"""JSON without whitespace and unknown members, so that the length of the text to decode is bounded.

The work is C (shared/native/json/compact.h) and runs without the interpreter lock; decoders hold it.
"""

from collections.abc import Iterable

from shared._native import ffi, lib

_MALFORMED, _TRUNCATED, _TRAILING, _TOO_DEEP, _TOO_LONG = range(1, 6)
_FAULTS = {
    _MALFORMED: "invalid character (byte {position})",
    _TRUNCATED: "the text ends too early",
    _TRAILING: "trailing characters (byte {position})",
    _TOO_DEEP: "nested too deeply (byte {position})",
}
_new_buffer = ffi.new_allocator(should_clear_after_alloc=False)


class MalformedJson(ValueError):
    """A text is not JSON of RFC 8259."""


class JsonTooLong(ValueError):
    """The result is longer than allowed."""


class JsonCompaction:
    """Filter that keeps members with the given names, at most 64 of at most 63 characters, in every object."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = "".join(f"{name}\n" for name in sorted(set(names))).encode()

    def compact(self, text: bytes | bytearray, limit: int) -> bytes | bytearray:
        """Return the filtered text, at most ``limit`` bytes; the text itself if nothing is to be removed.

        Members written twice stay, and so do names written with escapes. Strings are not checked for valid UTF-8.
        Raises MalformedJson, which names the position, and JsonTooLong.
        """
        room = min(limit, len(text))
        out = _new_buffer("uint8_t[]", room)
        result, written, position = ffi.new("uint8_t **"), ffi.new("size_t *"), ffi.new("size_t *")
        with ffi.from_buffer("uint8_t[]", text) as source:
            status = lib.json_compact(out, room, result, written, source, len(text), self._names, position)
            is_whole = written[0] == len(text)
            compacted = b"" if status or is_whole else bytes(ffi.buffer(result[0], written[0]))
        if status == _TOO_LONG:
            raise JsonTooLong(f"more than {limit} bytes are left without blanks and unknown members")
        if status in _FAULTS:
            raise MalformedJson(_FAULTS[status].format(position=position[0]))
        if status:
            raise ValueError("too many names, or a name is too long")
        return text if is_whole else compacted


def count_commas(text: bytes | bytearray) -> int:
    """Return the number of commas in a text, those in strings included."""
    with ffi.from_buffer("uint8_t[]", text) as source:
        return int(lib.json_commas(source, len(text)))
