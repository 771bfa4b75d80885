"""Addresses of services, whose query may hold a key, and faults of connections to them."""

import os
import socket

from yarl import URL


def under(base: URL | str, path: str) -> URL:
    """Return a path below a base URL, whose query follows it."""
    url = URL(base)
    return url.with_path(url.path.rstrip("/") + "/" + path).with_query(url.query)


def shown(url: URL | str) -> str:
    """Return an address without credentials, query and fragment, for messages."""
    return str(URL(url).with_user(None).with_query(None).with_fragment(None))


def connection_fault(error: BaseException) -> str:
    """Return why a service cannot be reached, without the host and the words "ssl:default" of aiohttp's messages."""
    cause = getattr(error, "os_error", None)
    if isinstance(cause, socket.gaierror) and cause.strerror:
        return f"{cause.strerror}: check the name of the host"
    if isinstance(cause, OSError) and type(cause) in (OSError, ConnectionRefusedError) and cause.errno:
        return f"{os.strerror(cause.errno)}: check the address, and that the service runs"
    return str(error) or type(error).__name__
