"""V2 queues drained by the processor against the published programs: what is staged and proved is what they accept.

Localnet's prover gives proofs that its programs take for the right public input only: every batch that lands had the
roots, the hash chain and the start index that the program computed by itself.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import aiohttp
import pytest
from localnet_forester import Kit, forester_on
from localnet_process import Localnet, running_localnet
from solders.pubkey import Pubkey

from forester.epoch.turn import Round
from forester.journal.proofs import ProofStore
from forester.journal.signatures import SignatureStore
from forester.pipeline_v2.head_reader import HeadReader
from forester.pipeline_v2.processor import V2Processor
from forester.pipeline_v2.proof_requests import ProofPermits
from forester.pipeline_v2.services import V2Limits, V2Services
from forester.pipeline_v2.tree_head import TreeHead
from forester.prover_client.client import FinishedProof, ProverClient, ProverTimes
from forester.prover_client.endpoints import ProverEndpoints
from shared.proof_wire import BatchRequest

STATE_TREE = Pubkey.from_string("bmt1LryLZUMmF7ZtqESaw7wifBXLfXHQYoE4GAmrahU")
ADDRESS_TREE = Pubkey.from_string("amt2kaJA14v3urZbZvnc5v2np8jqvc4Z8zDep5wbtzx")
SEED = {"compress": 25, "spend": 12, "addresses": 22}
LIMITS = V2Limits(gather_s=60.0)
_T = TypeVar("_T")


@pytest.fixture(scope="module")
def net() -> Iterator[Localnet]:
    with running_localnet() as localnet:
        localnet.call("localnet_seed", SEED)
        yield localnet


@dataclass
class CountingProver:
    """Localnet's prover; remembers for which requests it has given proofs."""

    client: ProverClient
    proved: Counter[str] = field(default_factory=Counter)

    async def prove(self, request: BatchRequest, **members: Any) -> FinishedProof:
        finished = await self.client.prove(request, **members)
        self.proved[request.public_input_hash] += 1
        return finished


@dataclass
class Forestry:
    """A forester and the processors of its trees."""

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

    async def drain(self, processor: V2Processor) -> list[Round]:
        """Work until nothing is left."""
        rounds: list[Round] = []
        async with asyncio.timeout(300):
            while not rounds or rounds[-1].more:
                rounds.append(await self.landing(processor.work(self.kit.turn)))
                if rounds[-1].failure is not None:
                    await asyncio.sleep(0.1)
        return rounds


@asynccontextmanager
async def forestry(net: Localnet, folder: Path, proved: Counter[str]) -> AsyncIterator[Forestry]:
    """A forester on the journal in ``folder``; entered again it is one that was restarted."""
    async with forester_on(net, folder) as kit, aiohttp.ClientSession() as session:
        endpoints = ProverEndpoints(net.environment["PROVER_URL"])
        client = ProverClient(session, endpoints, times=ProverTimes(polling_interval_s=0.05))
        yield Forestry(
            kit,
            V2Services(
                rpc=kit.rpc,
                indexer=kit.indexer,
                prover=cast("ProverClient", CountingProver(client, proved)),
                sender=kit.sender,
                proofs=ProofStore(kit.journal),
                permits=ProofPermits(4),
                metrics=kit.metrics,
                derivation=kit.pubkey,
            ),
        )


async def lift_faults(net: Localnet, faults: dict[str, bool], after_s: float) -> None:
    """Let each fault end after some time."""
    for name in sorted(faults):  # the indexer first, then the prover
        await asyncio.sleep(after_s)
        await asyncio.to_thread(net.call, "localnet_faults", {name: False})


def failures(rounds: list[Round]) -> list[str]:
    return [done.failure.detail for done in rounds if done.failure is not None]


async def kill_while_proving(work: Forestry, tree: Pubkey) -> None:
    """Begin a round and stop everything as soon as a proof is kept."""
    await asyncio.to_thread(work.kit.net.call, "localnet_faults", {"proverDelayMs": 300})
    processor = await work.processor(tree)
    working = asyncio.create_task(processor.work(work.kit.turn))
    async with asyncio.timeout(120):
        while not await work.services.proofs.of_tree(bytes(tree)):
            await asyncio.wait([working], timeout=0.01)
    working.cancel()
    await asyncio.wait([working])
    await processor.close(0.0)
    await asyncio.to_thread(work.kit.net.call, "localnet_faults", {"proverDelayMs": 0})


async def test_processor__killed_between_proving_and_sending__drains_all_queues_and_proves_nothing_twice(
    net: Localnet, tmp_path: Path
) -> None:
    proved: Counter[str] = Counter()
    async with forestry(net, tmp_path, proved) as work:
        await work.kit.register()
        before = await work.head(STATE_TREE)
        appends = len(before.append_chains)
        assert appends >= 2, "25 accounts and what spending makes"
        assert len(before.input_chains) == 1
        state = await work.processor(STATE_TREE, replace(LIMITS, round_batches=appends))
        await state.prepare(work.kit.turn)
        assert proved.total() == appends
        assert await work.head(STATE_TREE) == before, "nothing is sent before the window"
        await state.close(0.0)

    async with forestry(net, tmp_path, proved) as work:
        state = await work.processor(STATE_TREE)
        rounds = await work.drain(state)
        assert failures(rounds) == []
        assert sum(done.elements for done in rounds) == 10 * (appends + 1)
        done = await work.head(STATE_TREE)
        assert (done.append_chains, done.input_chains) == ((), ())
        assert (done.next_index, done.nullifier_next_index) == (10 * appends, 10)
        assert done.sequence == before.sequence + appends + 1

        await kill_while_proving(work, ADDRESS_TREE)
        address = await work.processor(ADDRESS_TREE)
        rounds = await work.drain(address)
        assert failures(rounds) == []
        assert sum(done.elements for done in rounds) == 20
        assert (await work.head(ADDRESS_TREE)).next_index == 21
        assert proved.total() == appends + 3
        assert work.kit.metrics.registry.get_sample_value(
            "forester_transactions_processed_total", {"epoch": "2"}
        ) == 10 * (appends + 3)

        # More traffic: accounts that are spent while they wait, in trees that have been moved; faults on the way.
        await asyncio.to_thread(net.call, "localnet_seed", SEED)
        with_faults = {"proverDown": True, "indexerTooManyRequests": True}
        await asyncio.to_thread(net.call, "localnet_faults", with_faults)
        async with asyncio.TaskGroup() as both:
            draining = both.create_task(work.drain(state))
            both.create_task(lift_faults(net, with_faults, 0.3))
        assert sum(done.elements for done in draining.result()) >= 30
        await work.drain(address)
        for tree, processor in ((STATE_TREE, state), (ADDRESS_TREE, address)):
            left = await work.head(tree)
            assert (left.append_chains, left.input_chains) == ((), ())
            assert await processor.work(work.kit.turn) == Round()
            await processor.close(0.0)
        assert await ProofStore(work.kit.journal).counts() == {}, "what the chain has left behind is forgotten"
    assert set(proved.values()) == {1}, "no proof is computed twice"
