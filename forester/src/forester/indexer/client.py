"""Calls to a Photon-compatible indexer: JSON-RPC over one session, with retries up to the caller's deadline.

Source: indexer.md 1 and 2, forester.md 9.4 and 9.5. All calls only read, so each may be repeated.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

import aiohttp
import msgspec
from yarl import URL

from forester.errors import EndpointError, EndpointTimedOut, EndpointUnreachable, RateLimited
from forester.indexer import validation
from forester.indexer.failures import AnswerWrong, IndexerBehind, IndexerRefused
from forester.indexer.types import (
    AccountProof,
    AccountProofs,
    AddressProof,
    AddressProofs,
    Hash32,
    QueueElements,
    QueueInfo,
    QueueSize,
    TokenAccountPage,
    TokenAccounts,
    TokenBalancePage,
    TokenBalances,
    decode_base58,
)
from forester.limits.backoff import Backoff, read_retry_after
from forester.limits.quiet import Quiet
from forester.limits.seldom import Seldom
from shared.logs import get_logger

REQUEST_ID = "test-account"
"""Published clients send this id, and refuse answers with another."""

_T = TypeVar("_T")
FAILURES_BEFORE_FALLBACK = 3
PROBE_S = 30.0
"""After this long on the fallback, one exchange tries the first indexer again."""

_CONNECT_S = 5.0
_LIMIT_TOLD_S = 30.0
_LONGEST_ANSWER = 256 << 20
_LARGE_ANSWER = 1 << 18
_log = get_logger(__name__)


@dataclass(frozen=True)
class IndexerTimes:
    """``call_s`` bounds one exchange, ``deadline_s`` a call with its retries; queue pages are large and have their own.

    ``lag_poll_s`` is the time between two looks at an indexer that is behind.
    """

    call_s: float = 15.0
    page_s: float = 60.0
    deadline_s: float = 60.0
    page_deadline_s: float = 120.0
    lag_poll_s: float = 0.4
    attempts: int = 10
    backoff: Backoff = field(default_factory=Backoff)


@dataclass(frozen=True)
class QueueQuery:
    """Which elements of one queue: at most ``limit``, from ``start_index`` on or from the head."""

    limit: int
    zkp_batch_size: int
    start_index: int | None = None

    def params(self) -> dict[str, int]:
        """The request's spelling."""
        given = {"limit": self.limit, "startIndex": self.start_index, "zkpBatchSize": self.zkp_batch_size}
        return {name: value for name, value in given.items() if value is not None}


class _RpcError(msgspec.Struct):
    code: int
    message: str = ""
    data: Any = None


class _Envelope(msgspec.Struct):
    id: Any = None
    result: msgspec.Raw = msgspec.Raw(b"")
    error: _RpcError | None = None


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind, dec_hook=decode_base58)
    for kind in (str, int, AccountProofs, AddressProofs, QueueElements, QueueInfo, TokenAccounts, TokenBalances)
}


async def _no_limit() -> None:
    """Let every call pass at once."""


class IndexerClient:
    """An indexer, over a session that belongs to the caller; ``admit`` is awaited before every exchange.

    After FAILURES_BEFORE_FALLBACK exchanges in a row that failed, those of the next PROBE_S seconds go to ``fallback``.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        *,
        fallback: str | None = None,
        times: IndexerTimes | None = None,
        admit: Callable[[], Awaitable[None]] = _no_limit,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session = session
        self._first = URL(url)
        self._second = URL(fallback) if fallback is not None else None
        self._clock = clock
        self._quiet = Quiet(clock)
        self._failures = 0
        self._fallback_until = 0.0
        self._limited = Seldom(_LIMIT_TOLD_S, clock=clock)
        self._times = times or IndexerTimes()
        self._admit = admit

    async def health(self) -> None:
        """Return if the indexer calls itself healthy; IndexerRefused with its reason otherwise."""
        answer = await self._call("getIndexerHealth", [], str)
        if answer != "ok":
            raise AnswerWrong("getIndexerHealth", "$.result", f"'{answer[:80]}' where 'ok' is expected")

    async def slot(self) -> int:
        """The highest slot that is indexed."""
        slot = await self._call("getIndexerSlot", [], int)
        if slot < 0:
            raise AnswerWrong("getIndexerSlot", "$.result", "a negative slot")
        return slot

    async def wait_for_slot(self, slot: int, within_s: float) -> int:
        """Wait until a slot is indexed and return the indexer's; IndexerBehind after ``within_s`` seconds.

        EndpointTimedOut if the indexer did not tell any slot in that time.
        """
        reached = -1
        try:
            async with asyncio.timeout(within_s):
                while (reached := await self.slot()) < slot:  # noqa: ASYNC110 - it is another process that advances
                    await asyncio.sleep(self._times.lag_poll_s)
        except TimeoutError as error:
            if reached < 0:
                raise EndpointTimedOut(f"indexer {self._shown} did not tell its slot within {within_s:g} s") from error
            raise IndexerBehind(reached, slot) from error
        return reached

    async def queue_elements(
        self,
        tree: Hash32,
        *,
        output: QueueQuery | None = None,
        spent: QueueQuery | None = None,
        address: QueueQuery | None = None,
    ) -> QueueElements:
        """One page of queued elements with the tree nodes they need; checked for contradictions.

        Raises AnswerWrong naming the member. What only the chain can tell is not checked here.
        """
        asked = {"outputQueue": output, "inputQueue": spent, "addressQueue": address}
        params = {"tree": str(tree)} | {name: query.params() for name, query in asked.items() if query is not None}
        answer = await self._call("getQueueElements", params, QueueElements, page=True)
        validation.check_queue_elements(answer, output, spent, address)
        return answer

    async def account_proofs(self, hashes: Sequence[Hash32]) -> tuple[AccountProof, ...]:
        """The paths of leaves of V1 state trees, in the order of ``hashes``."""
        method = "getMultipleCompressedAccountProofs"
        answer = await self._call(method, [str(value) for value in hashes], AccountProofs)
        validation.check_account_proofs(method, answer.value, hashes)
        return answer.value

    async def address_proofs(self, addresses: Sequence[tuple[Hash32, Hash32]]) -> tuple[AddressProof, ...]:
        """The low elements of absent addresses, given with their trees, in that order."""
        method = "getMultipleNewAddressProofsV2"
        params = [{"address": str(address), "tree": str(tree)} for address, tree in addresses]
        answer = await self._call(method, params, AddressProofs)
        validation.check_address_proofs(method, answer.value, addresses)
        return answer.value

    async def queue_info(self, trees: Sequence[Hash32] = ()) -> tuple[QueueSize, ...]:
        """The lengths of the queues of V2 trees, of all of them if none is named."""
        params = {"trees": [str(tree) for tree in trees]} if trees else {}
        info = await self._call("getQueueInfo", params, QueueInfo)
        return info.queues

    async def token_accounts(self, owner: Hash32, cursor: str | None = None) -> TokenAccountPage:
        """A page of the compressed token accounts of an owner."""
        params = {"owner": str(owner)} | ({"cursor": cursor} if cursor else {})
        return (await self._call("getCompressedTokenAccountsByOwnerV2", params, TokenAccounts)).value

    async def token_balances(self, owner: Hash32, cursor: str | None = None) -> TokenBalancePage:
        """A page of the balances of an owner, one for each mint."""
        params = {"owner": str(owner)} | ({"cursor": cursor} if cursor else {})
        return (await self._call("getCompressedTokenBalancesByOwnerV2", params, TokenBalances)).value

    async def _call(
        self, method: str, params: Sequence[Any] | Mapping[str, Any], kind: type[_T], *, page: bool = False
    ) -> _T:
        body = msgspec.json.encode({"jsonrpc": "2.0", "id": REQUEST_ID, "method": method, "params": params})
        deadline_s = self._times.page_deadline_s if page else self._times.deadline_s
        try:
            async with asyncio.timeout(deadline_s):
                return await self._attempts(method, body, kind, self._times.page_s if page else self._times.call_s)
        except TimeoutError as error:
            raise EndpointTimedOut(f"indexer {self._shown} did not answer {method} within {deadline_s:g} s") from error

    async def _attempts(self, method: str, body: bytes, kind: type[_T], limit_s: float) -> _T:
        failures = 0
        while True:
            try:
                return await self._attempt(method, body, kind, limit_s)
            except AnswerWrong:
                raise  # a repetition would repeat it
            except EndpointError as error:
                failures += 1
                if not error.retryable or failures >= self._times.attempts:
                    raise
                fraction = random.random()  # noqa: S311 - jitter
                if isinstance(error, RateLimited):
                    fraction = 0.5 + fraction / 2
                wait_s = self._times.backoff.wait_s(failures, fraction)
                _log.debug("indexer_call_failed", method=method, error=error.detail, wait_s=round(wait_s, 3))
                await asyncio.sleep(wait_s)

    async def _attempt(self, method: str, body: bytes, kind: type[_T], limit_s: float) -> _T:
        await self._admit()
        text = await self._exchange(method, body, limit_s)
        # Pages hold tens of thousands of hashes: the loop goes on while they are read.
        read = asyncio.to_thread if len(text) > _LARGE_ANSWER else _directly
        return await read(_read_answer, method, text, kind)

    @property
    def _url(self) -> URL:
        """Where calls go: to the fallback for a while after failures, then to the first one again."""
        if self._second is not None and self._clock() < self._fallback_until:
            return self._second
        return self._first

    @property
    def _shown(self) -> str:
        return str(self._url.with_user(None).with_query(None).with_fragment(None))

    def _note(self, url: URL, failed: bool) -> None:
        if self._second is None or url is not self._first:
            return
        self._failures = self._failures + 1 if failed else 0
        if self._failures >= FAILURES_BEFORE_FALLBACK:
            _log.warning("indexer_fallback_used", indexer=self._shown, failures=self._failures)
            self._fallback_until = self._clock() + PROBE_S

    async def _exchange(self, method: str, body: bytes, limit_s: float) -> bytes:
        if self._second is None:  # otherwise failures soon lead to the second one
            await self._quiet.over()
        used = self._url
        try:
            text = await self._post(method, body, limit_s)
        except EndpointError as error:
            if isinstance(error, RateLimited):
                if times := self._limited.due():
                    hint = "set --photon-rate-limit, or lower --indexer-max-concurrent-batches"
                    _log.warning("indexer_rate_limited", error=error.detail, times=times, hint=hint)
                if error.retry_after_s is not None:
                    self._quiet.ask(error.retry_after_s)
            self._note(used, error.retryable)
            raise
        self._note(used, False)
        return text

    async def _post(self, method: str, body: bytes, limit_s: float) -> bytes:
        url = self._url.with_path(f"{self._url.path.rstrip('/')}/{method}").with_query(self._url.query)
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        timeout = aiohttp.ClientTimeout(total=limit_s, sock_connect=_CONNECT_S)
        try:
            async with self._session.post(
                url, data=body, headers=headers, timeout=timeout, allow_redirects=False
            ) as response:
                self._require_ok(method, response)
                return await _read_at_most(method, response)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            reason = str(error) or type(error).__name__
            raise EndpointUnreachable(f"indexer {self._shown} is unreachable: {reason}") from error

    def _require_ok(self, method: str, response: aiohttp.ClientResponse) -> None:
        if response.status == 200:
            return
        answered = f"indexer {self._shown} answered {method} with {response.status} {response.reason}"
        if response.status == 429:
            wait_s = read_retry_after(response.headers.get("Retry-After"), datetime.now(UTC))
            raise RateLimited(answered, retry_after_s=wait_s)
        if response.status >= 500 or response.status == 408:
            raise EndpointUnreachable(answered)
        raise IndexerRefused(method, response.status, response.reason or "no reason given")


async def _directly(function: Callable[..., _T], *arguments: Any) -> _T:
    return function(*arguments)


async def _read_at_most(method: str, response: aiohttp.ClientResponse) -> bytes:
    parts, length = [], 0
    async for part in response.content.iter_chunked(1 << 16):
        length += len(part)
        if length > _LONGEST_ANSWER:
            raise AnswerWrong(method, "$", f"longer than {_LONGEST_ANSWER} bytes")
        parts.append(part)
    return b"".join(parts)


def _read_answer(method: str, text: bytes, kind: type[_T]) -> _T:
    try:
        envelope = _ENVELOPE.decode(text)
    except ValueError as error:
        raise _wrong(method, "$", error) from error
    if envelope.error is not None:
        raise IndexerRefused(method, envelope.error.code, envelope.error.message, envelope.error.data)
    if envelope.id != REQUEST_ID:
        raise AnswerWrong(method, "$.id", f"not '{REQUEST_ID}'")
    if not bytes(envelope.result):
        raise AnswerWrong(method, "$", "neither `result` nor `error`")
    try:
        result: _T = _DECODERS[kind].decode(envelope.result)
    except ValueError as error:
        raise _wrong(method, "$.result", error) from error
    return result


def _wrong(method: str, place: str, error: ValueError) -> AnswerWrong:
    reason, found, path = str(error).partition(" - at `$")
    return AnswerWrong(method, place + path.rstrip("`") if found else place, reason)
