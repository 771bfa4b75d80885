"""Requests of the conformance suite, and the parts of an answer that it compares."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

TIMEOUT_S = 180.0
TOKENS = (
    "constraint",
    "is not satisfied",
    "invalid number",
    "unknown circuit type",
    "timed out",
)
"""Words that clients act on, or that name the fault for a user."""


@dataclass(frozen=True)
class Answer:
    """Answer of a server; status 0 when it closed the connection."""

    status: int
    content_type: str = ""
    text: str = ""
    allow: bool = False

    @property
    def members(self) -> dict[str, Any]:
        """JSON object of the body, empty if it is not one."""
        with contextlib.suppress(ValueError):
            body = json.loads(self.text)
            if isinstance(body, dict):
                return body
        return {}

    @property
    def problem(self) -> dict[str, Any]:
        """Error body, empty if there is none."""
        return self.members if "code" in self.members else {}

    @property
    def is_proof(self) -> bool:
        """True if the body is a bare proof of the usual length."""
        with contextlib.suppress(ValueError):
            return len(self.text) == 579 and list(json.loads(self.text)) == ["ar", "bs", "krs"]
        return False

    @property
    def lacks_key(self) -> bool:
        """True if the server could not prove because it lacks a key."""
        message = str(self.problem.get("message", ""))
        return self.problem.get("code") == "key_not_found" or "no proving system for" in message

    @property
    def gist(self) -> tuple[object, ...]:
        """Parts of the answer that two implementations must have in common."""
        message = str(self.problem.get("message", ""))
        tokens = tuple(token for token in TOKENS if token in message)
        return self.status, self.problem.get("code"), tokens, self.is_proof, not self.text

    def __str__(self) -> str:
        gist = self.members.get("code") or ("proof" if self.is_proof else self.members.get("status"))
        return f"{self.status or 'closed'} {gist or self.text[:30].strip() or 'no body'}"


def ask(base_url: str, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Answer:
    """Send one request on a separate connection."""
    url = urlsplit(base_url)
    connection = http.client.HTTPConnection(url.hostname or "", url.port or 80, timeout=TIMEOUT_S)
    with contextlib.closing(connection):
        try:
            # Some answers come before the body is read to its end.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, url.path.rstrip("/") + path, body, dict(headers or {}))
            response = connection.getresponse()
            text = response.read().decode(errors="replace")
        except (OSError, http.client.HTTPException):
            return Answer(0)
    content_type = response.headers.get("Content-Type", "")
    return Answer(response.status, content_type, text, "Allow" in response.headers)
