"""Transactions with unknown outcome: their work is not sent in another one while they may still land.

Transactions of this process are kept whole, and repeated rather than signed again. Those of an earlier process are
known from the journal: their outcome is awaited, and they are sent again unchanged while the chain has not seen them.
Otherwise a kill between journal and node would block their tree until the blockhash expires.
One that the journal cannot show any more, because it is damaged, is awaited until it has certainly expired.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from solders.signature import Signature

from forester.chain.rpc_client import RpcClient, SignatureStatuses
from forester.errors import EndpointError, RequestRefused, TransactionRefused
from forester.journal.database import JournalError
from forester.journal.signatures import SentTransaction, SignatureStore
from forester.transactions.block_heights import BlockHeights
from forester.transactions.builder import Built
from forester.transactions.confirm import LANDED
from forester.transactions.expiry import ExpiredTransaction, ExpiryConfirmation
from forester.transactions.own_signatures import OwnSignatures
from shared.process.logs import get_logger

_log = get_logger(__name__)
_POLL_S = 1.0
_BLOCKHASH_BLOCKS = 150
"""Blocks for which a blockhash is valid."""
_FORGOTTEN_AFTER_S = 600.0
"""Seconds. A blockhash is valid for about a minute; block heights come from a node, this does not."""


@dataclass(eq=False)
class Signed:
    """A transaction of this process; ``work`` is the digest of its work, ``since`` the time of its signature.

    ``preamble`` is the number of its instructions before the work. ``was_sent``: it may have reached a node.
    """

    built: Built
    work: bytes
    preamble: int
    last_valid_block_height: int
    fee_lamports: int
    since: float
    was_sent: bool = False


class PendingTransactions:
    """Transactions with unknown outcome, in memory and in the journal, for ``kept_s`` seconds at most."""

    def __init__(
        self,
        rpc: RpcClient,
        store: SignatureStore,
        own: OwnSignatures,
        *,
        kept_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rpc = rpc
        self._store = store
        self._own = own
        self._kept_s = kept_s
        self._clock = clock
        self._began = clock()
        self._signed: dict[bytes, Signed] = {}
        self._inherited: list[SentTransaction] | None = None
        self._heights = BlockHeights()
        self._expiry = ExpiryConfirmation(rpc, clock=clock)
        self._expired_at = 0

    async def add(self, signed: Signed, purpose: str, subject: bytes) -> None:
        """Store a transaction before it is sent; on disk when this returns (JournalError).

        A cancelled call may have stored it, so its work has a transaction from then on; a repetition is stored again.
        """
        now = self._clock()
        known = self._signed.get(signed.work) is signed
        self._signed = {work: old for work, old in self._signed.items() if now - old.since < self._kept_s}
        self._signed[signed.work] = signed
        height, data = signed.last_valid_block_height, signed.built.data
        try:
            await self.inherited()
            await self._expire(height - _BLOCKHASH_BLOCKS)
            await self._store.add(SentTransaction(str(signed.built.signature), purpose, subject, height, data))
        except JournalError:
            if not known:
                self._signed.pop(signed.work, None)
            raise

    async def _expire(self, height: int) -> None:
        """Forget, from time to time, abandoned transactions that cannot land any more, which no caller settles."""
        if abs(height - self._expired_at) < _BLOCKHASH_BLOCKS:  # also a height far below a wrong one
            return
        self._expired_at = height
        # A blockhash is a few blocks old when it is used, and nodes differ by some.
        await self._store.expire(height - _BLOCKHASH_BLOCKS, age_s=_FORGOTTEN_AFTER_S)

    def of_work(self, work: bytes) -> Signed | None:
        """Return the transaction with unknown outcome for some work, None if there is none."""
        signed = self._signed.get(work)
        return signed if signed is not None and self._clock() - signed.since < self._kept_s else None

    async def settle(self, signed: Signed) -> None:
        """Forget a transaction: it has landed, or never will."""
        if self._signed.get(signed.work) is signed:
            del self._signed[signed.work]
        try:
            await self._store.settle(str(signed.built.signature))
        except JournalError as error:
            # It is queried again after a restart, and settled then.
            _log.warning("signature_settle_failed", signature=str(signed.built.signature), error=error.detail)

    async def inherited(self) -> list[SentTransaction]:
        """Return the transactions of an earlier process with unknown outcome."""
        if self._inherited is None:
            await self._store.expire(0, age_s=_FORGOTTEN_AFTER_S)  # those that are too old for any height
            inherited = await self._store.pending()
            for item in inherited:
                with contextlib.suppress(ValueError):
                    self._own.add(Signature.from_string(item.signature))
            if self._inherited is None:
                self._inherited = inherited
                for item in inherited:
                    self._log_if_unreadable(item)
        return self._inherited

    def _log_if_unreadable(self, item: SentTransaction) -> None:
        if not item.is_readable:
            remedy = (
                f"none is needed: the transaction expires, and its work ({item.purpose}) waits {self._kept_s:g} s for "
                "that; check the health of the disk"
            )
            self._store.log_unreadable("signatures", item.signature, remedy)

    async def wait_for_inherited(self, purpose: str, subject: bytes) -> bool:
        """Wait until no transaction of an earlier process for a purpose and subject may land; return if any could."""
        waited = False
        while self._clock() - self._began < self._kept_s:
            waiting = [item for item in await self.inherited() if (item.purpose, item.subject) == (purpose, subject)]
            if not waiting:
                break
            waited = True
            with contextlib.suppress(EndpointError):
                await self._query(waiting)
                if not any(item in waiting for item in await self.inherited()):
                    break
            await asyncio.sleep(_POLL_S)
        return waited

    async def settle_all(self) -> int:
        """Query the outcome of all transactions in the journal; return the number that stay unknown."""
        await self.inherited()
        return await self._query(await self._store.pending())

    async def _statuses(self, signatures: list[Signature]) -> SignatureStatuses:
        """Return statuses from the node's whole history, or from its memory if it keeps none."""
        try:
            return await self._rpc.signature_statuses(signatures, search_history=True)
        except RequestRefused:
            return await self._rpc.signature_statuses(signatures)

    async def _query(self, stored: list[SentTransaction]) -> int:
        """Settle transactions with a known outcome; return the number of the others."""
        sent = [item for item in stored if item.is_readable]
        if not sent:
            return len(stored)
        # The height first: without a status after that, an expired transaction has not landed before it.
        self._heights.add(await self._rpc.block_height())
        signatures = [Signature.from_string(item.signature) for item in sent]
        statuses = await self._statuses(signatures)
        known = await self._expired(sent, signatures, statuses)
        mine = {str(signed.built.signature) for signed in self._signed.values()}
        for item, status in zip(sent, statuses.found, strict=True):
            if item.signature in known or (status is not None and status.confirmation_status in LANDED):
                await self._store.settle(item.signature)
                known.add(item.signature)
            elif status is None and item.signed and item.signature not in mine:
                await self._send_again(item)
        self._inherited = [item for item in self._inherited or [] if item.signature not in known]
        self._signed = {
            work: signed for work, signed in self._signed.items() if str(signed.built.signature) not in known
        }
        return len(stored) - len(known)

    async def _expired(
        self, sent: list[SentTransaction], signatures: list[Signature], statuses: SignatureStatuses
    ) -> set[str]:
        """Return the signatures that have expired without a status, by all nodes."""
        expired = [
            ExpiredTransaction(signature, item.last_valid_block_height, item.signed)
            for item, signature, status in zip(sent, signatures, statuses.found, strict=True)
            if status is None and self._heights.expired(item.last_valid_block_height, statuses.slot)
        ]
        return {str(signature) for signature in await self._expiry.confirmed(expired)}

    async def _send_again(self, item: SentTransaction) -> None:
        """Send a transaction of an earlier process: its signature is the same, so it lands once or not at all."""
        try:
            # Not simulated: a refusal shows its outcome.
            await self._rpc.send_transaction(item.signed, skip_preflight=True)
        except (EndpointError, TransactionRefused) as error:
            _log.warning("rebroadcast_refused", signature=item.signature, error=error.detail)
