"""Random sequences of everything that can happen to jobs, against a plain model and the rules of the layout.

A real Redis and its twin run the same sequences: both must behave as the model does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from queue_inspection import Database, Inspection

from prover.queue.circuit_queues import CircuitQueue, Network
from prover.queue.jobs import Claim, JobState, LeaseState, Submission, SweepKind
from prover.queue.store import JobStore
from prover.settings import QueueSettings

SEQUENCES_OF_THE_TWIN = 8
LIMITS = QueueSettings(lease_s=3600, wait_limit_s=3600, attempts=3, depth_limit=50)
CIRCUITS = ("", "a", "ab", "b")
TREES = ("", "t1", "t2", "-")
INDICES = (-1, 0, 1, 2, 10)
NETWORKS = (None, *Network)
TYPES = ("update", "inclusion", "append", "foo")


@dataclass
class Job:
    """A job in the model."""

    job_id: str
    queue: CircuitQueue
    circuit: str
    body: bytes
    group: str
    rank: tuple[float, int]
    state: JobState = JobState.QUEUED
    attempt: int = 0
    error: str | None = None
    proof: bytes | None = None
    remembered: bool = True
    cancelling: bool = False
    is_shared: bool = False
    overdue: bool = False
    holder: Claim | None = None


@dataclass
class Model:
    """The queue as one would write it down."""

    jobs: dict[str, Job] = field(default_factory=dict)
    rings: dict[CircuitQueue, list[str]] = field(default_factory=lambda: {queue: [] for queue in CircuitQueue})
    submissions: int = 0

    def waiting(self, queue: CircuitQueue) -> list[Job]:
        return [job for job in self.jobs.values() if job.queue is queue and job.state is JobState.QUEUED]

    def enter(self, job: Job) -> None:
        job.state = JobState.QUEUED
        job.overdue = False
        if job.group not in self.rings[job.queue]:
            self.rings[job.queue].append(job.group)

    def leave(self, job: Job, *, served: bool) -> None:
        ring = self.rings[job.queue]
        left = any(other.group == job.group for other in self.waiting(job.queue) if other is not job)
        if served or not left:
            ring.remove(job.group)
        if served and left:
            ring.append(job.group)

    def next(self, queue: CircuitQueue, circuits: frozenset[str] | None) -> Job | None:
        able = [job for job in self.waiting(queue) if circuits is None or job.circuit in circuits]
        for group in self.rings[queue]:
            of_group = [job for job in able if job.group == group]
            if of_group:
                return min(of_group, key=lambda job: job.rank)
        return None

    def fail(self, job: Job, error: str, *, remember: bool = False) -> None:
        if job.state is JobState.QUEUED:
            self.leave(job, served=False)
        job.state, job.error, job.remembered, job.holder = JobState.FAILED, error, remember, None

    def give_back(self, job: Job, reason: str) -> None:
        job.holder = None
        if job.cancelling:
            self.fail(job, "cancelled")
        elif job.attempt >= LIMITS.attempts:
            self.fail(job, f"gave up after {job.attempt} attempts: {reason}")
        else:
            self.enter(job)


class QueueMachine(RuleBasedStateMachine):
    """The store and the model, with the same operations on both."""

    database: Database

    def __init__(self) -> None:
        super().__init__()
        self.database.flush()
        self.runner = asyncio.Runner()
        self.connection = self.database.connection()
        self.store = JobStore(self.connection, LIMITS)
        self.client = self.database.blocking()
        self.look = Inspection(self.client)
        self.model = Model()
        self.claims: list[Claim] = []
        self.lost: list[Claim] = []

    def teardown(self) -> None:
        self.run(self.connection.close())
        self.client.close()
        self.runner.close()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)

    def choose(self, data: st.DataObject, state: JobState) -> Job | None:
        able = [job for job in self.model.jobs.values() if job.state is state]
        return data.draw(st.sampled_from(able)) if able else None

    def has(self, *states: JobState) -> bool:
        return any(job.state in states for job in self.model.jobs.values())

    def claim_of(self, data: st.DataObject) -> tuple[Claim, Job]:
        """Return a claim of any time; one that holds as often as not."""
        holding = [claim for claim in self.claims if self.model.jobs[claim.job_id].holder is claim]
        claim = data.draw(st.sampled_from(self.claims) | st.sampled_from(holding or self.claims))
        return claim, self.model.jobs[claim.job_id]

    @initialize(data=st.data(), count=st.integers(0, 20))
    def begin(self, data: st.DataObject, count: int) -> None:
        for body in range(100, 100 + count):
            tree, index = data.draw(st.sampled_from(TREES)), data.draw(st.sampled_from(INDICES))
            self.submit_one(body, "update", data.draw(st.sampled_from(CIRCUITS)), tree, index, None)
        for _ in range(data.draw(st.integers(0, 5))):
            self.claim_one(CircuitQueue.UPDATE, None)

    @rule(
        body=st.integers(0, 12),
        circuit_type=st.sampled_from(TYPES),
        circuit=st.sampled_from(CIRCUITS),
        tree=st.sampled_from(TREES),
        index=st.sampled_from(INDICES),
        network=st.sampled_from(NETWORKS),
    )
    def submit(
        self, body: int, circuit_type: str, circuit: str, tree: str, index: int, network: Network | None
    ) -> None:
        self.submit_one(body, circuit_type, circuit, tree, index, network)

    def submit_one(
        self, body: int, circuit_type: str, circuit: str, tree: str, index: int, network: Network | None
    ) -> None:
        text = f"{body}".encode()
        found = self.run(self.store.submit(Submission(circuit_type, circuit, text, tree, index, network=network)))
        # Cancelling a running job makes its body free at once; other jobs hold theirs until they fail.
        holders = [
            job
            for job in self.model.jobs.values()
            if (job.body, job.queue.network) == (text, network) and job.remembered
        ]
        if holders:
            assert (found.job_id, found.duplicate) == (holders[0].job_id, True)
            holders[0].is_shared = True
            return
        assert not found.duplicate
        assert found.job_id not in self.model.jobs
        self.model.submissions += 1
        rank = (float("inf") if index < 0 else index, self.model.submissions)
        queue, group = CircuitQueue.of(circuit_type, network), f"tree {tree}" if tree else "none"
        job = Job(found.job_id, queue, circuit, text, group, rank)
        self.model.jobs[job.job_id] = job
        self.model.enter(job)

    @precondition(lambda self: self.has(JobState.QUEUED))
    @rule(data=st.data(), circuits=st.none() | st.none() | st.frozensets(st.sampled_from(CIRCUITS)))
    def claim(self, data: st.DataObject, circuits: frozenset[str] | None) -> None:
        self.claim_one(
            data.draw(st.sampled_from([queue for queue in CircuitQueue if self.model.waiting(queue)])), circuits
        )

    def claim_one(self, queue: CircuitQueue, circuits: frozenset[str] | None) -> None:
        claim = self.run(self.store.claim(queue, "worker", circuits))
        while (job := self.model.next(queue, circuits)) is not None and job.overdue:
            self.model.fail(job, "job expired")
        assert (claim and claim.job_id) == (job and job.job_id)
        if claim is not None and job is not None:
            assert claim.body == job.body
            self.model.leave(job, served=True)
            job.state, job.attempt, job.holder = JobState.PROCESSING, job.attempt + 1, claim
            assert (claim.queue, claim.circuit, claim.attempt) == (queue, job.circuit, job.attempt)
            assert all(claim.fence > other.fence for other in self.claims if other.job_id == claim.job_id)
            self.claims.append(claim)

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def beat(self, data: st.DataObject) -> None:
        claims = data.draw(st.lists(st.sampled_from(self.claims), max_size=3))
        beats = self.run(self.store.heartbeat(claims))
        for claim, beat in zip(claims, beats, strict=True):
            job = self.model.jobs[claim.job_id]
            kept = LeaseState.CANCELLED if job.cancelling else LeaseState.KEPT
            assert beat is (kept if job.holder is claim else LeaseState.LOST)

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        claim, job = self.claim_of(data)
        proof = f"proof {claim.fence}".encode()
        done = self.run(self.store.finish(claim, proof, 7))
        if job.holder is claim:
            job.state, job.proof, job.holder = JobState.COMPLETED, proof, None
            job.remembered = not job.cancelling
            assert done
        else:
            assert done == (job.proof == proof)
        assert not (done and claim in self.lost)

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), deterministic=st.booleans())
    def fail(self, data: st.DataObject, deterministic: bool) -> None:
        claim, job = self.claim_of(data)
        done = self.run(self.store.fail(claim, "a reason", deterministic=deterministic))
        if job.holder is claim:
            self.model.fail(job, "a reason", remember=deterministic and not job.cancelling)
            assert done
        # Said again, it is still true.
        assert not done or (job.state is JobState.FAILED and claim not in self.lost)

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), counted=st.booleans())
    def requeue(self, data: st.DataObject, counted: bool) -> None:
        claim, job = self.claim_of(data)
        done = self.run(self.store.requeue(claim, count_attempt=counted, reason="a pause"))
        if job.holder is claim:
            job.attempt -= not counted
            self.model.give_back(job, "a pause")
            assert done
        assert not (done and claim in self.lost)

    @precondition(lambda self: self.has(JobState.QUEUED, JobState.PROCESSING))
    @rule(data=st.data(), state=st.sampled_from(JobState))
    def cancel(self, data: st.DataObject, state: JobState) -> None:
        if job := self.choose(data, state):
            status = self.run(self.store.cancel(job.job_id))
            if job.is_shared:
                pass
            elif job.state is JobState.QUEUED:
                self.model.fail(job, "cancelled")
            elif job.state is JobState.PROCESSING:
                job.cancelling, job.remembered = True, False
            assert status.state is job.state

    @precondition(lambda self: self.has(JobState.PROCESSING))
    @rule(data=st.data(), by_heartbeat=st.booleans())
    def lease_ends(self, data: st.DataObject, by_heartbeat: bool) -> None:
        if job := self.choose(data, JobState.PROCESSING):
            self.look.end_lease(job.job_id)
            self.run(self.store.heartbeat([]) if by_heartbeat else self.store.sweep(SweepKind.STUCK))
            if not by_heartbeat:
                self.expired()
            assert job.holder is not None
            self.lost.append(job.holder)
            self.model.give_back(job, "its worker stopped responding")

    @precondition(lambda self: self.has(JobState.QUEUED))
    @rule(data=st.data())
    def grow_overdue(self, data: st.DataObject) -> None:
        if (job := self.choose(data, JobState.QUEUED)) and not job.overdue:
            self.look.age(job.job_id, LIMITS.wait_limit_s + 1)
            job.overdue = True

    @rule(kind=st.sampled_from((SweepKind.STUCK, SweepKind.OLD_REQUESTS)))
    def sweep(self, kind: SweepKind) -> None:
        overdue = sum(job.overdue for job in self.model.jobs.values() if job.state is JobState.QUEUED)
        assert self.run(self.store.sweep(kind)) == overdue
        self.expired()

    @precondition(lambda self: self.has(JobState.COMPLETED, JobState.FAILED))
    @rule(data=st.data(), state=st.sampled_from((JobState.COMPLETED, JobState.FAILED)))
    def retention_ends(self, data: st.DataObject, state: JobState) -> None:
        if job := self.choose(data, state):
            self.look.age_final(job.job_id, 3601)
            kind = SweepKind.RESULTS if state is JobState.COMPLETED else SweepKind.FAILED
            assert self.run(self.store.sweep(kind)) == 1
            assert self.run(self.store.status(job.job_id)) is None
            del self.model.jobs[job.job_id]
            self.claims = [claim for claim in self.claims if claim.job_id != job.job_id]

    @rule()
    def scripts_are_forgotten(self) -> None:
        self.client.script_flush()

    def expired(self) -> None:
        for job in self.model.jobs.values():
            if job.state is JobState.QUEUED and job.overdue:
                self.model.fail(job, "job expired")

    async def all_statuses(self) -> list[Any]:
        return await asyncio.gather(*map(self.store.status, self.model.jobs))

    @invariant()
    def everything_is_where_it_belongs(self) -> None:
        self.look.check()

    @invariant()
    def store_and_model_agree(self) -> None:
        assert self.look.job_ids() == sorted(self.model.jobs)
        for job, status in zip(self.model.jobs.values(), self.run(self.all_statuses()), strict=True):
            assert (status.state, status.attempt, status.proof) == (job.state, job.attempt, job.proof)
            assert (status.error or "").startswith(job.error or "")
            assert bool(status.error) == bool(job.error)
        stats = self.run(self.store.stats())
        for queue in CircuitQueue:
            waiting = self.model.waiting(queue)
            assert stats.queues[queue].waiting == len(waiting)
            assert stats.queues[queue].waiting_without_tree == sum(job.group == "none" for job in waiting)
            assert stats.queues[queue].trees == len({job.group for job in waiting} - {"none"})


def run_machine(database: Database, examples: int, *, repeatable: bool) -> None:
    """Run random sequences on a database; ``repeatable`` ones are the same for every database."""
    machine = type("Machine", (QueueMachine,), {"database": database})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=30,
            deadline=None,
            derandomize=repeatable,
            suppress_health_check=list(HealthCheck),
        ),
    )
