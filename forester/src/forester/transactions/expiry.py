"""Expired transactions: a second node confirms them, if there is one, and pauses follow them.

Only a node reports that a transaction expired and did not land. If there is a second node, the answer of one ends no
transaction. While all transactions expire, new ones are signed one at a time, with pauses that double: a single node
that reports all as expired causes a few new ones, not hundreds. One that lands ends the pauses.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from solders.hash import Hash
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from forester.chain.rpc_client import RpcClient
from forester.errors import EndpointError
from shared.process.logs import get_logger
from shared.process.retries import Backoff, jittered

_log = get_logger(__name__)

PAUSES = Backoff(2.0, 30.0)
ANSWER_S = 3.0
AGAIN_S = 10.0
"""Pause after a second node that did not confirm: it may be away, and other transactions wait."""


@dataclass(frozen=True)
class ExpiredTransaction:
    """A transaction that one node reports as expired; ``data`` is empty if only its signature is known."""

    signature: Signature
    last_valid_block_height: int
    data: bytes


class ExpiryConfirmation:
    """Confirmation by the second node, if there is one. ``clock`` returns seconds."""

    def __init__(self, rpc: RpcClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rpc = rpc
        self._clock = clock
        self._not_before = 0.0

    async def confirmed(self, expired: Sequence[ExpiredTransaction]) -> frozenset[Signature]:
        """Return those without a status that have also expired by the second node; all if there is none.

        A second node that does not answer confirms nothing.
        """
        second = self._rpc.second_source
        if second is None or not expired:
            return frozenset(item.signature for item in expired)
        if self._clock() < self._not_before:
            return frozenset()
        try:
            async with asyncio.timeout(ANSWER_S):
                found = await _expired_at(second, expired)
        except (EndpointError, TimeoutError) as error:
            reason = error.detail if isinstance(error, EndpointError) else f"{ANSWER_S:g} s passed"
            _log.warning("expiry_not_confirmed", transactions=len(expired), error=reason)
            found = frozenset()
        else:
            if len(found) < len(expired):
                _log.warning("expiry_contradicted", transactions=len(expired) - len(found))
        if len(found) < len(expired):
            self._not_before = self._clock() + AGAIN_S
        return found


async def _expired_at(node: RpcClient, expired: Sequence[ExpiredTransaction]) -> frozenset[Signature]:
    # The height first: without a status after that, an expired transaction has not landed before it.
    height = await node.block_height()
    statuses = await node.signature_statuses([item.signature for item in expired])
    unseen = [item for item, status in zip(expired, statuses.found, strict=True) if status is None]
    old = [item for item in unseen if height.block > item.last_valid_block_height and height.slot <= statuses.slot]
    # The last height of a blockhash came from the first node.
    hashes = {item.signature: _blockhash(item.data) for item in old if item.data}
    valid = {each: await node.is_blockhash_valid(each) for each in set(hashes.values())}
    return frozenset(
        item.signature for item in old if item.signature not in hashes or not valid[hashes[item.signature]]
    )


def _blockhash(data: bytes) -> Hash:
    return VersionedTransaction.from_bytes(data).message.recent_blockhash


class ExpiryPauses:
    """The pauses of one payer; no I/O. ``clock`` returns seconds."""

    def __init__(self, pauses: Backoff = PAUSES, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._pauses = pauses
        self._clock = clock
        self._failures = 0
        self._counted_at = 0.0
        self._next = 0.0

    @property
    def one_at_a_time(self) -> bool:
        """True while all transactions expire."""
        return bool(self._failures)

    @property
    def remaining_s(self) -> float:
        """Seconds until another transaction may be signed."""
        return max(0.0, self._next - self._clock()) if self._failures else 0.0

    def signed(self) -> None:
        """Record a signed transaction: while all expire, the next one is signed a pause later."""
        if self._failures:
            self._next = self._clock() + jittered(self._pauses, self._failures)

    def expired(self, signed_at: float) -> None:
        """Record an expired transaction; those signed before the last pause began count once."""
        if self._failures and signed_at < self._counted_at:
            return
        self._failures += 1
        self._counted_at = self._clock()
        self._next = self._counted_at + jittered(self._pauses, self._failures)

    def landed(self) -> None:
        """Record a landed transaction."""
        self._failures = 0
