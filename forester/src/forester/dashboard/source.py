"""Sources of the page and of ``/activity``: kept up to date in the background, read without waiting."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from forester.chain.rpc_client import RpcClient
from forester.dashboard.activity import ActivityDocument
from forester.dashboard.explorer import Explorer
from forester.dashboard.view import ForesterView, Inputs
from forester.errors import EndpointError
from forester.network_status.flows import QueueFlow, QueueFlows
from forester.network_status.pace import SlotPace
from forester.network_status.snapshot import SnapshotKeeper
from forester.network_status.state import NetworkState
from forester.observability.health import HealthBoard
from forester.observability.probes import Probes
from shared.process.logs import get_logger

_log = get_logger(__name__)
_AGAIN_S = 30.0
_KNOWN_S = 3600.0

Foresters = Callable[[], Sequence[ForesterView]]


class DashboardSource:
    """The sources of one process. ``activity`` returns its own document; None if it is no forester.

    ``others`` returns the foresters that it merges; None if it shows itself. ``clock`` returns Unix seconds.
    """

    def __init__(
        self,
        snapshots: SnapshotKeeper,
        board: HealthBoard,
        probes: Probes,
        *,
        rpc_url: str,
        compressible: Callable[[], Mapping[str, Any]],
        activity: Callable[[], ActivityDocument] | None = None,
        others: Foresters | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._snapshots = snapshots
        self._board = board
        self._probes = probes
        self._rpc_url = rpc_url
        self._compressible = compressible
        self._others = others
        self._clock = clock
        self._flows = QueueFlows()
        self._latest_flows: dict[str, QueueFlow] = {}
        self._pace = SlotPace(clock=clock)
        self._explorer = Explorer.of(None, rpc_url)
        self.activity = activity
        snapshots.subscribe(self._observe)

    def inputs(self) -> Inputs:
        """Return what a view of this moment is made from."""
        merges = self._others is not None
        own = [ForesterView("", self.activity())] if self.activity is not None else []
        return Inputs(
            now=self._clock(),
            snapshot=self._snapshots.latest,
            snapshot_error=self._snapshots.error,
            flows=self._latest_flows,
            pace=self._pace.frozen(),
            foresters=[*own, *(self._others() if self._others is not None else ())],
            compressible=self._compressible(),
            explorer=self._explorer,
            merges=merges,
            own_problems=() if own else self._board.problems,
            starting=self._probes.missing,
        )

    async def identify(self, client: RpcClient) -> None:
        """Read which network it is, forever: until a node answers, then once in a while."""
        while True:
            pause_s = _KNOWN_S
            try:
                self._explorer = Explorer.of(await client.genesis_hash(), self._rpc_url)
            except EndpointError as error:
                _log.debug("genesis_unknown", error=error.detail)
                pause_s = _AGAIN_S
            await asyncio.sleep(pause_s)

    def _observe(self, state: NetworkState) -> None:
        self._pace.observe(state)
        self._flows.observe(state)
        found = {str(item.tree.address): self._flows.of(str(item.tree.address)) for item in state.trees}
        self._latest_flows = {tree: flow for tree, flow in found.items() if flow is not None}
