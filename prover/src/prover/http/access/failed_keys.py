"""Delay of refusals for addresses that send many wrong API keys."""

import asyncio
from collections import OrderedDict

from shared.process.rate_limits import TokenBucket

_ADDRESSES = 4096
_BURST = 10
_FAILURES_PER_S = 1
_DELAY_S = 1.0
_MAXIMUM_DELAYED = 256
"""Maximum refusals delayed at once; each may hold the part of a body that has arrived already."""


class FailedKeys:
    """Delays of refusals by network, for the last 4096 networks. Valid keys are never delayed."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()
        self._delayed = 0

    async def delay(self, network: str) -> None:
        """Count a wrong key of a network, and wait a second when it has sent many."""
        bucket = self._buckets.pop(network, None) or TokenBucket(_FAILURES_PER_S, _BURST)
        self._buckets[network] = bucket
        if len(self._buckets) > _ADDRESSES:
            self._buckets.popitem(last=False)
        if not bucket.take() or self._delayed >= _MAXIMUM_DELAYED:
            return
        self._delayed += 1
        try:
            await asyncio.sleep(_DELAY_S)
        finally:
            self._delayed -= 1
