"""The newest blockhash, read once in a few seconds for any number of transactions."""

import asyncio
import time
from collections.abc import Callable

from forester.chain.rpc_client import Blockhash, RpcClient

KEPT_S = 5.0
"""Seconds. A blockhash is valid for about a minute: little of that is lost, and a burst costs one call."""


class Blockhashes:
    """Cache of the newest blockhash for ``KEPT_S`` seconds."""

    def __init__(self, rpc: RpcClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rpc = rpc
        self._clock = clock
        self._read = asyncio.Lock()
        self._kept: Blockhash | None = None
        self._kept_until = 0.0

    async def latest(self) -> Blockhash:
        """Return a recent blockhash with the last block height at which it is valid; raises EndpointError."""
        async with self._read:
            if self._kept is None or self._clock() >= self._kept_until:
                self._kept = await self._rpc.latest_blockhash()
                self._kept_until = self._clock() + KEPT_S
            return self._kept

    def forget(self) -> None:
        """Read another one next time: a transaction with this one was too late."""
        self._kept = None
