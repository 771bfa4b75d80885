"""The network that proof requests name, so that a prover for several networks keeps their jobs apart."""

from collections.abc import Awaitable, Callable

from forester.chain.clusters import CLUSTERS, DEVNET, MAINNET
from forester.settings.model import ProverNetwork

_NETWORKS: dict[str, ProverNetwork] = {MAINNET: "mainnet", DEVNET: "devnet"}
"""Networks of provers by cluster; requests for other clusters name none."""


class NetworkOfCluster:
    """The network of the chosen setting, else that of the node's cluster, which is read once."""

    def __init__(self, chosen: ProverNetwork | None, genesis_hash: Callable[[], Awaitable[str]]) -> None:
        self._known = chosen
        self._genesis_hash = genesis_hash

    async def __call__(self) -> str | None:
        """Return the network, None without one. Raises the EndpointError of a node that does not answer."""
        if self._known is None:
            self._known = _NETWORKS.get(CLUSTERS.get(await self._genesis_hash(), ""), "none")
        return None if self._known == "none" else self._known
