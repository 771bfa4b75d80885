"""Processes of a test on this machine."""

from __future__ import annotations

import contextlib
import random
import shutil
import socket
from collections.abc import Sequence

_PORTS = range(12_000, 32_000)
"""Below the ports of outgoing connections: a client that calls a dead server again and again must not get through to
itself, and no other process may take the port while the server restarts."""


def tied(command: Sequence[str]) -> list[str]:
    """Return the command of a process that ends with the thread that starts it, if the system supports that."""
    return ["setpriv", "--pdeathsig", "KILL", "--", *command] if shutil.which("setpriv") else [*command]


def free_port() -> int:
    """Return a port of 127.0.0.1 that nothing listens on."""
    source = random.SystemRandom()
    while True:
        port = source.choice(_PORTS)
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port
