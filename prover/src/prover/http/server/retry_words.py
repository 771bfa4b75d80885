"""Words in messages that make the reference's clients send a request again.

Messages that no retry can help quote sizes, positions and texts of the client, which may have such a word. See
prover/docs/reference/http-api.md, "Words in messages".
"""

import re
from typing import Final

_SPELT: Final = {"500": "five hundred", "502": "five hundred two", "503": "five hundred three"}
_SCALES: Final = ("", " thousand", " million", " billion")
_HYPHENATED: Final = {"connection": "con-nection", "timeout": "time-out", "job_not_found": "job-not-found"}

_WORD: Final = re.compile("|".join(_HYPHENATED))
_INTEGER: Final = re.compile(r"(?<![0-9A-Za-z._/\[#-])[1-9][0-9]{2,11}(?![0-9A-Za-z]|\.[0-9])")
_STATUS_IN_DIGITS: Final = re.compile("5(?=0[023])")


def without_retry_words(message: str) -> str:
    """Return a message without retry words: of 500 items it says "five hundred", of 1502 "1 thousand five hundred two".

    Other digits, as in names, paths and hexadecimal numbers, are separated: 0x5_00, $.leaves[5_00].
    """
    message = _INTEGER.sub(_spell, message)
    message = _STATUS_IN_DIGITS.sub("5_", message)
    return _WORD.sub(lambda word: _HYPHENATED[word[0]], message)


def _spell(integer: re.Match[str]) -> str:
    digits = integer[0]
    if not any(number in digits for number in _SPELT):
        return digits
    groups = f"{int(digits):,}".split(",")
    parts = zip(groups, reversed(_SCALES[: len(groups)]), strict=True)
    return " ".join(f"{_SPELT.get(group, str(int(group)))}{scale}" for group, scale in parts if int(group))
