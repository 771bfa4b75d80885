"""The price of compute units: none, fixed, or as the node recommends for the accounts of a transaction.

Source: forester/docs/reference/behaviour.md, "Fees and compute units". An estimate that fails never stops a
transaction: the default is paid.
"""

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial

from solders.pubkey import Pubkey

from forester.chain.rpc_client import RpcClient
from forester.errors import EndpointError
from forester.settings import Settings
from forester.waiting import RetryPause
from shared.process.logs import get_logger
from shared.process.rate_limits import LogThrottle
from shared.process.retries import Backoff, jittered

_log = get_logger(__name__)

DEFAULT_MICROLAMPORTS = 10_000
KEPT_S = 10.0
_ESTIMATE_S = 2.0
_AFTER_SILENCE = Backoff(2.0, 60.0)
"""Seconds without estimates after some that did not come within _ESTIMATE_S: they would delay every transaction."""

_KEPT_ESTIMATES = 64
_CAPPED_TOLD_S = 60.0


class PriorityFee:
    """Price of compute units by the settings; estimates are cached for a few seconds."""

    def __init__(self, settings: Settings, rpc: RpcClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._dynamic = settings.enable_priority_fees
        self._fixed = settings.priority_fee_microlamports
        self._maximum = settings.priority_fee_max_microlamports
        self._rpc = rpc
        self._clock = clock
        self._capped = LogThrottle(_CAPPED_TOLD_S, clock=clock)
        self._silence = RetryPause(partial(jittered, _AFTER_SILENCE), clock)
        self._kept: OrderedDict[tuple[Pubkey, ...], tuple[float, int]] = OrderedDict()

    async def price(self, accounts: Sequence[Pubkey]) -> int | None:
        """Return microlamports per compute unit for a transaction that writes ``accounts``; None sets no price."""
        if not self._dynamic:
            return self._fixed
        key = tuple(dict.fromkeys(accounts))
        known = self._kept.get(key)
        if known is not None and self._clock() - known[0] < KEPT_S:
            return known[1]
        price = await self._estimate(key)
        self._kept[key] = (self._clock(), price)
        self._kept.move_to_end(key)
        while len(self._kept) > _KEPT_ESTIMATES:
            self._kept.popitem(last=False)
        return price

    async def _estimate(self, accounts: tuple[Pubkey, ...]) -> int:
        estimate = None
        if self._silence.is_over:
            try:
                async with asyncio.timeout(_ESTIMATE_S):
                    estimate = await self._rpc.priority_fee_estimate(accounts)
                self._silence.failures = 0  # a pause that another estimate began continues
            except EndpointError as error:
                _log.warning("priority_fee_defaulted", error=error.detail, microlamports=DEFAULT_MICROLAMPORTS)
            except TimeoutError:
                pause_s = self._silence.failed()
                reason = f"no estimate within {_ESTIMATE_S:g} s; the next one is requested after {pause_s:.1f} s"
                _log.warning("priority_fee_defaulted", error=reason, microlamports=DEFAULT_MICROLAMPORTS)
        price = usable_price(estimate, self._maximum)
        if estimate is not None and price < estimate and (times := self._capped.due()):
            _log.warning("priority_fee_capped", estimate=estimate, microlamports=price, times=times)
        return price


def usable_price(estimate: float | None, maximum: int) -> int:
    """Return an estimate as a whole price up to ``maximum``, or the default for a missing or invalid one."""
    if estimate is None or not math.isfinite(estimate) or estimate < 0:
        return min(DEFAULT_MICROLAMPORTS, maximum)
    return min(math.ceil(estimate), maximum)
