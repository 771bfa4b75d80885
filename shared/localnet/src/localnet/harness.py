"""Methods of ``localnet up`` that need more than the chain: traffic, and faults of what surrounds it."""

from dataclasses import dataclass
from typing import Any

from localnet.chain.network import Network
from localnet.indexer.faults import Faults as IndexerFaults
from localnet.rpc.dispatch import Method
from localnet.rpc.errors import RpcError, invalid
from localnet.rpc.params import Params
from localnet.simulated_prover import ProverFaults
from localnet.traffic import KINDS, Traffic, TrafficImpossible, TrafficStopped

TRAFFIC_STOPPED = -32001
MAX_COUNT = 100_000


@dataclass(frozen=True)
class Harness:
    """What the methods act on. ``prover`` is None when the prover is not ours."""

    network: Network
    traffic: Traffic
    indexer: IndexerFaults
    prover: ProverFaults | None

    def methods(self) -> dict[str, Method]:
        """The methods by name."""
        return {"localnet_seed": self.seed, "localnet_faults": self.faults}

    async def seed(self, _network: Network, params: Params) -> dict[str, int]:
        """Make traffic: an object of counts by kind. Returns what was made; an error tells what was made before."""
        wanted = params.config(0)
        unknown = set(wanted.members) - set(KINDS)
        if unknown:
            raise invalid(f"Invalid params: unknown traffic {', '.join(sorted(unknown))}; known: {', '.join(KINDS)}.")
        made: dict[str, int] = {}
        for kind in KINDS:
            count = wanted.number(kind) or 0
            if count > MAX_COUNT:
                raise invalid(f"Invalid params: {kind} may be {MAX_COUNT} at most.")
            try:
                made[kind] = await self.traffic.run(kind, count)
            except TrafficImpossible as error:
                raise invalid(f"Invalid params: {error}.") from error
            except TrafficStopped as error:
                made[kind] = error.done
                raise RpcError(TRAFFIC_STOPPED, f"{kind} stopped {error}", {"made": made, "err": error.err}) from error
        return made

    def faults(self, _network: Network, params: Params) -> dict[str, Any]:
        """Change the faults that are named; returns all of them."""
        wanted = params.config(0)
        unknown = set(wanted.members) - {"indexerLag", "indexerTooManyRequests", "dropEvery", "proverDown"}
        if unknown:
            raise invalid(f"Invalid params: unknown fault {', '.join(sorted(unknown))}.")
        lag, drop_every = wanted.number("indexerLag"), wanted.number("dropEvery")
        if "proverDown" in wanted.members and self.prover is None:
            raise invalid("Invalid params: the prover is not part of this network; stop it yourself.")
        if lag is not None:
            self.indexer.lag = lag
        if drop_every is not None:
            self.network.drop_every = drop_every
        if "indexerTooManyRequests" in wanted.members:
            self.indexer.too_many_requests = wanted.flag("indexerTooManyRequests")
        if self.prover is not None and "proverDown" in wanted.members:
            self.prover.down = wanted.flag("proverDown")
        return self._state()

    def _state(self) -> dict[str, Any]:
        return {
            "indexerLag": self.indexer.lag,
            "indexerTooManyRequests": self.indexer.too_many_requests,
            "dropEvery": self.network.drop_every,
            "proverDown": self.prover.down if self.prover is not None else None,
        }
