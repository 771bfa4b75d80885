"""Methods of ``localnet up`` that need more than the chain: traffic, and faults of indexer and prover."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from localnet.chain.network import Network
from localnet.indexer.faults import Faults as IndexerFaults
from localnet.json_rpc import RpcError
from localnet.prover.faults import ProverFaults
from localnet.rpc.dispatch import Method
from localnet.rpc.errors import invalid
from localnet.rpc.params import Params
from localnet.users.traffic import KINDS, Traffic, TrafficImpossible, TrafficStopped

TRAFFIC_STOPPED = -32001
MAX_COUNT = 100_000


@dataclass(frozen=True)
class Harness:
    """The methods, with the objects that they change."""

    network: Network
    traffic: Traffic
    indexer: IndexerFaults
    prover: ProverFaults

    def methods(self) -> dict[str, Method]:
        """Return the methods by name."""
        return {"localnet_seed": self.seed, "localnet_faults": self.faults}

    async def seed(self, _network: Network, params: Params) -> dict[str, int]:
        """Send transactions, by an object of counts by kind. Return the counts sent; an error has those before it."""
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
        """Change the named faults; return all of them."""
        wanted = params.config(0)
        unknown = set(wanted.members) - set(self._state())
        if unknown:
            raise invalid(f"Invalid params: unknown fault {', '.join(sorted(unknown))}.")
        numbers = {name: wanted.number(name) for name in ("indexerLag", "dropEvery", "proverDelayMs")}
        flags = {
            name: wanted.flag(name)
            for name in ("indexerTooManyRequests", "proverDown", "proverCut")
            if name in wanted.members
        }
        self._change({name: value for name, value in numbers.items() if value is not None} | flags)
        return self._state()

    def _change(self, faults: Mapping[str, Any]) -> None:
        for name, value in faults.items():
            holder, attribute = self._places()[name]
            setattr(holder, attribute, value)

    def _places(self) -> dict[str, tuple[object, str]]:
        """Return the object and attribute that hold each fault, by the fault's name on the wire."""
        return {
            "indexerLag": (self.indexer, "lag"),
            "indexerTooManyRequests": (self.indexer, "too_many_requests"),
            "dropEvery": (self.network, "drop_every"),
            "proverDown": (self.prover, "down"),
            "proverCut": (self.prover, "cut"),
            "proverDelayMs": (self.prover, "delay_ms"),
        }

    def _state(self) -> dict[str, Any]:
        return {name: getattr(holder, attribute) for name, (holder, attribute) in self._places().items()}
