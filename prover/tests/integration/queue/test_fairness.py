"""Order and fairness with several servers and workers on one Redis, whatever their clocks say."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from golden_vectors import request_vectors
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from queue_fleet import Member, moment, running_fleet
from redis_server import RedisServer

from prover.queue.circuit_queues import CircuitQueue
from prover.queue.connection import RedisConnection
from prover.queue.jobs import Claim, Submission
from prover.queue.store import JobStore

SUPPORT = Path(__file__).resolve().parents[2] / "support" / "queue"
PROCESSES = 3
HOUR_S = 3600
TREES = ("", "tree-a", "tree-b", "tree-c")
LAST = 2**40

Step = tuple[str, int, str, int]
steps = st.lists(
    st.tuples(
        st.sampled_from(["submit", "submit", "claim", "claim", "finish", "hand back"]),
        st.integers(0, PROCESSES - 1),
        st.sampled_from(TREES),
        st.integers(-1, 3),
    ),
    min_size=5,
    max_size=60,
)


@asynccontextmanager
async def stores(server: RedisServer, count: int) -> Any:
    """Stores over connections of their own and names that nobody else uses: as many processes."""
    namespace = uuid.uuid4().hex
    connections = [RedisConnection.open(server.url, namespace=namespace) for _ in range(count)]
    opened = [JobStore(connection) for connection in connections]
    try:
        yield opened
    finally:
        for store in opened:
            await store.close()
        for connection in connections:
            await connection.close()


def submission(number: int, tree: str, index: int) -> Submission:
    return Submission("append", "batch_append_32_10", str(number).encode(), tree, index)


@dataclass
class Model:
    """The waiting jobs as the contract orders them, and who was served while others waited."""

    ranks: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Batch index, those without one last, and order of submission, of each job."""
    groups: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    passed: dict[str, Counter[str]] = field(default_factory=dict)
    """How often each group was served since another one that waits was, or began to wait."""

    def wait(self, job_id: str, tree: str) -> None:
        if not self.groups[tree]:
            self.passed[tree] = Counter()
        self.groups[tree].add(job_id)

    def served(self, job_id: str, tree: str) -> None:
        first = min(self.groups[tree], key=self.ranks.__getitem__)
        assert job_id == first, "not the first of its tree"
        self.groups[tree].remove(job_id)
        for other in self.waiting - {tree}:
            self.passed[other][tree] += 1
            assert self.passed[other][tree] == 1, f"{tree!r} was served twice while {other!r} waited"
        self.passed[tree] = Counter()

    @property
    def waiting(self) -> set[str]:
        return {tree for tree, jobs in self.groups.items() if jobs}


async def follow(server: RedisServer, script: list[Step]) -> None:
    """Take the steps with several stores and compare each claim with the model."""
    model = Model()
    held: list[list[Claim]] = [[] for _ in range(PROCESSES)]
    async with stores(server, PROCESSES) as processes:
        for number, (step, process, tree, index) in enumerate(script):
            store: JobStore = processes[process]
            if step == "submit":
                job_id = (await store.submit(submission(number, tree, index))).job_id
                model.ranks[job_id] = (index if index >= 0 else LAST, number)
                model.wait(job_id, tree)
            elif step == "claim":
                claim = await store.claim(CircuitQueue.APPEND, f"worker-{process}", None)
                assert (claim is None) == (not model.waiting)
                if claim is not None:
                    model.served(claim.job_id, claim.tree_id)
                    held[process].append(claim)
            elif held[process]:
                claim = held[process].pop()
                if step == "finish":
                    assert await store.finish(claim, b"{}", 1)
                else:
                    assert await store.requeue(claim, count_attempt=False, reason="handed back")
                    model.wait(claim.job_id, claim.tree_id)
        left = (await processes[0].stats()).queues[CircuitQueue.APPEND]
        assert left.waiting == sum(map(len, model.groups.values()))
        assert left.trees == len(model.waiting - {""})
        assert left.processing == sum(map(len, held))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(script=steps)
def test_claims__of_any_processes__follow_index_in_a_tree_and_round_robin_over_trees(
    redis_shared: RedisServer, script: list[Step]
) -> None:
    asyncio.run(follow(redis_shared, script))


async def test_claims__of_many_workers_at_once__take_each_job_once_and_trees_in_order(
    redis_database: RedisServer,
) -> None:
    servers, workers = 3, 5
    jobs = [(number, TREES[number % len(TREES)], number // len(TREES)) for number in range(120)]
    async with stores(redis_database, servers + workers) as processes:
        submitted = await asyncio.gather(
            *(processes[job[0] % servers].submit(submission(*job)) for job in reversed(jobs))
        )

        async def work(store: JobStore) -> list[Claim]:
            mine = []
            while claim := await store.claim(CircuitQueue.APPEND, "worker", None):
                mine.append(claim)
            return mine

        claimed = await asyncio.gather(*(work(store) for store in processes[servers:]))
        taken = [claim.job_id for mine in claimed for claim in mine]
        assert sorted(taken) == sorted(answer.job_id for answer in submitted)
        for mine in claimed:
            for tree in TREES:
                indices = [claim.batch_index for claim in mine if claim.tree_id == tree]
                assert indices == sorted(indices)


@pytest.fixture(scope="module")
def skewed_clock(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that moves the clock of the process that loads it."""
    library = tmp_path_factory.mktemp("clock") / "skewed_clock.so"
    source = SUPPORT / "skewed_clock.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
    return library


@pytest.fixture
def fleet(
    redis_database: RedisServer, reference_keys_dir: Path, skewed_clock: Path, tmp_path: Path
) -> Iterator[tuple[list[Member], list[Member]]]:
    """Two servers and two workers whose clocks are hours apart: minutes are no measure on a slow machine."""
    skews = {"api-0": HOUR_S, "api-1": -HOUR_S, "worker-0": -HOUR_S, "worker-1": HOUR_S}
    own = {name: {"CLOCK_SKEW_S": str(skew), "LD_PRELOAD": str(skewed_clock)} for name, skew in skews.items()}
    variables = {"PROVER_PROVING__THREADS": "1"}
    with running_fleet(
        tmp_path, reference_keys_dir, redis_database.url, variables, apis=2, workers=2, own_variables=own
    ) as members:
        yield members


def test_clocks_hours_apart__jobs_of_each_server__are_proved_once_and_dated_by_redis(
    fleet: tuple[list[Member], list[Member]], redis_database: RedisServer
) -> None:
    servers, workers = fleet
    vector = next(vector for vector in request_vectors() if vector.circuit == "v2_inclusion_32_1")
    ids = []
    for number in range(8):
        body = json.dumps(vector.request | {"unknown": number, "treeId": f"tree-{number % 3}"}).encode()
        answer = servers[number % 2].ask("POST", "/prove", body, {"X-Async": "true"})
        assert answer["status"] == "queued"
        ids.append(answer["job_id"])
        # The other server sees it as young as it is.
        status = servers[1 - number % 2].ask("GET", f"/prove/status?job_id={answer['job_id']}")
        if "created_at" in status:
            created = datetime.fromisoformat(status["created_at"]).timestamp()
            assert abs(created - time.time()) < HOUR_S / 2
    for job_id in ids:
        assert finished(servers, job_id)["status"] == "completed"
    events = [event for worker in workers for event in worker.events()]
    begun = Counter(event["job_id"] for event in events if event["event"] == "job_started")
    assert begun == Counter(ids)
    assert not [event for event in events if event["event"] in ("lease_lost", "job_requeued", "outcome_ignored")]
    moments = [moment(worker.events()[0]) for worker in workers]
    assert abs(moments[0] - moments[1]) > HOUR_S  # the clocks were apart


def finished(servers: list[Member], job_id: str) -> dict[str, Any]:
    """Return the final status of a job, read from the servers alternately."""
    deadline = time.monotonic() + 300
    for server in itertools.cycle(servers):
        status = server.ask("GET", f"/prove/status?job_id={job_id}&wait=5")
        if status["status"] not in ("queued", "processing"):
            return status
        assert time.monotonic() < deadline, status
    raise AssertionError
