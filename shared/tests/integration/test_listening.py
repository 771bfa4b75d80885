"""Sockets of servers: which addresses reach them."""

from __future__ import annotations

import contextlib
import socket

import pytest

from shared.process.listening import listen, shown_address


def reaches(host: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=10):
        return True
    return False


@pytest.fixture
def v6() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 address")


@pytest.mark.parametrize("host", ["", "::"])
@pytest.mark.usefixtures("v6")
def test_listen__everywhere__is_reached_over_both_protocols(host: str) -> None:
    with listen(host, 0) as server:
        port = server.getsockname()[1]
        assert (reaches("127.0.0.1", port), reaches("::1", port)) == (True, True)


@pytest.mark.usefixtures("v6")
def test_listen__on_one_address__is_reached_there_alone() -> None:
    for host, other in (("127.0.0.1", "::1"), ("::1", "127.0.0.1")):
        with listen(host, 0) as server:
            port = server.getsockname()[1]
            assert (reaches(host, port), reaches(other, port)) == (True, False)


def test_listen__everywhere_without_ipv6__is_reached_over_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    for host in ("", "::"):
        with listen(host, 0) as server:
            assert server.family == socket.AF_INET
            assert reaches("127.0.0.1", server.getsockname()[1])


def test_listen__on_a_port_that_ipv4_uses__is_refused() -> None:
    with listen("127.0.0.1", 0) as first, pytest.raises(OSError, match="in use"):
        listen("", first.getsockname()[1])


def test_shown_address__of_ipv6__has_brackets() -> None:
    assert [shown_address("::", 3001), shown_address("127.0.0.1", 80)] == ["[::]:3001", "127.0.0.1:80"]
