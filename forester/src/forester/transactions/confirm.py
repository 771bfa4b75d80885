"""Sends transactions and returns their outcomes: one poller for all signatures, rebroadcast until they land.

A transaction is signed, so it may be sent any number of times. It counts as landed when it is confirmed, as lost when
its blockhash has expired and no status exists, by both nodes if there are two. Past a deadline its outcome is unknown:
it may still land.
"""

import asyncio
import contextlib
import enum
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from solders.signature import Signature

from forester.chain.program_errors import transaction_refused
from forester.chain.rpc_client import RpcClient, SignatureStatus
from forester.chain.rpc_transport import may_have_arrived
from forester.errors import AlreadyProcessed, EndpointError, ForesterError, TransactionRefused
from forester.transactions.block_heights import BlockHeights
from forester.transactions.builder import Built
from forester.transactions.expiry import ExpiredTransaction, ExpiryConfirmation
from shared.process.logs import get_logger

_log = get_logger(__name__)
LANDED = ("confirmed", "finalized")


class Fate(enum.Enum):
    """Fate of a transaction; the values are reasons in the metrics."""

    CONFIRMED = "confirmed"
    REFUSED = "execution_failed"
    EXPIRED = "confirmation_timeout"
    DEADLINE_PASSED = "deadline_exceeded"


@dataclass(frozen=True)
class Outcome:
    """Outcome of a transaction: its fate, the slot it landed in, the error it failed with.

    ``position`` is the position of the refused instruction in the sent work, if that is known. ``signed`` is false if
    the call signed nothing and no earlier transaction of this process for the work may land.
    """

    fate: Fate
    slot: int | None = None
    error: TransactionRefused | None = None
    position: int | None = None
    signed: bool = True


@dataclass(frozen=True)
class ConfirmationTimes:
    """Seconds between reads of all statuses, between broadcasts of one transaction, and for a call with its retries.

    ``logs_s`` is for the logs of a refused transaction, which name the program; without them it is refused as well.
    """

    poll_s: float = 0.5
    rebroadcast_s: float = 2.0
    call_s: float = 5.0
    logs_s: float = 2.0


@dataclass(eq=False)
class _Pending:
    built: Built
    last_valid_block_height: int
    deadline: float
    outcome: asyncio.Future[Outcome] = field(repr=False)
    sent_at: float = -math.inf
    """Beginning of the last broadcast."""
    broadcasts: int = 0
    broadcasting: asyncio.Task[None] | None = None
    """A later broadcast under way."""


class Confirmations:
    """Transactions in flight, used as an asynchronous context.

    ``longest_s`` bounds the time for one of them, whatever its sender allows.
    """

    def __init__(
        self,
        rpc: RpcClient,
        *,
        longest_s: float = math.inf,
        pace: ConfirmationTimes | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rpc = rpc
        self._longest_s = longest_s
        self._pace = pace or ConfirmationTimes()
        self._clock = clock
        self._pending: dict[Signature, _Pending] = {}
        self._heights = BlockHeights()
        self._expiry = ExpiryConfirmation(rpc, clock=clock)
        self._work = asyncio.Event()
        self._poller: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._poller = asyncio.create_task(self._poll(), name="confirmations")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._poller is not None:
            self._poller.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._poller

    async def send(
        self, built: Built, last_valid_block_height: int, *, within_s: float, repeated: bool = False
    ) -> Outcome:
        """Send a transaction and return its outcome, after ``within_s`` seconds and a last read at most.

        Raises the EndpointError or TransactionRefused of the first broadcast unless that may have arrived, or another
        broadcast may land: of a ``repeated`` transaction, or a later one before that answer. Refusals of later ones are
        only logged. A cancelled call abandons the transaction, which may still land.
        """
        within_s = min(within_s, self._longest_s)
        pending = _Pending(
            *(built, last_valid_block_height, self._clock() + within_s),
            outcome=asyncio.get_running_loop().create_future(),
        )
        self._pending[built.signature] = pending
        self._work.set()
        try:
            try:
                await self._broadcast(pending, min(self._pace.call_s, within_s))
            except (EndpointError, TransactionRefused) as error:
                # A node may forward a transaction, then refuse it; another broadcast may have overtaken this one.
                if not repeated and pending.broadcasts == 1 and not pending.outcome.done():
                    raise
                _log.warning("rebroadcast_refused", signature=str(built.signature), error=error.detail)
            return await pending.outcome
        finally:
            self._pending.pop(built.signature, None)
            if pending.broadcasting is not None:
                pending.broadcasting.cancel()

    async def _broadcast(self, pending: _Pending, within_s: float) -> None:
        pending.sent_at = self._clock()
        pending.broadcasts += 1
        try:
            async with asyncio.timeout(within_s):
                await self._rpc.send_transaction(pending.built.data, skip_preflight=True)
        except AlreadyProcessed:
            # Some nodes always simulate; the status of the transaction shows its outcome.
            _log.debug("broadcast_redundant", signature=str(pending.built.signature))
        except TimeoutError:
            _log.warning("broadcast_failed", signature=str(pending.built.signature), error=f"{within_s:g} s passed")
        except EndpointError as error:
            if not may_have_arrived(error):
                raise
            _log.warning("broadcast_failed", signature=str(pending.built.signature), error=error.detail)

    async def _poll(self) -> None:
        try:
            while True:
                await self._work.wait()
                if not self._pending:
                    self._work.clear()
                    continue
                await asyncio.sleep(self._pace.poll_s)
                try:
                    await self._check_all()
                except Exception:  # noqa: BLE001 - callers must not wait forever because of a bug
                    _log.exception("confirmations_failed", transactions=len(self._pending))
        finally:
            for item in self._pending.values():
                if not item.outcome.done():
                    item.outcome.cancel()

    async def _check_all(self) -> None:
        waiting = list(self._pending.values())
        try:
            unseen = await self._without_status(waiting)
        finally:
            now = self._clock()
            for item in waiting:
                if now >= item.deadline:
                    _settle(item, Outcome(Fate.DEADLINE_PASSED))
        self._rebroadcast([item for item in unseen if not item.outcome.done()])

    async def _without_status(self, waiting: list[_Pending]) -> list[_Pending]:
        """Read all statuses at once and settle those found; return the rest, or nothing if no node answers."""
        refused: list[tuple[_Pending, SignatureStatus]] = []
        try:
            async with asyncio.timeout(self._pace.call_s):
                # The height first: without a status after that, an expired transaction has not landed before it.
                self._heights.add(await self._rpc.block_height())
                statuses = await self._rpc.signature_statuses([item.built.signature for item in waiting])
                unseen, expired = [], []
                for item, status in zip(waiting, statuses.found, strict=True):
                    if status is not None and status.confirmation_status in LANDED:
                        if status.err is None:
                            _settle(item, Outcome(Fate.CONFIRMED, status.slot))
                        else:
                            refused.append((item, status))
                    elif status is None and self._heights.expired(item.last_valid_block_height, statuses.slot):
                        expired.append(item)
                    elif status is None:
                        unseen.append(item)
            await asyncio.gather(*(self._refused(item, status) for item, status in refused))
            return unseen + await self._not_expired(expired)
        except (TimeoutError, EndpointError) as error:
            reason = error.detail if isinstance(error, EndpointError) else f"{self._pace.call_s:g} s passed"
            _log.warning("statuses_unknown", transactions=len(waiting), error=reason)
            return []

    async def _not_expired(self, expired: list[_Pending]) -> list[_Pending]:
        """Settle transactions that have expired by all nodes; return the rest."""
        transactions = [
            ExpiredTransaction(item.built.signature, item.last_valid_block_height, item.built.data) for item in expired
        ]
        confirmed = await self._expiry.confirmed(transactions)
        for item in expired:
            if item.built.signature in confirmed:
                _settle(item, Outcome(Fate.EXPIRED))
        return [item for item in expired if item.built.signature not in confirmed]

    def _rebroadcast(self, unseen: list[_Pending]) -> None:
        """Broadcast transactions that are due again; nothing waits for it, because a node may not answer."""
        due = self._clock() - self._pace.rebroadcast_s
        for item in unseen:
            if item.sent_at <= due and (item.broadcasting is None or item.broadcasting.done()):
                item.broadcasting = asyncio.create_task(self._broadcast_again(item))

    async def _broadcast_again(self, item: _Pending) -> None:
        try:
            await self._broadcast(item, self._pace.call_s)
        except ForesterError as error:
            # Also after a simulation: an earlier broadcast may still land.
            _log.warning("rebroadcast_refused", signature=str(item.built.signature), error=error.detail)
        except Exception:  # noqa: BLE001 - the next broadcast follows
            _log.exception("confirmations_failed", transactions=1)

    async def _refused(self, item: _Pending, status: SignatureStatus) -> None:
        found: dict[str, Any] | None = None
        with contextlib.suppress(EndpointError, TimeoutError):
            async with asyncio.timeout(self._pace.logs_s):
                found = await self._rpc.transaction(item.built.signature)
        _settle(item, Outcome(Fate.REFUSED, status.slot, transaction_refused(status.err, _logs(found))))


def _logs(found: dict[str, Any] | None) -> list[str]:
    match found:
        case {"meta": {"logMessages": [*lines]}}:
            return [line for line in lines if isinstance(line, str)]
    return []


def _settle(item: _Pending, outcome: Outcome) -> None:
    if not item.outcome.done():
        item.outcome.set_result(outcome)
