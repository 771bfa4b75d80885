"""The proxy of the chaos test forwards data, late on demand, and cuts connections."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest
import redis
from local_processes import free_port
from redis_server import RedisServer
from tcp_proxy import TcpProxy, running_proxy


@pytest.fixture
def proxy(redis_database: RedisServer) -> Iterator[TcpProxy]:
    with running_proxy(redis_database.port, free_port()) as proxy:
        yield proxy


def test_proxy__large_values__arrive_unchanged(proxy: TcpProxy) -> None:
    value = bytes(range(256)) * 20_000
    with redis.Redis(port=proxy.port) as client:
        client.set("value", value)
        assert client.get("value") == value


def test_proxy__with_latency__answers_late(proxy: TcpProxy) -> None:
    with redis.Redis(port=proxy.port) as client:
        client.ping()
        proxy.latency_s = 0.05
        started = time.monotonic()
        for _ in range(20):
            assert client.ping()
        # 40 delays of 0.025 s on average.
        assert time.monotonic() - started > 0.2


def test_proxy__cut__clients_get_another_connection(proxy: TcpProxy) -> None:
    with redis.Redis(port=proxy.port, socket_timeout=60) as client:
        first = client.client_id()
        proxy.cut()
        deadline = time.monotonic() + 60
        last = first
        while last == first:
            assert time.monotonic() < deadline
            with contextlib.suppress(redis.ConnectionError):
                last = client.client_id()
    assert proxy.connections == 2


def test_proxy__refusing__no_connection_gets_through(proxy: TcpProxy) -> None:
    proxy.refusing = True
    with redis.Redis(port=proxy.port) as client:
        with pytest.raises(redis.ConnectionError):
            client.ping()
        proxy.refusing = False
        assert client.ping()
