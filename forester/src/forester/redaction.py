"""Masking of secrets: one function before every output.

Masked are credentials in URLs, query parameters whose name contains key, token or secret, long opaque path segments
(as some providers put their keys there), arrays of 64 bytes, and every value given to ``remember_secret``.

Texts come from other machines, and the event loop waits meanwhile: the time is linear in their length. So
unbounded repetitions are only matched after a literal ("://", "=", "/", "["), never from every character on.
"""

import base64
import re
from urllib.parse import unquote, unquote_plus, urlsplit

MASK = "***"

_CREDENTIALS = re.compile(r"://[^\s/?#@\"']++@")
_BEFORE_NAME = re.compile(r"(?s).*[&\s\"']")
_SEPARATOR = re.compile(r"(?i)[?;]|%3f|%26")
_SECRET_NAME = re.compile(r"(?i)key|token|secret|password|auth")
_VALUE = re.compile(r"[^&\s\"'#)>]++")
_OPAQUE_SEGMENT = re.compile(r"(?<=/)[A-Za-z0-9_-]{24,}+(?=[/?#\s\"')>,]|$)")
_URL = re.compile(r"://[^\s\"'<>]++")
_KEY_ARRAY = re.compile(r"\[\s*(?:\d{1,3}\s*,\s*){63}\d{1,3}\s*\]")
_SHORTEST_SECRET = 6

_LONGEST_START = 1 << 14
"""Characters that ``mask_start`` reads: more than any text that it returns, although masks are shorter than secrets."""

_SHOWN_CHARACTERS = 500
"""Characters of a service's text that logs and alerts repeat."""

_remembered: dict[str, None] = {}
_REMEMBERED_LIMIT = 256


def remember_secret(value: str) -> None:
    """Mask ``value`` everywhere from now on. Values under 6 characters are ignored, as they would mask words."""
    if len(value) >= _SHORTEST_SECRET and len(_remembered) < _REMEMBERED_LIMIT:
        _remembered[value] = None


def remember_url(url: str) -> None:
    """Remember the parts of a URL that grant access: password, and values of keys in its query, as written or decoded.

    A user without a password also counts; so does the HTTP encoding of both (basic authentication), and a long opaque
    segment of the path.
    """
    parts = urlsplit(url)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    found = [parts.password or parts.username or "", password or user, *_OPAQUE_SEGMENT.findall(parts.path)]
    if user or password:
        found.append(base64.b64encode(f"{user}:{password}".encode()).decode())
    for pair in parts.query.split("&"):
        name, _, value = pair.partition("=")
        if _SECRET_NAME.search(name):
            found += [value, unquote(value), unquote_plus(value)]
    for value in dict.fromkeys(found):
        remember_secret(value)


def mask(text: str) -> str:
    """Return ``text`` without anything that grants access."""
    for secret in _remembered:
        text = text.replace(secret, MASK)
    text = _KEY_ARRAY.sub(f"[{MASK}]", text)
    text = _CREDENTIALS.sub(f"://{MASK}@", text)
    text = _mask_parameters(text)
    return _URL.sub(lambda found: _OPAQUE_SEGMENT.sub(MASK, found[0]), text)


def mask_start(text: str, length: int) -> str:
    """Return the first ``length`` characters of a text after masking, however long the text is.

    Masked before it is cut to them: a mask does not recognise half a secret.
    """
    return mask(text[:_LONGEST_START])[:length]


def shortened(text: str) -> str:
    """Return the masked start of a text that a service sent, with an ellipsis if it is longer than logs repeat."""
    start = mask_start(text, _SHOWN_CHARACTERS + 1)
    return start if len(start) <= _SHOWN_CHARACTERS else start[:_SHOWN_CHARACTERS] + "…"


def _mask_parameters(text: str) -> str:
    """Mask values of query parameters; one pattern for all of it would try every separator with every keyword."""
    parts = list[str]()
    kept = at = 0
    while (equals := text.find("=", at)) >= 0:
        before = _BEFORE_NAME.match(text, at, equals)
        name = before.end() if before else at
        if text[name - 1 : name] != "&":
            separator = _SEPARATOR.search(text, name, equals)
            name = separator.end() if separator else equals
        at = equals + 1
        if _SECRET_NAME.search(text, name, equals) and (value := _VALUE.match(text, at)):
            parts += text[kept:at], MASK
            kept = at = value.end()
    return "".join((*parts, text[kept:]))
