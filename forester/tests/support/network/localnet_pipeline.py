"""The V2 tree processors of a forester on a separate network, with any prover."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

import aiohttp
from localnet_forester import Kit, forester_on
from localnet_process import Localnet
from solders.pubkey import Pubkey

from forester.journal.proofs import ProofStore
from forester.journal.signatures import SignatureStore
from forester.pipeline_v2.processor import V2Processor
from forester.pipeline_v2.services import V2Limits, V2Services, proof_permits
from forester.pipeline_v2.staging.head_reader import HeadReader
from forester.pipeline_v2.staging.tree_head import TreeHead
from forester.prover_client.client import FinishedProof, ProverClient, ProverTimes
from forester.prover_client.endpoints import ProverEndpoints
from forester.scheduling.eligibility_window import ProcessingResult
from shared.requests.circuit_id import CircuitKind
from shared.requests.proof_wire import BatchRequest

STATE_TREE = Pubkey.from_string("bmt1LryLZUMmF7ZtqESaw7wifBXLfXHQYoE4GAmrahU")
ADDRESS_TREE = Pubkey.from_string("amt2kaJA14v3urZbZvnc5v2np8jqvc4Z8zDep5wbtzx")
LIMITS = V2Limits(gather_s=60.0)
_T = TypeVar("_T")


@dataclass
class CountingProver:
    """A prover; remembers for which requests it has given proofs."""

    client: ProverClient
    proved: Counter[str] = field(default_factory=Counter)

    async def prove(self, request: BatchRequest, **members: Any) -> FinishedProof:
        finished = await self.client.prove(request, **members)
        self.proved[request.public_input_hash] += 1
        return finished


@dataclass
class Forestry:
    """A forester and its tree processors."""

    kit: Kit
    services: V2Services

    async def processor(self, tree: Pubkey, limits: V2Limits = LIMITS) -> V2Processor:
        return V2Processor(await self.kit.tree(tree), self.services, limits)

    async def head(self, tree: Pubkey) -> TreeHead:
        return await HeadReader(self.kit.rpc, await self.kit.tree(tree)).head()

    async def landing(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Move the clock of the network while transactions wait for it, and not otherwise."""
        signatures, task = SignatureStore(self.kit.journal), asyncio.create_task(work)
        while not task.done():
            if await signatures.pending():
                await asyncio.to_thread(self.kit.net.call, "localnet_advance", 1)
            await asyncio.wait([task], timeout=0.05)
        return await task

    async def drain(self, processor: V2Processor, within_s: float = 300) -> list[ProcessingResult]:
        """Work until nothing is left."""
        rounds: list[ProcessingResult] = []
        async with asyncio.timeout(within_s):
            while not rounds or rounds[-1].more:
                rounds.append(await self.landing(processor.work(self.kit.window)))
                if rounds[-1].failure is not None:
                    await asyncio.sleep(0.1)
        return rounds


@asynccontextmanager
async def forestry(
    net: Localnet, folder: Path, proved: Counter[str], prover_url: str | None = None
) -> AsyncIterator[Forestry]:
    """A forester on the journal in ``folder``; entered again it is one that was restarted.

    Proofs come from the prover of the network unless another is named; ``proved`` counts them by public input.
    """
    async with forester_on(net, folder) as kit, aiohttp.ClientSession() as session:
        endpoints = ProverEndpoints(dict.fromkeys(CircuitKind, prover_url or net.environment["PROVER_URL"]))
        client = ProverClient(session, endpoints, times=ProverTimes(polling_interval_s=0.05))
        yield Forestry(
            kit,
            V2Services(
                rpc=kit.rpc,
                indexer=kit.indexer,
                prover=cast("ProverClient", CountingProver(client, proved)),
                sender=kit.sender,
                proofs=ProofStore(kit.journal),
                permits=proof_permits(4),
                metrics=kit.metrics,
                derivation=kit.pubkey,
            ),
        )


def failures(rounds: list[ProcessingResult]) -> list[str]:
    return [done.failure.detail for done in rounds if done.failure is not None]
