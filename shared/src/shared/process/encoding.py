"""Texts of variables and arguments, in which Python keeps bytes that are not UTF-8 as lone surrogates."""

NOT_UTF_8 = "is not UTF-8 text; write it again in UTF-8"
"""Fault and remedy, for messages that begin with the name of the value."""


def is_utf_8(value: object) -> bool:
    """Return whether a text, or each text of a sequence, has only characters that UTF-8 can encode."""
    if isinstance(value, tuple | list):
        return all(map(is_utf_8, value))
    try:
        if isinstance(value, str):
            value.encode()
    except UnicodeEncodeError:
        return False
    return True
