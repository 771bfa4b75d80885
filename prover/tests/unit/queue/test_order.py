"""Order of claims: round robin over trees, ascending batch index inside a tree, jobs without a tree as one more."""

from __future__ import annotations

import asyncio
from itertools import count

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from queue_inspection import Queue
from redis_twin import RedisTwin

from prover.queue.circuit_queues import CircuitQueue
from prover.queue.jobs import Claim, Submission
from prover.settings import QueueSettings

PLENTY = QueueSettings(lease_s=600)
Work = tuple[str, int]


def expected_order(work: list[Work]) -> list[Work]:
    """Return the jobs in order: trees take turns by their first submission; -1 follows all indices of its tree."""
    trees: dict[str, list[Work]] = {}
    for job in work:
        trees.setdefault(job[0], []).append(job)
    for jobs in trees.values():
        jobs.sort(key=lambda job: job[1] if job[1] >= 0 else float("inf"))
    order = []
    while trees:
        for tree in list(trees):
            order.append(trees[tree].pop(0))
            if not trees[tree]:
                del trees[tree]
    return order


async def drained(queue: Queue) -> list[Claim]:
    claims = []
    while claim := await queue.claim(CircuitQueue.UPDATE, "worker", None):
        claims.append(claim)
    return claims


def works() -> st.SearchStrategy[list[Work]]:
    trees = st.sampled_from(["", "a", "b", "ü|}~", "-"])
    return st.lists(st.tuples(trees, st.sampled_from([-1, 0, 1, 2, 9, 10, 2**53, 2**53 + 1])), max_size=25)


def test_claims__of_any_submissions__come_in_the_order_of_the_model(twin: RedisTwin) -> None:
    numbers = count()

    async def order_of(work: list[Work]) -> list[Work]:
        queue = Queue(twin, PLENTY)
        try:
            for tree, index in work:
                await queue.submit(Submission("update", "", f"{next(numbers)}".encode(), tree, index))
            return [(claim.tree_id, claim.batch_index) for claim in await drained(queue)]
        finally:
            await queue.end()

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(works())
    def check(work: list[Work]) -> None:
        twin.flush()
        assert asyncio.run(order_of(work)) == expected_order(work)

    check()


async def test_claims__while_a_busy_tree_keeps_submitting__starve_nobody(twin: RedisTwin) -> None:
    queue = Queue(twin, PLENTY)
    numbers = count()

    async def submit(tree: str, index: int) -> None:
        await queue.submit(Submission("update", "", f"{next(numbers)}".encode(), tree, index))

    for index in range(50):
        await submit("busy", index)
    for tree in ("", "quiet", "other"):
        await submit(tree, 0)
    served = []
    for index in range(50, 60):
        await submit("busy", index)
        served.append((await queue.claimed()).tree_id)
    assert served[:4] == ["busy", "", "quiet", "other"]
    assert set(served[4:]) == {"busy"}
    await queue.end()
