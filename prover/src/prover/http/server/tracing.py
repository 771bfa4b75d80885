"""Request and trace ids: taken from the request where they are valid, made up otherwise."""

import re
import secrets
import uuid

REQUEST_ID_HEADER = "X-Request-Id"
TRACE_HEADER = "traceparent"

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}", re.ASCII)
# W3C Trace Context, section 3.2: version, trace id, parent id, flags; later versions may append fields.
_TRACEPARENT = re.compile(
    r"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<parent>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(?P<rest>-.*)?",
    re.ASCII,
)


def request_id(given: str) -> str:
    """Return the client's id if it is harmless, else a new one."""
    return given if _REQUEST_ID.fullmatch(given) else str(uuid.uuid4())


def trace_fields(traceparent: str) -> dict[str, str]:
    """Return the log fields of a request's trace: its id, our span, and the caller's span if there is one.

    A header that breaks the standard is ignored, as it demands, and a new trace begins.
    """
    match = _TRACEPARENT.fullmatch(traceparent.strip())
    span = secrets.token_hex(8)
    if match is None or not _is_valid(match):
        return {"trace_id": secrets.token_hex(16), "span_id": span}
    return {"trace_id": match["trace"], "span_id": span, "parent_span_id": match["parent"]}


def _is_valid(match: re.Match[str]) -> bool:
    if match["version"] == "ff" or (match["version"] == "00" and match["rest"]):
        return False
    return bool(int(match["trace"], 16)) and bool(int(match["parent"], 16))
