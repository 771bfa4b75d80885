"""Jobs of several networks on one fleet: what a flood of one may do to another. Redis is real, proofs are not."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from queue_instances import Gate, nodes_on, until
from redis_server import RedisServer

from prover.kernel.cancellation import CancelFlag
from prover.proving.request import ProofTask
from prover.queue.circuit_queues import CircuitQueue, Network
from prover.queue.jobs import JobState

FLOOD = 1000


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("wanted", [Network.MAINNET, None])
async def test_job__behind_a_flood_of_another_network__waits_for_proofs_already_begun_only(
    redis_database: RedisServer, slots: int, wanted: Network | None
) -> None:
    begun: list[str] = []
    lock, one_more = threading.Lock(), threading.Semaphore(0)

    def prove(task: ProofTask, cancel: CancelFlag) -> None:
        with lock:
            begun.append("begun")
        assert one_more.acquire(timeout=60)

    async with nodes_on(redis_database.url) as start:
        node = start(prove, slots=slots, total_slots=slots, job_deadline_s=600.0)
        for first in range(0, FLOOD, 100):
            await asyncio.gather(*(node.submit(number, network=Network.DEVNET) for number in range(first, first + 100)))
        await until(lambda: len(begun) == slots)
        urgent = await node.submit(network=wanted)
        await asyncio.sleep(0.3)  # time in which it could begin, if a slot were free
        assert (await node.status(urgent)).state is JobState.QUEUED
        assert len(begun) == slots
        one_more.release()  # one of the proofs already begun ends
        await node.begun(urgent)
        stats = (await node.store.stats()).queues
        assert stats[CircuitQueue.UPDATE_DEVNET].waiting == FLOOD - slots, "no other job of the flood began before"
        one_more.release(2 * FLOOD)
        assert (await node.ended(urgent)).state is JobState.COMPLETED


async def test_flood__of_one_network__leaves_half_of_the_fleet_to_another(redis_database: RedisServer) -> None:
    def prove(task: ProofTask, cancel: CancelFlag) -> None:
        time.sleep(0.005)

    async with nodes_on(redis_database.url) as start:
        gate = Gate()
        blocked = start(gate, slots=1, total_slots=1)
        held = await blocked.submit(5000)
        await blocked.begun(held)
        devnet = [await blocked.submit(number, network=Network.DEVNET) for number in range(40)]
        mainnet = [await blocked.submit(number, network=Network.MAINNET) for number in range(10)]
        node = start(prove, slots=1, total_slots=1)
        ended = [await node.ended(job_id) for job_id in (*devnet, *mainnet)]
        last_of_mainnet = max(job.started_at or 0 for job in ended[40:])
        order = [(job.started_at or 0) < last_of_mainnet for job in ended[:40]]
        assert sum(order) <= 11, "the networks take turns"
        gate.open()
