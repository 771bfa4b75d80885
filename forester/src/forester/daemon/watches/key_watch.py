"""Periodic check for another process with our key, reported to the log and the health board.

The journal keeps processes of one machine apart; only the chain shows one elsewhere
(forester/docs/reference/behaviour.md, "One key, two processes"). It is reported, never acted upon: an operator who
pauses one of two foresters must not find both of them paused.
"""

import asyncio
import base64
import binascii
import time
from collections.abc import Callable
from typing import Any

from solders.signature import Signature

from forester.chain.rpc_client import RpcClient
from forester.daemon.watches.key_use import KeyUse, works_with
from forester.errors import EndpointError, RequestRefused
from forester.observability.health import HealthBoard, Severity
from forester.observability.metrics import Metrics
from forester.transactions.sender import Sender
from shared.process.logs import get_logger

_log = get_logger(__name__)

EVERY_S = 60.0
LIMIT_S = 20.0
QUIET_S = 600.0
"""After this long without a transaction there is no other process any more."""

LIMIT = 50
"""Signatures of an answer, the newest ones; older ones do not hide a second forester."""

CONDITION = "key"
FETCHES = 4
"""Maximum transactions that are read at once."""

USELESS_CHECKS = 10
"""Consecutive refused or empty answers, while we send, after which the node is treated as one without history."""

_REMEDY = "stop one of the two, or give it a key of its own"
_NO_HISTORY = (-32601, -32011)


class KeyWatch:
    """Task that checks the payer of ``sender``; ``slot`` is the current one when work begins."""

    def __init__(
        self,
        rpc: RpcClient,
        sender: Sender,
        board: HealthBoard,
        metrics: Metrics,
        *,
        slot: int,
        every_s: float = EVERY_S,
        limit_s: float = LIMIT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rpc = rpc
        self._sender = sender
        self._board = board
        self._metrics = metrics
        self._every_s = every_s
        self._limit_s = limit_s
        self._clock = clock
        self._use = KeyUse(slot)
        self._suspects: list[Signature] = []
        self._quiet_since = clock()
        self._useless = 0

    async def run(self) -> None:
        """Check repeatedly, until cancelled or the node has no history; the first time after a while."""
        useful = True
        while useful:
            await asyncio.sleep(self._every_s)
            useful = await self.check()

    async def check(self) -> bool:
        """Check once; return whether to check again. Raises JournalError."""
        try:
            async with asyncio.timeout(self._limit_s):
                found = await self._stranger()
        except RequestRefused as error:
            self._useless = USELESS_CHECKS if error.code in _NO_HISTORY else self._useless + 1
            reason = error.detail
        except (EndpointError, TimeoutError):
            return True  # reported elsewhere, and retried
        else:
            self._report(found)
            reason = "no signature of our transactions is known"
        if self._useless < USELESS_CHECKS:
            return True
        _log.warning("key_watch_failed", reason=reason, effect="another forester with this key would not be noticed")
        return False

    async def _stranger(self) -> Signature | None:
        """Return a transaction that another process sent since the last check; None if there is none."""
        own, use = await self._sender.own_signatures(), self._use
        seen = await self._rpc.signatures_for(self._sender.payer, limit=LIMIT, until=use.until)
        strangers = [item.signature for item in use.strangers(seen, own)]
        self._suspects = [*strangers, *self._suspects][:FETCHES]
        self._useless = self._useless + 1 if own.count and use.until is None else 0
        while self._suspects:
            suspect = self._suspects.pop(0)
            if works_with(self._sender.payer, _bytes_of(await self._rpc.transaction(suspect))):
                self._suspects.clear()
                return suspect
        return None

    def _report(self, found: Signature | None) -> None:
        if found is None:
            # Not at once: an earlier process may have reported it, and it may still hold.
            if self._clock() - self._quiet_since >= QUIET_S:
                self._board.clear(CONDITION)
            return
        self._quiet_since = self._clock()
        self._metrics.key_used_elsewhere.inc()
        _log.warning("key_used_elsewhere", payer=str(self._sender.payer), signature=str(found), remedy=_REMEDY)
        reason = f"another process works with the key {self._sender.payer}, transaction {found}: {_REMEDY}"
        self._board.report(CONDITION, reason, severity=Severity.ERROR, lapses_after_s=QUIET_S)


def _bytes_of(answer: dict[str, Any] | None) -> bytes:
    """Return the transaction in an answer; empty if it is unknown, or in another format than requested."""
    match answer:
        case {"transaction": [str(text), "base64"]}:
            try:
                return base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                return b""
    return b""
