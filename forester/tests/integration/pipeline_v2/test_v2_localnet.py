"""The tree processor empties V2 queues on the published programs, which accept every staged and proved batch.

The programs of localnet accept a simulated proof only for its public input: every batch that lands has the roots, the
hash chain and the start index that the program computes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from localnet_pipeline import ADDRESS_TREE, LIMITS, STATE_TREE, Forestry, failures, forestry
from localnet_process import Localnet, running_localnet
from solders.pubkey import Pubkey

from forester.journal.proofs import ProofStore
from forester.scheduling.eligibility_window import ProcessingResult

SEED = {"compress": 25, "spend": 12, "addresses": 22}


@pytest.fixture(scope="module")
def net() -> Iterator[Localnet]:
    with running_localnet() as localnet:
        localnet.call("localnet_seed", SEED)
        yield localnet


async def lift_faults(net: Localnet, faults: dict[str, bool], after_s: float) -> None:
    """Let each fault end after some time."""
    for name in sorted(faults):  # the indexer first, then the prover
        await asyncio.sleep(after_s)
        await asyncio.to_thread(net.call, "localnet_faults", {name: False})


async def kill_while_proving(work: Forestry, tree: Pubkey) -> None:
    """Begin a round and stop everything as soon as a proof is kept."""
    await asyncio.to_thread(work.kit.net.call, "localnet_faults", {"proverDelayMs": 300})
    processor = await work.processor(tree)
    working = asyncio.create_task(processor.work(work.kit.window))
    async with asyncio.timeout(120):
        while not await work.services.proofs.of_tree(bytes(tree)):
            await asyncio.wait([working], timeout=0.01)
    working.cancel()
    await asyncio.wait([working])
    await processor.close(0.0)
    await asyncio.to_thread(work.kit.net.call, "localnet_faults", {"proverDelayMs": 0})


async def test_tree_processor__killed_between_proving_and_sending__drains_all_queues_and_proves_nothing_twice(
    net: Localnet, tmp_path: Path
) -> None:
    proved: Counter[str] = Counter()
    async with forestry(net, tmp_path, proved) as work:
        await work.kit.register()
        before = await work.head(STATE_TREE)
        appends = len(before.append_chains)
        assert appends >= 2, "25 accounts, and those that spending creates"
        assert len(before.input_chains) == 1
        state = await work.processor(STATE_TREE, replace(LIMITS, round_batches=appends))
        await state.prepare(work.kit.window)
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
        landed = sum(done.elements for done in rounds)
        assert landed in (0, 10, 20), "what was proved first may have been sent, too, before the kill"
        assert (await work.head(ADDRESS_TREE)).next_index == 21
        assert proved.total() == appends + 3
        assert (
            work.kit.metrics.registry.get_sample_value("forester_transactions_processed_total", {"epoch": "2"})
            == 10 * (appends + 1) + landed
        )

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
            assert await processor.work(work.kit.window) == ProcessingResult()
            await processor.close(0.0)
        assert await ProofStore(work.kit.journal).counts() == {}, "proofs that the chain has passed are dropped"
    assert set(proved.values()) == {1}, "no proof is computed twice"
