"""Texts for services that cannot be reached."""

from __future__ import annotations

import socket
import ssl

import aiohttp
import pytest

from forester.urls import connection_fault


@pytest.mark.parametrize(
    ("cause", "fault"),
    [
        (
            ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 1)"),
            "Connection refused: check the address, and that the service runs",
        ),
        (OSError(113, "Connect call failed"), "No route to host: check the address, and that the service runs"),
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known: check the name of the host"),
    ],
)
def test_connection__that_fails_without_tls__is_explained_without_the_words_of_the_library(
    cause: OSError, fault: str
) -> None:
    key = aiohttp.client_reqrep.ConnectionKey("h", 1, False, True, None, None, None)
    error = aiohttp.ClientConnectorError(key, cause)
    error.__cause__ = cause  # as aiohttp raises it
    assert connection_fault(error) == fault


def test_connection__that_fails_in_tls_or_without_a_text__keeps_its_own_words() -> None:
    key = aiohttp.client_reqrep.ConnectionKey("h", 1, True, True, None, None, None)
    refused = aiohttp.ClientConnectorSSLError(key, ssl.SSLError(1, "wrong version number"))
    assert connection_fault(refused) == str(refused)
    assert connection_fault(aiohttp.ServerDisconnectedError()) == "Server disconnected"
    assert connection_fault(OSError()) == "OSError"
