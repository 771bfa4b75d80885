"""Faults of connections to services in plain words, whichever library reports them."""

import os
import socket
import ssl
from collections.abc import Iterator

_PLAIN_TEXT_REASONS = frozenset(
    {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"}
)
"""What OpenSSL finds in an answer that is not TLS, depending on its first bytes and on the release of OpenSSL."""


def connection_fault(error: BaseException) -> str | None:
    """Return why a connection failed and what to check, by the system error that caused it; None if it is another."""
    return next((fault for cause in _causes(error) if (fault := _fault_of(cause)) is not None), None)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _fault_of(error: BaseException) -> str | None:
    if isinstance(error, socket.gaierror) and error.strerror:
        return f"{error.strerror}: check the name of the host"
    # Subclasses of libraries have the names of these, and none of their facts.
    if type(error) is ssl.SSLCertVerificationError:
        return f"the certificate is not accepted: {error.verify_message}: check the host name and the authority"
    if isinstance(error, ssl.SSLError) and type(error).__module__ == ssl.__name__:
        reason = getattr(error, "reason", None)
        if reason in _PLAIN_TEXT_REASONS:
            return "the server answers without TLS: check the port, or use the address scheme without TLS"
        return f"TLS fails: {reason or error}: check the port and the TLS settings of both sides"
    if type(error) is ConnectionResetError:
        return "Connection reset by peer: check the port, and whether it expects TLS"
    if type(error) in (OSError, ConnectionRefusedError) and isinstance(error, OSError) and error.errno:
        return f"{os.strerror(error.errno)}: check the address, and that the service runs"
    return None
