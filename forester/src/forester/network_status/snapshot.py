"""The latest view of the whole network, read in the background: no reader waits for a node.

A refresh costs the reads of ``read_network``: three listings of trees by slices of a few hundred bytes, two of
registrations, one call per hundred queues and balances, and a bounded number of whole V1 queues.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from solders.pubkey import Pubkey

from forester.chain.rpc_client import RpcClient
from forester.errors import EndpointTimedOut, ForesterError
from forester.network_status.gauges import set_gauges
from forester.network_status.queue_counts import QueueCounts
from forester.network_status.reader import read_network
from forester.network_status.report import status_object
from forester.network_status.state import NetworkState
from forester.observability.health import HealthBoard, Severity
from forester.observability.metrics import Metrics
from shared.process.logs import get_logger

_log = get_logger(__name__)

CONDITION = "snapshot"
REFRESH_EVERY_S = 30.0
FIRST_WITHIN_S = 40.0
"""A node that never answered is reported earlier than one that answered before."""

V1_QUEUES_PER_REFRESH = 8
"""Some 15 MB as JSON; with more V1 trees their counts are a few refreshes old."""

_REST = 3
"""Minimum pause as a multiple of the last read, so that a slow node is not overloaded. It does not apply after a
failure, whose time was spent waiting between attempts."""

_BEFORE_THE_FIRST = -1.0

Read = Callable[[], Awaitable[NetworkState]]
Listener = Callable[[NetworkState], None]
"""Called with every new state; it must not block."""


@dataclass(frozen=True)
class Snapshot:
    """The network at one moment: when it was read (Unix seconds), and its status as JSON."""

    state: NetworkState
    taken_at: float
    status: bytes


def reading(client: RpcClient, *owners: Pubkey) -> Read:
    """Return the function with which a keeper reads the network, and the balances of ``owners``, at a bounded cost."""
    counts = QueueCounts(V1_QUEUES_PER_REFRESH)
    return lambda: read_network(client, owners=owners, counts=counts)


class SnapshotKeeper:
    """Holder of the last good snapshot; one task runs ``run``, readers use ``latest`` without waiting.

    ``read`` returns a new state within ``timeout_s`` (see ``reading``). Older than ``stale_s``, or missing after
    FIRST_WITHIN_S, the snapshot is a problem for ``board``. ``clock`` returns seconds of a clock that nobody sets.
    """

    def __init__(
        self,
        read: Read,
        metrics: Metrics,
        board: HealthBoard,
        *,
        every_s: float = REFRESH_EVERY_S,
        timeout_s: float = 60.0,
        stale_s: float = 300.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._metrics = metrics
        self._board = board
        self._every_s = every_s
        self._timeout_s = timeout_s
        self._stale_s = stale_s
        self._clock = clock
        self._since = clock()
        self._lock = asyncio.Lock()
        self._listeners: list[Listener] = []
        self.latest: Snapshot | None = None
        """The last good snapshot; None before the first."""

        self.error: str | None = None
        """Reason of the last failure, masked; None after a success."""

        metrics.snapshot_age.set_function(lambda: _BEFORE_THE_FIRST if self.age_s is None else self.age_s)

    @property
    def age_s(self) -> float | None:
        """Seconds since it was read; None before the first."""
        return None if self.latest is None else self._clock() - self._since

    def subscribe(self, listener: Listener) -> None:
        """Call ``listener`` with every new state from now on."""
        self._listeners.append(listener)

    async def refresh(self) -> bool:
        """Read once; return whether it succeeded. A failure keeps the last snapshot and is logged when it is new."""
        async with self._lock:
            try:
                state = await self._state()
                # Thousands of light slots are hashed and written for each tree: not on the event loop.
                status = await asyncio.to_thread(_encoded, state)
            except ForesterError as error:
                self._failed(error.detail)
                return False
            self._since = self._clock()
            self._succeeded(Snapshot(state, time.time(), status))
            return True

    async def run(self) -> None:
        """Refresh repeatedly, until cancelled."""
        while True:
            began = time.monotonic()
            read = await self.refresh()
            rest_s = _REST * (time.monotonic() - began) if read else 0.0
            await asyncio.sleep(max(self._every_s, rest_s))

    async def _state(self) -> NetworkState:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._read()
        except TimeoutError:
            raise EndpointTimedOut(f"the network could not be read within {self._timeout_s:g} s") from None

    def _succeeded(self, snapshot: Snapshot) -> None:
        if self.error is not None:
            _log.info("snapshot_recovered")
        self.latest, self.error = snapshot, None
        self._board.clear(CONDITION)
        set_gauges(self._metrics, snapshot.state)
        for listener in self._listeners:
            listener(snapshot.state)

    def _failed(self, error: str) -> None:
        if self.error is None:
            _log.warning("snapshot_failed", error=error)
        self.error = error
        age_s = self._clock() - self._since
        if age_s >= (FIRST_WITHIN_S if self.latest is None else self._stale_s):
            reason = f"the network could not be read for {age_s:.0f} s: {error}"
            self._board.report(CONDITION, reason, severity=Severity.ERROR)


def _encoded(state: NetworkState) -> bytes:
    return json.dumps(status_object(state), separators=(",", ":")).encode()
