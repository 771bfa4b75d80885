"""How Redis is reached: addresses, time-outs, bounded connections. Credentials never leave this module."""

from __future__ import annotations

from typing import Self

from arq.connections import ArqRedis


class RedisConnection:
    """Connections of this process to one Redis.

    Addresses are ``redis://[[user]:password@]host[:port][/database]``, ``rediss://`` for TLS,
    ``unix://[[user]:password@]/path/of.sock[?db=N]`` and
    ``redis+sentinel://[[user]:password@]host[:port][,host[:port]...]/master-name[/database]``.
    """

    @classmethod
    def open(cls, url: str, *, max_connections: int = 64, timeout_s: float = 5, namespace: str = "zkc-prover") -> Self:
        """Read the address; connects on first use. Raises SettingsInvalid for an address that cannot be one."""
        raise NotImplementedError

    @property
    def address(self) -> str:
        """The address for logs, without credentials."""
        raise NotImplementedError

    @property
    def redis(self) -> ArqRedis:
        """The client, with the wake-ups' serializer; an arq worker can use it as ``redis_pool``."""
        raise NotImplementedError

    async def close(self) -> None:
        """Close all connections."""
        raise NotImplementedError


def redacted(url: str) -> str:
    """An address without user and password."""
    raise NotImplementedError
