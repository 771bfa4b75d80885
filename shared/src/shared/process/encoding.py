"""Texts of variables and arguments, in which Python keeps bytes that are not UTF-8 as lone surrogates."""

NOT_UTF_8 = "is not UTF-8 text; write it again in UTF-8"
"""Fault and remedy, for messages that begin with the name of the value."""


def is_utf_8(text: str) -> bool:
    """Return whether a text has only characters that UTF-8 can encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
