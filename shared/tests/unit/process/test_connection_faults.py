"""Texts for connections that fail."""

from __future__ import annotations

import socket
import ssl

import pytest

from shared.process.connection_faults import connection_fault


def wrapped(cause: BaseException) -> BaseException:
    """Return the error of a library that hides its cause."""
    try:
        try:
            raise cause
        except BaseException as error:
            raise RuntimeError("words of a library") from error
    except RuntimeError as error:
        return error


@pytest.mark.parametrize(
    ("cause", "fault"),
    [
        (ConnectionRefusedError(111, "Connect call failed"), "Connection refused: check the address"),
        (
            ConnectionResetError(104, "Connection reset by peer"),
            "Connection reset by peer: check the port, and whether",
        ),
        (OSError(113, "Connect call failed"), "No route to host: check the address, and that the service runs"),
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known: check the name of the host"),
        (ssl.SSLError(1, "[SSL] a fault"), "TLS fails: "),
    ],
)
def test_fault__of_a_connection__is_explained_with_what_to_check(cause: OSError, fault: str) -> None:
    for error in (cause, wrapped(cause)):
        explained = connection_fault(error)
        assert explained is not None
        assert explained.startswith(fault)


def test_fault__of_tls_to_a_server_without_it__names_the_cause() -> None:
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(received, sent, server_hostname="localhost")
    received.write(b"-ERR unknown command\r\n")
    with pytest.raises(ssl.SSLError) as refusal:
        client.do_handshake()
    fault = connection_fault(wrapped(refusal.value))
    assert fault is not None
    assert fault.startswith("the server answers without TLS: check the port")


def test_fault__of_another_kind__is_left_to_its_own_words() -> None:
    assert connection_fault(ValueError("x")) is None
    assert connection_fault(FileNotFoundError(2, "No such file")) is None
