"""Calls with retries and jitter, and with a fallback node while the first one fails."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Annotated, Any, Self, TypeVar

import aiohttp
import msgspec

from forester.chain import bounds
from forester.chain.rpc_transport import NodeRefused, RpcEndpoint, may_have_arrived
from forester.errors import (
    EndpointError,
    EndpointTimedOut,
    EndpointUnreachable,
    MalformedAnswer,
    RateLimited,
    RequestRefused,
    is_unreachable,
)
from forester.limits.retry_after import RetryAfterGate
from forester.limits.untrusted_json import decode_untrusted
from forester.settings import Settings, revealed
from shared.process.logs import get_logger
from shared.process.rate_limits import LogThrottle, TokenBucket
from shared.process.retries import Backoff, jittered

_log = get_logger(__name__)

Result = TypeVar("Result")
Slot = Annotated[int, msgspec.Meta(ge=0, le=bounds.LARGEST_COUNT)]

_PROBE_TIMEOUT_S = 3.0
_LIMIT_LOGGED_S = 30.0
_SLOTS_APART = 50
"""Nodes of one cluster differ by a few slots; one that is farther behind is stuck or catches up."""


def read_limit(settings: Settings) -> TokenBucket | None:
    """Return a new limit of reads from the settings, None for none."""
    return None if settings.rpc_rate_limit is None else TokenBucket(settings.rpc_rate_limit)


async def _admit(limit: TokenBucket | None, endpoint: RpcEndpoint, method: str, within_s: float) -> None:
    """Wait until the limit admits a call. Raises EndpointTimedOut if it admits none within ``within_s``."""
    if limit is None:
        return
    try:
        async with asyncio.timeout(within_s):
            await limit.wait()
    except TimeoutError:
        text = f"{endpoint.name} could not be called for {method}: the rate limit admits no call in time"
        raise EndpointTimedOut(f"{text}; raise --rpc-rate-limit or --send-tx-rate-limit") from None


@dataclass(frozen=True)
class RetryPolicy:
    """Number of retries, and the pauses between them."""

    retries: int = 100
    backoff: Backoff = field(default_factory=lambda: Backoff(1.0, 16.0))

    def pause(self, failures: int, error: EndpointError) -> float:
        """Return the seconds to wait after consecutive ``failures``; a Retry-After of the node comes first."""
        if isinstance(error, RateLimited):
            return jittered(self.backoff, failures, error.retry_after_s)
        return self.backoff.pause_s(failures)


@dataclass(frozen=True)
class FailOver:
    """Conditions for a failover to the fallback, and how often the first node is tried again."""

    failure_threshold: int = 3
    probe_interval_s: float = 30.0


class RpcPool:
    """One session to the RPC nodes of the settings; ``call`` serves all methods.

    Use it as an asynchronous context manager, which opens and closes the connections.
    """

    def __init__(
        self,
        urls: list[str],
        *,
        connections: int = 100,
        connect_timeout_s: float = 5.0,
        idle_timeout_s: float = 300.0,
        retry: RetryPolicy | None = None,
        fail_over: FailOver | None = None,
        reads: TokenBucket | None = None,
        sends_per_s: float | None = None,
        traces: Sequence[aiohttp.TraceConfig] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not urls:
            raise ValueError("a pool needs the URL of a node")
        self._urls = urls
        self._connections = connections
        self._connect_timeout_s = connect_timeout_s
        self._idle_timeout_s = idle_timeout_s
        self._retry = retry or RetryPolicy()
        self._fail_over = fail_over or FailOver()
        self._reads = reads
        self._sends = TokenBucket(sends_per_s) if sends_per_s else None
        self._traces = list(traces)
        self._clock = clock
        self._endpoints: list[RpcEndpoint] = []
        self._retry_gate = RetryAfterGate(clock)
        self._stack = AsyncExitStack()
        self._limited = LogThrottle(_LIMIT_LOGGED_S, clock=clock)
        self._failures = 0
        self.on_fallback = False
        """True while calls go to the fallback."""

        self._behind = False
        self._next_probe = 0.0
        self._probing = False

    @classmethod
    def from_settings(
        cls,
        settings: Settings,
        *,
        retry: RetryPolicy | None = None,
        reads: TokenBucket | None = None,
        traces: Sequence[aiohttp.TraceConfig] = (),
    ) -> Self:
        """Return a pool for the settings.

        In short commands ``retry`` replaces their policy, and ``reads`` is a limit that several pools share.
        """
        return cls(
            revealed(settings.rpc_url, settings.fallback_rpc_url),
            connections=settings.rpc_pool_size,
            connect_timeout_s=settings.rpc_pool_connection_timeout_secs,
            idle_timeout_s=settings.rpc_pool_idle_timeout_secs,
            retry=retry
            or RetryPolicy(
                settings.rpc_pool_max_retries,
                Backoff(settings.rpc_pool_initial_retry_delay_ms / 1000, settings.rpc_pool_max_retry_delay_ms / 1000),
            ),
            fail_over=FailOver(settings.rpc_pool_failure_threshold, settings.rpc_pool_primary_probe_interval_secs),
            reads=reads or read_limit(settings),
            sends_per_s=settings.send_tx_rate_limit,
            traces=traces,
        )

    async def __aenter__(self) -> Self:
        session = await self._stack.enter_async_context(
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self._connections, keepalive_timeout=self._idle_timeout_s),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._connect_timeout_s),
                trace_configs=self._traces,
            )
        )
        self._endpoints = [RpcEndpoint(session, url) for url in self._urls]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @property
    def unused(self) -> "UnusedNode | None":
        """The node that is not in use, to confirm answers of the other one; None if there is only one node."""
        return UnusedNode(self) if len(self._urls) > 1 else None

    def leave_stuck_node(self) -> None:
        """Fail over from the first node, which answers with the same slot, until it has caught up with the fallback."""
        if len(self._endpoints) > 1 and not self.on_fallback:
            self._behind = True
            self._go_to_fallback(f"{self._endpoints[0].name} returns the same slot repeatedly")

    async def call(
        self,
        method: str,
        params: list[Any],
        result: type[Result],
        *,
        timeout_s: float = 15.0,
        deadline_s: float = 60.0,
        sends: bool = False,
    ) -> Result:
        """Return the result of a method, decoded as ``result``.

        ``timeout_s`` bounds one attempt, ``deadline_s`` all of them with their pauses. A transaction is signed and so
        may be sent repeatedly, and to both nodes. Raises the EndpointError of the last attempt.
        """
        ends = self._clock() + deadline_s
        limit = self._sends if sends else self._reads
        unsure: EndpointError | None = None

        async def ask(endpoint: RpcEndpoint) -> Result:
            nonlocal unsure
            await _admit(limit, endpoint, method, ends - self._clock())
            remaining = ends - self._clock()
            if remaining <= 0:
                raise EndpointTimedOut(f"{endpoint.name} could not be called for {method} within {deadline_s:g} s")
            try:
                raw = await endpoint.call(method, params, timeout_s=min(timeout_s, remaining))
                return self._decoded(endpoint, method, raw, result)
            except EndpointError as error:
                self._count_failure(endpoint, error)
                unsure = unsure or (error if may_have_arrived(error) else None)
                raise

        for attempt in range(self._retry.retries + 1):
            endpoint = await self._endpoint()
            await self._await_gate(endpoint, method, ends)
            try:
                return await self._ask_both(endpoint, ask)
            except EndpointError as error:
                if sends and unsure is not None and isinstance(error, RequestRefused):
                    raise unsure from None  # an attempt may have been accepted: a refusal would let it be signed again
                pause = self._retry.pause(attempt + 1, error)
                if not error.retryable or attempt == self._retry.retries or self._clock() + pause >= ends:
                    raise
                _log.debug(
                    "rpc_retry", method=method, attempt=attempt + 1, again_in_s=round(pause, 3), error=error.detail
                )
            await asyncio.sleep(pause)
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def call_unused(self, method: str, params: list[Any], result: type[Result], *, timeout_s: float) -> Result:
        """Return the result of a method from the node that is not in use, in one attempt; ValueError without one."""
        if len(self._endpoints) < 2:
            raise ValueError("there is only one node")
        endpoint = self._endpoints[0 if self.on_fallback else 1]
        await _admit(self._reads, endpoint, method, timeout_s)
        return self._decoded(endpoint, method, await endpoint.call(method, params, timeout_s=timeout_s), result)

    async def _ask_both(self, endpoint: RpcEndpoint, ask: Callable[[RpcEndpoint], Awaitable[Result]]) -> Result:
        """Call a node, and the other one at once if only the first would refuse.

        Raise the refusal if the other one does not answer: the call is not retried because of it.
        """
        try:
            return await ask(endpoint)
        except NodeRefused as error:
            others = [other for other in self._endpoints if other is not endpoint]
            if not others:
                raise
            _log.debug("rpc_other_node_queried", node=others[0].name, error=error.detail)
            try:
                return await ask(others[0])
            except EndpointError as another:
                raise (error if is_unreachable(another) else another) from None

    async def _await_gate(self, endpoint: RpcEndpoint, method: str, ends: float) -> None:
        """Wait for a node's Retry-After; with a fallback, failures soon lead to a failover instead."""
        if len(self._endpoints) > 1:
            return
        if (rest_s := self._retry_gate.remaining_s) >= max(0.0, ends - self._clock()) and rest_s > 0:
            raise RateLimited(f"{endpoint.name} accepts no calls for {rest_s:.0f} s, {method} cannot wait so long")
        await self._retry_gate.wait()

    def _decoded(self, endpoint: RpcEndpoint, method: str, raw: msgspec.Raw, result: type[Result]) -> Result:
        try:
            decoded = decode_untrusted(msgspec.json.Decoder(result), raw)
        except ValueError as error:
            raise MalformedAnswer(f"{endpoint.name} answered {method} unexpectedly: {error}") from None
        if endpoint is self._endpoints[0]:
            self._failures = 0
        return decoded

    def _count_failure(self, endpoint: RpcEndpoint, error: EndpointError) -> None:
        if isinstance(error, RateLimited):
            self._log_limit(endpoint, error)
            if error.retry_after_s is not None:
                self._retry_gate.close_for(error.retry_after_s)
        of_request = isinstance(error, RequestRefused) and not isinstance(error, NodeRefused)
        if of_request or endpoint is not self._endpoints[0]:
            return
        self._failures += 1
        if len(self._endpoints) > 1 and not self.on_fallback and self._failures >= self._fail_over.failure_threshold:
            self._go_to_fallback(error.detail)

    def _go_to_fallback(self, reason: str) -> None:
        self.on_fallback = True
        self._next_probe = self._clock() + self._fail_over.probe_interval_s
        _log.warning("rpc_fallback_used", node=self._endpoints[0].name, failures=self._failures, error=reason)

    async def _require_progress(self) -> None:
        """Raise EndpointError unless the first node is as far as the fallback, or that does not answer."""
        first = await self._slot_of(self._endpoints[0])
        try:
            fallback = await self._slot_of(self._endpoints[1])
        except EndpointError:
            return
        if first + _SLOTS_APART < fallback:
            raise EndpointUnreachable(f"{self._endpoints[0].name} is {fallback - first} slots behind the fallback")

    async def _slot_of(self, endpoint: RpcEndpoint) -> int:
        raw = await endpoint.call("getSlot", [{"commitment": "processed"}], timeout_s=_PROBE_TIMEOUT_S)
        return self._decoded(endpoint, "getSlot", raw, Slot)

    def _log_limit(self, endpoint: RpcEndpoint, error: RateLimited) -> None:
        if times := self._limited.due():
            remedy = (
                "lower --rpc-pool-size and --max-concurrent-sends, or set --rpc-rate-limit and --send-tx-rate-limit"
            )
            _log.warning("rpc_rate_limited", node=endpoint.name, error=error.detail, times=times, remedy=remedy)

    async def _endpoint(self) -> RpcEndpoint:
        """Return the node to call: the first one, or the fallback until the first one is healthy again."""
        if not self.on_fallback:
            return self._endpoints[0]
        if self._clock() >= self._next_probe and not self._probing:
            self._probing = True
            try:
                await self._endpoints[0].call("getHealth", [], timeout_s=_PROBE_TIMEOUT_S)
                if self._behind:
                    await self._require_progress()
            except EndpointError:
                self._next_probe = self._clock() + self._fail_over.probe_interval_s
            else:
                self.on_fallback = self._behind = False
                self._failures = 0
                _log.info("rpc_primary_recovered", node=self._endpoints[0].name)
                return self._endpoints[0]
            finally:
                self._probing = False
        return self._endpoints[1]


class UnusedNode:
    """The node of a pool that is not in use, called as the pool is."""

    def __init__(self, pool: RpcPool) -> None:
        self._pool = pool

    async def call(
        self,
        method: str,
        params: list[Any],
        result: type[Result],
        *,
        timeout_s: float = 5.0,
        deadline_s: float = 5.0,
        sends: bool = False,
    ) -> Result:
        """Return the result of a method in one attempt; ValueError for methods that send."""
        if sends:
            raise ValueError("the unused node only confirms")
        return await self._pool.call_unused(method, params, result, timeout_s=min(timeout_s, deadline_s))
