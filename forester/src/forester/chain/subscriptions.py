"""Notifications of an RPC node over one WebSocket, which is opened again whenever it breaks.

A break may lose notifications: ``NotificationsLost`` reports it once everything is subscribed again, and the reader
reads the accounts. Nothing is queued here: a slow reader makes the node wait, and finally close the connection.
"""

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec
from solders.pubkey import Pubkey

from forester.chain.rpc_client import (
    Account,
    KeyedAccount,
    ValueAt,
    WireAccount,
    account_of,
    memcmp_filters,
    pubkey_of,
)
from forester.chain.rpc_pool import Slot
from forester.errors import EndpointError, EndpointTimedOut, EndpointUnreachable, MalformedAnswer, RequestRefused
from forester.limits.untrusted_json import decode_untrusted
from forester.redaction import mask_start
from forester.urls import connection_fault
from shared.process.logs import get_logger
from shared.process.retries import Backoff

_log = get_logger(__name__)

MESSAGE_LIMIT_BYTES = 16 * 2**20
"""Longest notification: the largest account of the programs has some 2.2 MB, in base64 a third more."""

STEADY_S = 30.0
"""After a connection that lasted this long the pauses between attempts begin with the shortest again.

A node that accepts subscriptions and then closes would otherwise cause several gaps a second.
"""

_CONNECT_S = 10.0
_HEARTBEAT_S = 20.0
_OPTIONS = {"encoding": "base64", "commitment": "confirmed"}
_CLOSING = aiohttp.ClientWSTimeout(ws_close=1.0)


@dataclass(frozen=True)
class Subscription:
    """A subscription: a method with its parameters, and the address of its notifications."""

    method: str
    params: tuple[Any, ...] = ()
    address: Pubkey | None = None


class SlotSeen(msgspec.Struct, frozen=True):
    """The node has begun to work on a slot, whose block follows that of ``parent`` if the node says it."""

    slot: Slot
    parent: Slot | None = None


@dataclass(frozen=True)
class AccountChanged:
    """An account is new or different since ``slot``."""

    slot: int
    account: Account


@dataclass(frozen=True)
class NotificationsLost:
    """Notifications may have been lost. ``failures`` counts those since a steady connection, 0 at the first one."""

    failures: int


Event = SlotSeen | AccountChanged | NotificationsLost


def slots() -> Subscription:
    """Return the subscription to every slot."""
    return Subscription("slotSubscribe")


def account(address: Pubkey) -> Subscription:
    """Return the subscription to every change of an account."""
    return Subscription("accountSubscribe", (str(address), _OPTIONS), address)


def program_accounts(
    program: Pubkey,
    *,
    memcmp: Sequence[tuple[int, bytes]] = (),
    length: int | None = None,
) -> Subscription:
    """Return the subscription to changes of the accounts of a program that have given bytes at given offsets.

    With ``length`` notifications carry at most that many bytes of each account.
    """
    options: dict[str, Any] = {**_OPTIONS, "filters": memcmp_filters(memcmp)}
    if length is not None:
        options["dataSlice"] = {"offset": 0, "length": length}
    return Subscription("programSubscribe", (str(program), options))


_NONE = msgspec.Raw(b"null")


class _Params(msgspec.Struct):
    subscription: int
    result: msgspec.Raw


class _Message(msgspec.Struct):
    id: int | None = None
    result: int | None = None
    error: msgspec.Raw = _NONE
    params: _Params | None = None


_MESSAGE = msgspec.json.Decoder(_Message)
_SLOT = msgspec.json.Decoder(SlotSeen)
_ACCOUNT = msgspec.json.Decoder(ValueAt[WireAccount])
_PROGRAM_ACCOUNT = msgspec.json.Decoder(ValueAt[KeyedAccount])


async def events(
    session: aiohttp.ClientSession,
    url: str,
    subscriptions: Sequence[Subscription],
    *,
    idle_s: float = 30.0,
    steady_s: float = STEADY_S,
    backoff: Backoff | None = None,
) -> AsyncGenerator[Event, None]:
    """Yield notifications forever, beginning with NotificationsLost: earlier changes are not reported.

    ``idle_s`` without any message counts as a break when slots are subscribed to, which come all the time. Raises
    RequestRefused if the node does not know a subscription; everything else is retried.
    """
    waits = backoff or Backoff(0.5, 30.0)
    node = _Node(session, url, tuple(subscriptions), idle_s)
    failures = 0
    while True:
        connected_at = math.inf
        try:
            async with aclosing(node.connection()) as messages:
                async for event in messages:
                    if event is None:
                        connected_at = time.monotonic()
                        yield NotificationsLost(failures)
                    else:
                        yield event
        except RequestRefused:
            raise
        except EndpointError as error:
            failures = 1 if time.monotonic() - connected_at >= steady_s else failures + 1
            wait_s = waits.pause_s(failures)
            _log.warning("subscriptions_broken", error=error.detail, failures=failures, again_in_s=round(wait_s, 3))
            await asyncio.sleep(wait_s)


def refuse_redirects() -> aiohttp.TraceConfig:
    """Return a hook for sessions that open WebSockets: aiohttp follows redirects of a handshake without one."""
    tracing = aiohttp.TraceConfig()
    tracing.on_request_redirect.append(_refuse_redirect)
    return tracing


async def _refuse_redirect(_: object, __: object, redirect: aiohttp.TraceRequestRedirectParams) -> None:
    redirect.response.close()
    raise aiohttp.ClientError(f"it answers {redirect.response.status}, and redirects are not followed")


class _Node:
    def __init__(
        self, session: aiohttp.ClientSession, url: str, subscriptions: tuple[Subscription, ...], idle_s: float
    ) -> None:
        self._session = session
        self._url = url
        parts = urlsplit(url)
        self._name = f"WebSocket of {parts.hostname}" + (f":{parts.port}" if parts.port else "")
        self._subscriptions = subscriptions
        slots_wanted = any(item.method == "slotSubscribe" for item in subscriptions)
        self._idle_s = idle_s if slots_wanted else None

    async def _connect(self) -> aiohttp.ClientWebSocketResponse:
        """Connect to this very address, without redirects."""
        connector = self._session.connector
        async with aiohttp.ClientSession(
            connector=connector, connector_owner=False, trace_configs=[refuse_redirects()]
        ) as session:
            return await session.ws_connect(
                self._url, timeout=_CLOSING, heartbeat=_HEARTBEAT_S, max_msg_size=MESSAGE_LIMIT_BYTES
            )

    async def connection(self) -> AsyncGenerator[SlotSeen | AccountChanged | None, None]:
        """Connect and subscribe; yield None when everything is subscribed, then notifications until the end."""
        try:
            async with asyncio.timeout(_CONNECT_S):
                socket = await self._connect()
        except TimeoutError:
            raise EndpointTimedOut(f"{self._name} did not answer within {_CONNECT_S:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise EndpointUnreachable(f"{self._name} cannot be reached: {connection_fault(error)}") from None
        async with socket:
            ids = await self._subscribe(socket)
            yield None
            while True:
                event = self._event(await self._receive(socket, self._idle_s), ids)
                if event is not None:
                    yield event

    async def _subscribe(self, socket: aiohttp.ClientWebSocketResponse) -> dict[int, Subscription]:
        """Return the subscriptions by the node's ids; earlier notifications are dropped: NotificationsLost follows."""
        for number, item in enumerate(self._subscriptions):
            request = {"jsonrpc": "2.0", "id": number, "method": item.method, "params": list(item.params)}
            await self._send(socket, msgspec.json.encode(request).decode())
        ids: dict[int, Subscription] = {}
        try:
            async with asyncio.timeout(_CONNECT_S):
                while len(ids) < len(self._subscriptions):
                    message = await self._receive(socket, None)
                    if message.params is not None:
                        continue
                    if message.id is None or not 0 <= message.id < len(self._subscriptions):
                        raise MalformedAnswer(f"{self._name} answered a request that was not made")
                    wanted = self._subscriptions[message.id]
                    if bytes(message.error) != b"null" or message.result is None:
                        reason = mask_start(bytes(message.error).decode(errors="replace"), 500)
                        raise RequestRefused(f"{self._name} refused {wanted.method}: {reason}", code=0)
                    ids[message.result] = wanted
        except TimeoutError:
            raise EndpointTimedOut(f"{self._name} did not subscribe within {_CONNECT_S:g} s") from None
        return ids

    async def _send(self, socket: aiohttp.ClientWebSocketResponse, text: str) -> None:
        try:
            await socket.send_str(text)
        except (aiohttp.ClientError, OSError) as error:
            raise EndpointUnreachable(f"{self._name} was closed: {error}") from None

    async def _receive(self, socket: aiohttp.ClientWebSocketResponse, idle_s: float | None) -> _Message:
        try:
            async with asyncio.timeout(idle_s):
                frame = await socket.receive()
        except TimeoutError:
            raise EndpointTimedOut(f"{self._name} sent nothing for {idle_s:g} s") from None
        if frame.type is not aiohttp.WSMsgType.TEXT:
            raise EndpointUnreachable(f"{self._name} was closed ({frame.type.name.lower()} {socket.close_code or ''})")
        try:
            return decode_untrusted(_MESSAGE, frame.data)
        except ValueError as error:
            raise MalformedAnswer(f"{self._name} sent something unexpected: {error}") from None

    def _event(self, message: _Message, ids: dict[int, Subscription]) -> SlotSeen | AccountChanged | None:
        """Return the event of a notification; None if its subscription is not ours."""
        wanted = ids.get(message.params.subscription) if message.params is not None else None
        if wanted is None or message.params is None:
            return None
        raw = message.params.result
        try:
            if wanted.method == "slotSubscribe":
                return decode_untrusted(_SLOT, raw)
            if wanted.address is not None:
                changed = decode_untrusted(_ACCOUNT, raw)
                return AccountChanged(changed.context.slot, account_of(wanted.address, changed.value))
            found = decode_untrusted(_PROGRAM_ACCOUNT, raw)
            address = pubkey_of(found.value.pubkey)
            return AccountChanged(found.context.slot, account_of(address, found.value.account))
        except ValueError as error:
            raise MalformedAnswer(f"{self._name} sent an unexpected notification: {error}") from None
