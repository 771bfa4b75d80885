"""Calls to a Photon-compatible indexer: JSON-RPC over one session, with retries up to the caller's deadline.

Source: forester/docs/reference/indexer.md, "Methods"; forester/docs/reference/behaviour.md, "Retries". All calls only
read, so each may be repeated.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

import aiohttp
import msgspec
from yarl import URL

from forester.errors import EndpointError, EndpointTimedOut, EndpointUnreachable, RateLimited, is_unreachable
from forester.indexer import validation
from forester.indexer.answers import ANSWERS, REQUEST_ID, read_answer
from forester.indexer.endpoints import SLOTS_APART, Endpoints
from forester.indexer.failures import AnswerWrong, IndexerBehind, IndexerRefused
from forester.indexer.types import (
    AccountProof,
    AddressProof,
    Answer,
    CompressedAccount,
    Hash32,
    Number,
    Page,
    QueueElements,
    QueueQuery,
    TokenAccount,
    TokenBalance,
    Validity,
)
from forester.limits.retry_after import RetryAfterGate
from forester.redaction import shortened
from forester.urls import connection_fault, shown, under
from shared.process.logs import get_logger
from shared.process.rate_limits import LogThrottle
from shared.process.retries import Backoff, jittered, read_retry_after

_T = TypeVar("_T")
_CONNECT_S = 5.0
_LOOK_S = 3.0
_LIMIT_LOGGED_S = 30.0
_LARGE_ANSWER = 1 << 18
_log = get_logger(__name__)


@dataclass(frozen=True)
class IndexerTimes:
    """``call_s`` bounds one exchange, ``deadline_s`` a call with its retries; queue pages are large and have their own.

    ``lag_poll_s`` is the time between two reads of the slot of an indexer that is behind.
    """

    call_s: float = 15.0
    page_s: float = 60.0
    deadline_s: float = 60.0
    page_deadline_s: float = 120.0
    lag_poll_s: float = 0.4
    attempts: int = 10
    backoff: Backoff = field(default_factory=Backoff)


@dataclass(frozen=True)
class _Call(Generic[_T]):
    """A call of any number of attempts; ``check`` raises AnswerWrong for an answer that cannot belong to it."""

    method: str
    body: bytes
    kind: type[_T]
    limit_s: float
    check: Callable[[_T], None]


def _call_of(
    method: str,
    params: Sequence[Any] | Mapping[str, Any],
    kind: type[_T],
    limit_s: float,
    check: Callable[[_T], None] = lambda _: None,
) -> _Call[_T]:
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": REQUEST_ID, "method": method, "params": params})
    return _Call(method, body, kind, limit_s, check)


async def _no_limit() -> None:
    """Let every call pass at once."""


class IndexerClient:
    """An indexer, over a session that belongs to the caller; ``admit`` is awaited before every exchange.

    A ``fallback`` is called at once for requests that an indexer refuses for reasons of its own or answers wrongly;
    ``Endpoints`` decides when it takes over.
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
        self._endpoints = Endpoints(url, fallback, clock)
        self._retry_gate = RetryAfterGate(clock)
        self._limited = LogThrottle(_LIMIT_LOGGED_S, clock=clock)
        self._times = times or IndexerTimes()
        self._admit = admit

    @property
    def on_fallback(self) -> bool:
        """Return whether calls go to the fallback."""
        return self._endpoints.current is self._endpoints.fallback

    async def health(self) -> None:
        """Return if the indexer reports itself healthy; IndexerRefused with its reason otherwise."""
        await self._call("getIndexerHealth", [], str, validation.check_health)

    async def slot(self) -> int:
        """Return the highest slot that is indexed."""
        return await self._call("getIndexerSlot", [], Number)

    def contradicted(self) -> None:
        """Record that the chain contradicts an answer: the other indexer, if there is one, is used for a while."""
        self._endpoints.contradicted()

    async def wait_for_slot(self, slot: int, within_s: float) -> int:
        """Wait until a slot is indexed and return the indexer's; IndexerBehind after ``within_s`` seconds.

        EndpointTimedOut if the indexer returned no slot in that time. A stuck indexer is replaced if the other one is
        ahead.
        """
        if self._endpoints.begin_probe():
            first = await self._slot_at(self._endpoints.first)
            self._endpoints.record_probe(late=first is None or first + SLOTS_APART < slot)
        reached, url = -1, self._endpoints.current
        try:
            async with asyncio.timeout(within_s):
                while (reached := await self.slot()) < slot:
                    await asyncio.sleep(self._times.lag_poll_s)
                    url = self._endpoints.current
        except TimeoutError as error:
            if (ahead := await self._ahead(url, reached, slot)) >= slot:
                return ahead
            if reached < 0:
                raise EndpointTimedOut(f"indexer {shown(url)} returned no slot within {within_s:g} s") from error
            raise IndexerBehind(reached, slot) from error
        return reached

    async def _ahead(self, late: URL, reached: int, slot: int) -> int:
        """Return the slot of the other indexer, after a failover if it is ahead of the late one; else -1."""
        other = self._endpoints.other(late)
        found = await self._slot_at(other) if other is not None else None
        if found is None or (found < slot and found <= reached + SLOTS_APART):
            return -1
        if self._endpoints.current is late:
            self._endpoints.fail_over(late)
        return found

    async def _slot_at(self, url: URL) -> int | None:
        """Return the slot of one of the indexers; None if it does not answer soon."""
        try:
            async with asyncio.timeout(_LOOK_S):
                return await self._exchanged(url, _call_of("getIndexerSlot", [], Number, _LOOK_S))
        except (EndpointError, TimeoutError):
            return None

    async def queue_elements(
        self,
        tree: Hash32,
        *,
        output: QueueQuery | None = None,
        spent: QueueQuery | None = None,
        address: QueueQuery | None = None,
    ) -> QueueElements:
        """Return one page of queued elements with the tree nodes they need; checked for contradictions.

        Raises AnswerWrong naming the member. Facts that only the chain proves are not checked here.
        """
        queries = {"outputQueue": output, "inputQueue": spent, "addressQueue": address}
        params = {"tree": str(tree)} | {name: query.params() for name, query in queries.items() if query is not None}
        return await self._call(
            *("getQueueElements", params, QueueElements),
            lambda answer: validation.check_queue_elements(answer, output, spent, address),
            page=True,
        )

    async def account_proofs(self, hashes: Sequence[Hash32]) -> tuple[AccountProof, ...]:
        """Return the paths of leaves of V1 state trees, in the order of ``hashes``."""
        method = "getMultipleCompressedAccountProofs"
        answer = await self._call(
            *(method, [str(value) for value in hashes], Answer[tuple[AccountProof, ...]]),
            lambda given: validation.check_account_proofs(method, given.value, hashes),
        )
        return answer.value

    async def address_proofs(self, addresses: Sequence[tuple[Hash32, Hash32]]) -> tuple[AddressProof, ...]:
        """Return the low elements of absent addresses, given with their trees, in that order."""
        method = "getMultipleNewAddressProofsV2"
        params = [{"address": str(address), "tree": str(tree)} for address, tree in addresses]
        answer = await self._call(
            *(method, params, Answer[tuple[AddressProof, ...]]),
            lambda given: validation.check_address_proofs(method, given.value, addresses),
        )
        return answer.value

    async def compressed_accounts(self, addresses: Sequence[Hash32]) -> tuple[CompressedAccount | None, ...]:
        """Return the compressed accounts at addresses in this order, None for unknown ones."""
        method = "getMultipleCompressedAccountsV2"
        answer = await self._call(
            *(method, {"addresses": [str(address) for address in addresses]}, Answer[Page[CompressedAccount | None]]),
            lambda given: validation.check_compressed_accounts(method, given.value.items, addresses),
        )
        return answer.value.items

    async def validity_proof(self, hashes: Sequence[Hash32]) -> Validity:
        """Return a proof that compressed accounts exist."""
        method = "getValidityProofV2"
        answer = await self._call(
            *(method, {"hashes": [str(value) for value in hashes], "newAddressesWithTrees": []}, Answer[Validity]),
            lambda given: validation.check_validity(method, given.value, hashes),
        )
        return answer.value

    async def token_accounts(self, owner: Hash32, cursor: str | None = None) -> Page[TokenAccount]:
        """Return a page of the compressed token accounts of an owner."""
        params = {"owner": str(owner)} | ({"cursor": cursor} if cursor else {})
        return (await self._call("getCompressedTokenAccountsByOwnerV2", params, Answer[Page[TokenAccount]])).value

    async def token_balances(self, owner: Hash32, cursor: str | None = None) -> Page[TokenBalance]:
        """Return a page of the balances of an owner, one for each mint."""
        params = {"owner": str(owner)} | ({"cursor": cursor} if cursor else {})
        return (await self._call("getCompressedTokenBalancesByOwnerV2", params, Answer[Page[TokenBalance]])).value

    async def _call(
        self,
        method: str,
        params: Sequence[Any] | Mapping[str, Any],
        kind: type[_T],
        check: Callable[[_T], None] = lambda _: None,
        *,
        page: bool = False,
    ) -> _T:
        call = _call_of(method, params, kind, self._times.page_s if page else self._times.call_s, check)
        deadline_s = self._times.page_deadline_s if page else self._times.deadline_s
        try:
            async with asyncio.timeout(deadline_s):
                return await self._attempts(call)
        except TimeoutError as error:
            where = shown(self._endpoints.current)
            raise EndpointTimedOut(f"indexer {where} did not answer {method} within {deadline_s:g} s") from error

    async def _attempts(self, call: _Call[_T]) -> _T:
        failures = 0
        while True:
            try:
                return await self._attempt(call)
            except AnswerWrong:
                raise  # a repetition would repeat it
            except EndpointError as error:
                failures += 1
                if not error.retryable or failures >= self._times.attempts:
                    raise
                backoff = self._times.backoff
                wait_s = jittered(backoff, failures) if isinstance(error, RateLimited) else backoff.pause_s(failures)
                _log.debug("indexer_call_failed", method=call.method, error=error.detail, again_in_s=round(wait_s, 3))
                await asyncio.sleep(wait_s)

    async def _attempt(self, call: _Call[_T]) -> _T:
        """Call the indexer in use, and the other one at once if a retry would get the same answer."""
        used = self._endpoints.current
        try:
            return await self._exchanged(used, call)
        except (AnswerWrong, IndexerRefused) as error:
            other = self._endpoints.other(used)
            if other is None or (isinstance(error, IndexerRefused) and not error.of_indexer):
                raise
            _log.debug("other_indexer_queried", indexer=shown(other), method=call.method, error=error.detail)
            try:
                answer = await self._exchanged(other, call)
            except EndpointError as another:
                if isinstance(error, AnswerWrong) or (is_unreachable(another) and not error.retryable):
                    # The request may be at fault, which callers handle; no caller waits for an unreachable indexer.
                    raise error from None
                raise
            if isinstance(error, AnswerWrong):
                self._endpoints.note(used, failed=True)
            return answer

    async def _exchanged(self, url: URL, call: _Call[_T]) -> _T:
        await self._admit()
        if self._endpoints.fallback is None:  # otherwise failures soon cause a failover
            await self._retry_gate.wait()
        try:
            answer = await self._post(url, call)
        except AnswerWrong:
            raise  # counted once another one answers the same correctly
        except EndpointError as error:
            if isinstance(error, RateLimited):
                self._log_limit(error)
            self._endpoints.note(url, failed=not isinstance(error, IndexerRefused) or error.of_indexer)
            raise
        self._endpoints.note(url, failed=False)
        return answer

    def _log_limit(self, error: RateLimited) -> None:
        if times := self._limited.due():
            remedy = "set --photon-rate-limit, or lower --indexer-max-concurrent-batches"
            _log.warning("indexer_rate_limited", error=error.detail, times=times, remedy=remedy)
        if error.retry_after_s is not None:
            self._retry_gate.close_for(error.retry_after_s)

    async def _post(self, base: URL, call: _Call[_T]) -> _T:
        url = under(base, call.method)
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        timeout = aiohttp.ClientTimeout(total=call.limit_s, sock_connect=_CONNECT_S)
        try:
            async with self._session.post(
                url, data=call.body, headers=headers, timeout=timeout, allow_redirects=False
            ) as response:
                _require_ok(base, call.method, response)
                async with ANSWERS.body(
                    response, f"indexer {shown(base)}", partial(AnswerWrong, call.method, "$")
                ) as text:
                    # Pages hold tens of thousands of hashes: the loop continues while they are decoded and checked.
                    read = asyncio.to_thread if len(text) > _LARGE_ANSWER else _directly
                    return await read(_checked, call, text)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise EndpointUnreachable(f"indexer {shown(base)} is unreachable: {connection_fault(error)}") from error


def _checked(call: _Call[_T], text: bytes) -> _T:
    answer = read_answer(call.method, text, call.kind)
    call.check(answer)
    return answer


def _require_ok(url: URL, method: str, response: aiohttp.ClientResponse) -> None:
    if response.status == 200:
        return
    reason = shortened(response.reason or "no reason given")
    answered = f"indexer {shown(url)} answered {method} with {response.status} {reason}"
    if response.status == 429:
        wait_s = read_retry_after(response.headers.get("Retry-After"))
        raise RateLimited(answered, retry_after_s=wait_s)
    if response.status >= 500 or response.status == 408:
        raise EndpointUnreachable(answered)
    raise IndexerRefused(method, response.status, reason)


async def _directly(function: Callable[..., _T], *arguments: Any) -> _T:
    return function(*arguments)
