"""The body that a command reads from standard input."""

import sys


def read_body() -> bytes:
    """Return standard input; empty if it has only blanks."""
    body = sys.stdin.buffer.read()
    return body if body.strip() else b""


def missing_body(what: str, command: str, file: str) -> str:
    """Return the sentence for an empty standard input."""
    return f"standard input is empty, where `{command}` expects {what}; pass it: {command} ... < {file}"
