"""Connections to Redis: addresses, time-outs, bounds. Credentials never leave this module."""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit, urlunsplit

from arq.connections import ArqRedis
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.client import Pipeline
from redis.asyncio.connection import AbstractConnection, DefaultParser, SSLConnection, parse_url
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.backoff import ExponentialBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import InvalidResponse, RedisError

from prover.errors import SettingsInvalid
from prover.loopback import is_loopback
from prover.queue import wake_ups
from prover.queue.redis_names import RedisNames

SENTINEL_SCHEMES = ("redis+sentinel", "rediss+sentinel")
SENTINEL_PORT = 26379
SCHEMES = ("redis", "rediss", "unix", *SENTINEL_SCHEMES)
TLS_WORDS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname")
QUERY_WORDS = ("db", *TLS_WORDS)

_HOST = r"([\w.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?"
_WRONG_SCHEME = f"it must begin with {', '.join(f'{scheme}://' for scheme in SCHEMES)}, as redis://host:6379/0 does"


_CHECKED_AFTER_S = 30
"""Time without an answer after which a connection is checked by a PING before a command."""

_LONGEST_ANSWER = 2**25
"""Bytes; a claim with the longest stored body has half as many."""


@dataclass(frozen=True)
class Weakness:
    """A gap in the protection of an address, and its remedy."""

    detail: str
    remedy: str


_NO_PASSWORD = Weakness(
    "it has no password and is not on this machine",
    "give Redis a password and write it into the address, or use a client certificate: any client that reaches Redis "
    "can delete and fail jobs",
)
_NOT_VERIFIED = Weakness(
    "the certificate or the host name of the server is not checked",
    "remove ssl_cert_reqs and ssl_check_hostname from the address and name the authority with ssl_ca_certs: another "
    "server can impersonate Redis",
)
_SENTINELS_NOT_VERIFIED = Weakness(
    "Sentinels are queried without TLS, and every host that they name is accepted if its certificate is valid",
    "name an authority that certifies only the Redis servers with ssl_ca_certs: a false Sentinel can direct the "
    "password and the jobs to another server",
)


class AddressInvalid(ValueError):
    """A fault of an address; the message repeats no part of the address."""


@dataclass(frozen=True)
class Address:
    """A parsed address. ``options`` are those of redis-py and hold the credentials."""

    redacted: str
    options: Mapping[str, Any] = field(repr=False)
    sentinels: tuple[tuple[str, int], ...] = ()
    master: str = ""

    @classmethod
    def read(cls, url: str) -> Self:
        """Parse an address; raises SettingsInvalid, which does not repeat credentials."""
        try:
            if "://" not in url.partition("?")[0]:  # urlsplit finds a scheme in host:port
                raise AddressInvalid(_WRONG_SCHEME)
            parts = urlsplit(url.strip())
            _check(parts)
            return cls._sentinel(parts) if parts.scheme in SENTINEL_SCHEMES else cls._server(parts)
        except ValueError as error:
            reason = str(error) if isinstance(error, AddressInvalid) else "it is malformed"
            raise SettingsInvalid(
                f"the Redis address {redacted(url)} cannot be used: {reason}", names=("--redis-url",)
            ) from None

    @property
    def weaknesses(self) -> list[Weakness]:
        """Gaps in the protection of the address."""
        options = self.options
        hosts = [host for host, _ in self.sentinels] or [str(options.get("host", "localhost"))]
        is_here = "path" in options or all(map(is_loopback, hosts))
        is_known = options.get("password") or options.get("ssl_certfile")
        uses_tls = options.get("ssl") or options.get("connection_class") is SSLConnection
        is_verified = options.get("ssl_cert_reqs") in (None, "required") and options.get("ssl_check_hostname", True)
        follows_any = self.sentinels and not is_here and uses_tls and not options.get("ssl_ca_certs")
        found = {
            _NO_PASSWORD: not is_here and not is_known,
            _NOT_VERIFIED: uses_tls and not is_verified,
            _SENTINELS_NOT_VERIFIED: follows_any and is_verified,
        }
        return [weakness for weakness, has in found.items() if has]

    @classmethod
    def _server(cls, parts: SplitResult) -> Self:
        url = urlunsplit(parts)
        return cls(redacted(url), _options(url))

    @classmethod
    def _sentinel(cls, parts: SplitResult) -> Self:
        before, at, hosts = parts.netloc.rpartition("@")
        master, _, database = parts.path.strip("/").partition("/")
        if not master or (database and not database.isdigit()):
            raise AddressInvalid("its path is not /MASTER or /MASTER/DATABASE")
        # redis-py parses the rest like the address of one server.
        scheme = parts.scheme.removesuffix("+sentinel")
        options = _options(urlunsplit((scheme, f"{before}{at}sentinel", f"/{database}", parts.query, "")))
        del options["host"]
        if options.pop("connection_class", None):
            options["ssl"] = True
        sentinels = tuple(_host_and_port(host, SENTINEL_PORT) for host in hosts.split(","))
        return cls(redacted(urlunsplit(parts)), options, sentinels, unquote(master))


class _BoundedParser(DefaultParser):  # type: ignore[misc,valid-type] # a class that redis-py chooses
    """Reader of answers that refuses long ones: any client that writes to Redis decides the length of values."""

    _read_bytes = 0

    async def read_response(self, disable_decoding: bool = False) -> Any:
        self._read_bytes = 0
        return await super().read_response(disable_decoding)

    async def read_from_socket(self) -> bool:
        """Read more bytes; raises InvalidResponse, which closes the connection, for an answer that is too long."""
        piece = await self._stream.read(self._read_size)
        if not piece:
            raise RedisConnectionError("the server closed the connection")
        self._read_bytes += len(piece)
        if self._read_bytes > _LONGEST_ANSWER:
            raise InvalidResponse(f"an answer has more than {_LONGEST_ANSWER} bytes")
        self._reader.feed(piece)
        return True


class Opening:
    """The beginning of each connection. None begins after the close: a task that arq left behind would open it."""

    def __init__(self) -> None:
        self.is_closed = False

    async def begin(self, connection: AbstractConnection) -> None:
        """Authenticate on a new connection, without a check by a PING; raises an error of redis-py after the close.

        redis-py checks before the first command of this exchange, and reconnects in the check: without an answer it
        recurs.
        """
        if self.is_closed:
            raise RedisConnectionError("the connections to Redis were closed")
        connection.next_health_check = asyncio.get_running_loop().time() + _CHECKED_AFTER_S
        await connection.on_connect()


class _Pipeline(Pipeline):
    """Commands of one transaction, of which arq makes many. Its connection returns to the pool in every case.

    redis-py keeps the connection forever if the last command, UNWATCH, is cancelled or meets a server that hangs.
    """

    async def reset(self) -> None:
        """End the transaction; raises errors of Redis."""
        try:
            await super().reset()  # type: ignore[no-untyped-call]
        finally:
            connection, self.connection = self.connection, None
            if connection is not None:
                await connection.disconnect(nowait=True)
                await self.connection_pool.release(connection)


class _Client(ArqRedis):
    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> _Pipeline:
        return _Pipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)


class _SentinelPool(SentinelConnectionPool, BlockingConnectionPool):
    """Connections to the master that Sentinels name; a caller waits while all of them are in use."""


class RedisConnection:
    """Connections of this process to one Redis.

    Addresses are ``redis://[[user]:password@]host[:port][/database]``, ``rediss://`` for TLS (the certificate and
    the host name are checked; ``?ssl_ca_certs=FILE``, ``ssl_certfile``, ``ssl_keyfile``), ``unix://[[user]:password@]
    /path/of.sock[?db=N]`` and ``redis+sentinel://[[user]:password@]host[:port][,host[:port]...]/master-name[/database]``
    or ``rediss+sentinel://``.
    """

    def __init__(
        self, address: Address, redis: ArqRedis, keys: RedisNames, sentinels: Sequence[Redis], opening: Opening
    ) -> None:
        self._address = address
        self._sentinels = sentinels
        self._opening = opening
        self.redis = redis
        """Client with the serializer of wake-ups; arq workers use it as ``redis_pool``."""
        self.keys = keys

    @classmethod
    def open(cls, url: str, *, max_connections: int = 64, timeout_s: float = 5, namespace: str = "zkc-prover") -> Self:
        """Return the connections to an address, made on first use. Raises SettingsInvalid for a malformed address.

        At most ``max_connections`` are open; a command waits ``timeout_s`` for one, and as long for its answer.
        """
        address = Address.read(url)
        opening = Opening()
        options: dict[str, Any] = {
            "socket_timeout": timeout_s,
            "socket_connect_timeout": timeout_s,
            "health_check_interval": _CHECKED_AFTER_S,
            "redis_connect_func": opening.begin,
            # A restarted server has closed its connections: the second attempt opens a new one.
            "retry": Retry(ExponentialBackoff(cap=0.5, base=0.05), 2),
            "retry_on_error": [RedisConnectionError],
            "parser_class": _BoundedParser,
            **address.options,
        }
        if "path" not in options:
            options["socket_keepalive"] = True
        options |= {"max_connections": max_connections, "timeout": math.ceil(timeout_s)}
        pool: BlockingConnectionPool
        sentinels: list[Redis] = []
        if address.sentinels:
            shared_options = ("socket_timeout", "socket_connect_timeout", "redis_connect_func")
            sentinel_options = {key: options[key] for key in shared_options}
            sentinel = Sentinel(  # type: ignore[no-untyped-call]
                address.sentinels, sentinel_kwargs=sentinel_options
            )
            sentinels = sentinel.sentinels
            pool = _SentinelPool(address.master, sentinel, **options)  # type: ignore[no-untyped-call]
        else:
            pool = BlockingConnectionPool(**options)
        redis = _Client(pool, job_serializer=wake_ups.encode, job_deserializer=wake_ups.decode)
        return cls(address, redis, RedisNames(namespace), sentinels, opening)

    @property
    def address(self) -> str:
        """The address for logs, without credentials."""
        return self._address.redacted

    @property
    def weaknesses(self) -> list[Weakness]:
        """Gaps in the protection of the address."""
        return self._address.weaknesses

    async def close(self) -> None:
        """Close all connections; later commands fail. A server that hangs may delay it by a time-out or two."""
        self._opening.is_closed = True
        for client in (self.redis, *self._sentinels):
            with contextlib.suppress(RedisError, OSError):  # a server that hangs does not end its TLS session
                await client.connection_pool.disconnect()


def redacted(url: str) -> str:
    """Return an address without user, password and query; ``***`` for a malformed one."""
    scheme, separator, rest = re.split(r"[?#]", url.strip(), maxsplit=1)[0].partition("://")
    if not separator or scheme not in SCHEMES:
        return "***"
    _, at, location = rest.rpartition("@")
    hosts, slash, path = location.partition("/")
    if not re.fullmatch(f"({_HOST}(,{_HOST})*)?", hosts):
        return "***"
    return f"{scheme}://{'***@' if at else ''}{hosts}{slash}{path}"


def _options(url: str) -> dict[str, Any]:
    options: dict[str, Any] = dict(parse_url(url))
    if options.get("connection_class") is SSLConnection:
        options.setdefault("ssl_check_hostname", True)
    return options


def _check(parts: SplitResult) -> None:
    """Raise AddressInvalid for an address that redis-py would refuse late or misread."""
    if parts.scheme not in SCHEMES:
        raise AddressInvalid(_WRONG_SCHEME)
    if parse_qs(parts.query).keys() - {*QUERY_WORDS}:
        raise AddressInvalid(f"only {', '.join(QUERY_WORDS)} may follow '?'")
    if parts.scheme == "unix":
        if not parts.path.strip("/"):
            raise AddressInvalid("the path of the socket is missing")
        return
    hosts = parts.netloc.rpartition("@")[2].split(",")
    if not all(re.fullmatch(_HOST, host) for host in hosts):
        raise AddressInvalid("what follows '//' is not a host with a port")
    if not all(0 < _host_and_port(host, 1)[1] < 2**16 for host in hosts):
        raise AddressInvalid("a port is a number from 1 to 65535")
    if parts.scheme not in SENTINEL_SCHEMES:
        if len(hosts) > 1:
            raise AddressInvalid("several hosts are for redis+sentinel://")
        if not re.fullmatch("/?[0-9]*", parts.path):
            raise AddressInvalid("its path is not the number of a database")


def _host_and_port(text: str, default: int) -> tuple[str, int]:
    host, _, port = text[1:].partition("]") if text.startswith("[") else text.partition(":")
    digits = port.removeprefix(":")
    return host, int(digits or default)
