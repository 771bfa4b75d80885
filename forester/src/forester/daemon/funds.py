"""Balance of the payer; without money all work stops until the payer is topped up."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from solders.pubkey import Pubkey

from forester.chain.rpc_client import RpcClient
from forester.errors import EndpointError
from forester.observability.metrics import Metrics
from forester.units import LAMPORTS_PER_SOL, sol
from forester.waiting import occurs_within
from shared.process.logs import get_logger

_log = get_logger(__name__)

BALANCE_S = 300.0
BALANCE_WHILE_SHORT_S = 10.0

TRY_AGAIN_LAMPORTS = LAMPORTS_PER_SOL // 100
"""With this balance, work is retried after a while even without a top-up: a node may have been wrong."""
_TRY_AGAIN_S = 60.0


class Spender(Protocol):
    """A sender that notices a lack of money."""

    @property
    def short_of_funds(self) -> bool:
        """Return whether the payer could not pay; nothing is sent until ``funds_restored``."""

    def funds_restored(self) -> None:
        """Send again."""


class Funds:
    """Task that follows the payer's balance; ``changed`` is called when processing stops and when it resumes."""

    def __init__(
        self,
        rpc: RpcClient,
        payer: Pubkey,
        spender: Spender,
        metrics: Metrics,
        changed: Callable[[], None],
        *,
        balance_s: float = BALANCE_S,
        while_short_s: float = BALANCE_WHILE_SHORT_S,
    ) -> None:
        self._rpc = rpc
        self._payer = payer
        self._spender = spender
        self._metrics = metrics
        self._changed = changed
        self._balance_s = balance_s
        self._while_short_s = while_short_s
        self._noticed = asyncio.Event()
        self._at_stop: int | None = None
        self._stopped_at = 0.0
        self.lamports: int | None = None
        self.available = True

    def notice(self) -> None:
        """Stop all work if the last transaction failed for lack of money."""
        if self._spender.short_of_funds and self.available:
            self.available = False
            self._at_stop = None
            self._stopped_at = asyncio.get_running_loop().time()
            _log.error(
                "insufficient_funds", payer=str(self._payer), detail="processing stops until the payer is topped up"
            )
            self._noticed.set()
            self._changed()

    async def run(self) -> None:
        """Read the balance repeatedly, forever."""
        while True:
            self._noticed.clear()
            try:
                self._record(await self._rpc.balance(self._payer))
            except EndpointError as error:
                _log.warning("balance_unknown", error=error.detail)
            self.notice()
            await occurs_within(self._noticed, self._balance_s if self.available else self._while_short_s)

    def _record(self, lamports: int) -> None:
        self.lamports = lamports
        self._metrics.balance.labels(str(self._payer)).set(sol(lamports))
        if self.available:
            return
        if self._at_stop is None:
            self._at_stop = lamports
        rested_s = asyncio.get_running_loop().time() - self._stopped_at
        if lamports > self._at_stop or (lamports >= TRY_AGAIN_LAMPORTS and rested_s >= _TRY_AGAIN_S):
            _log.info("funds_restored", payer=str(self._payer), sol=sol(lamports))
            self._spender.funds_restored()
            self.available = True
            self._changed()
