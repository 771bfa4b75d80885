"""What must never be printed, and how it is masked: the same function before every sink.

Masked are credentials in URLs, query parameters whose name speaks of a key, token or secret, long opaque path segments
(as some providers put their keys there), arrays of 64 bytes, and every value given to ``remember_secret``.
"""

import base64
import re
from collections.abc import Iterable
from urllib.parse import unquote, unquote_plus, urlsplit

MASK = "***"

_CREDENTIALS = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#@\"']+@")
_QUERY_KEY = re.compile(r"(?i)([?&;]|%3f|%26)([^=&\s\"']*(?:key|token|secret|password|auth)[^=&\s\"']*)=[^&\s\"'#)>]+")
_OPAQUE_SEGMENT = re.compile(r"(?<=/)[A-Za-z0-9_-]{24,}(?=[/?#\s\"')>,]|$)")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s\"'<>]+")
_KEY_ARRAY = re.compile(r"\[\s*(?:\d{1,3}\s*,\s*){63}\d{1,3}\s*\]")
_SHORTEST_SECRET = 6

_remembered: dict[str, None] = {}
_REMEMBERED_LIMIT = 256


def remember_secret(value: str) -> None:
    """Mask ``value`` wherever it appears from now on. Values under 6 characters are left, as they would mask words."""
    if len(value) >= _SHORTEST_SECRET and len(_remembered) < _REMEMBERED_LIMIT:
        _remembered[value] = None


def remember_url(url: str) -> None:
    """Remember the parts of a URL that grant access: password, and values of keys in its query, as written or decoded.

    A user without a password is one, too; so is what HTTP makes of both (basic authentication).
    """
    parts = urlsplit(url)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    found = [parts.password or parts.username or "", password or user]
    if user or password:
        found.append(base64.b64encode(f"{user}:{password}".encode()).decode())
    for pair in parts.query.split("&"):
        name, _, value = pair.partition("=")
        if re.search(r"(?i)key|token|secret|password|auth", name):
            found += [value, unquote(value), unquote_plus(value)]
    for value in dict.fromkeys(found):
        remember_secret(value)


def mask(text: str, secrets: Iterable[str] = ()) -> str:
    """Return ``text`` without anything that grants access."""
    for secret in (*_remembered, *secrets):
        text = text.replace(secret, MASK)
    text = _KEY_ARRAY.sub(f"[{MASK}]", text)
    text = _CREDENTIALS.sub(rf"\g<scheme>{MASK}@", text)
    text = _QUERY_KEY.sub(rf"\1\2={MASK}", text)
    return _URL.sub(lambda found: _OPAQUE_SEGMENT.sub(MASK, found[0]), text)
