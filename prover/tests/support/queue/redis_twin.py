"""A Redis inside the test process, without sockets: fakeredis runs the queue's own Lua scripts.

``queue_machine.py`` compares it with the model that a real Redis is compared with. Persistence,
time-outs, lost connections and what arq does need a real server.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from unittest import mock

import redis
from arq.connections import ArqRedis
from fakeredis import FakeServer, FakeStrictRedis
from fakeredis.aioredis import FakeAsyncRedisConnection
from redis.asyncio import ConnectionPool

from prover.queue import wake_ups
from prover.queue.connection import Address, Opening, RedisConnection
from prover.queue.redis_names import RedisNames

_MODULES = {"cmsgpack"}


class RedisTwin:
    """A database of its own; it ends with the object."""

    def __init__(self) -> None:
        self._server = FakeServer()
        self._options: dict[str, Any] = {"server": self._server, "lua_modules": _MODULES}
        # Lua searches modules in the folders that it knows when it starts.
        with mock.patch.dict(os.environ, LUA_PATH=str(Path(__file__).with_name("?.lua"))):
            FakeStrictRedis(**self._options).eval("return 1", 0)

    def connection(self, timeout_s: float = 5) -> RedisConnection:
        """Return a connection as ``RedisConnection.open`` returns it."""
        pool = ConnectionPool(connection_class=FakeAsyncRedisConnection, **self._options)
        client = ArqRedis(pool, job_serializer=wake_ups.encode, job_deserializer=wake_ups.decode)
        return RedisConnection(Address.read("redis://127.0.0.1"), client, RedisNames(), [], Opening())

    def blocking(self) -> redis.Redis:
        """Return a blocking client."""
        return FakeStrictRedis(**self._options)

    def flush(self) -> None:
        """Remove all data."""
        self.blocking().flushall()
