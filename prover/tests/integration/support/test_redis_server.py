"""The Redis servers of queue tests: data survives a kill, TLS and passwords are required."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import redis
from certificates import Certificates
from redis_server import RedisServer, StartRedis


def test_append_only_server__killed_and_started__has_its_data_and_port(redis_start: StartRedis) -> None:
    server = redis_start(appendonly=True)
    with server.client() as client:
        client.set("zk", "kept")
        before, url = server.pid, server.url
        server.restart()
        assert client.get("zk") == b"kept"
    assert server.pid != before
    assert server.url == url


def test_shared_server__next_test__is_empty(redis_database: RedisServer) -> None:
    with redis_database.client() as client:
        client.set("zk", "gone")
    redis_database.flush()
    with redis_database.client() as client:
        assert client.dbsize() == 0


def test_paused_server__continued__answers_what_waited(redis_start: StartRedis) -> None:
    server = redis_start()
    answers: list[Any] = []
    with server.client() as client:
        client.ping()
        with server.paused():
            asking = threading.Thread(target=lambda: answers.append(client.ping()))
            asking.start()
            time.sleep(0.2)
            assert answers == []
        asking.join(60)
    assert answers == [True]


def test_tls_server__client_without_its_authority__is_refused(
    redis_start: StartRedis, redis_certificates: Certificates
) -> None:
    server = redis_start(certificates=redis_certificates)
    assert server.url.startswith("rediss://")
    with server.client() as client:
        assert client.ping()
    with redis.Redis.from_url(server.url) as stranger, pytest.raises(redis.ConnectionError, match="certificate"):
        stranger.ping()


def test_server_with_password__wrong_one__is_refused(redis_start: StartRedis) -> None:
    server = redis_start(password="s3cret/@:")
    with server.client() as client:
        assert client.ping()
    with redis.Redis(port=server.port, password="wrong") as stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()
