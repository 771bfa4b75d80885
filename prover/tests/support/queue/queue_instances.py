"""Instances of the queue inside a test: real Redis, real claims and leases, proofs replaced by what the test wants."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from golden_vectors import vector_named
from prometheus_client import CollectorRegistry

from prover.kernel.cancellation import CancelFlag
from prover.keys.catalogue.selection import CircuitSelection
from prover.observability.metrics import Metrics
from prover.proving.proof_making import Proof, Timings
from prover.proving.request import ProofTask
from prover.proving.service import OnPhase, ProvingService
from prover.queue.connection import RedisConnection
from prover.queue.jobs import JobState, JobStatus, Submission
from prover.queue.store import JobStore
from prover.settings import QueueSettings
from prover.variables import Secret
from prover.worker.instance import QueueInstance
from prover.worker.monitor import count_event

VECTOR = vector_named("prover/v2_inclusion_32_1")
PROOF = b'{"ar":["0x1","0x2"]}'
BRISK = {"lease_s": 8.0, "heartbeat_s": 0.5, "poll_s": 0.02, "sweep_stuck_s": 0.5}
"""Settings that make tests short: signs of life every half second."""

Prove = Callable[[ProofTask, CancelFlag], None]


class ScriptedService(ProvingService):
    """Calls a function of the test in place of a proof; counts how many run at once."""

    def __init__(self, prove: Prove) -> None:
        self._prove = prove
        self._lock = threading.Lock()
        self.begun = 0
        self.running = 0
        self.most = 0

    def prove(self, task: ProofTask, cancel: CancelFlag, on_phase: OnPhase = lambda _: None) -> Proof:
        with self._lock:
            self.begun += 1
            self.running += 1
            self.most = max(self.most, self.running)
        try:
            self._prove(task, cancel)
        finally:
            with self._lock:
                self.running -= 1
        return Proof(task.circuit, b"", PROOF, Timings(prove_s=1.5))


class Gate:
    """Proofs that take until ``open`` is called, or until they are cancelled."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._is_open = False

    def __call__(self, task: ProofTask, cancel: CancelFlag) -> None:
        with cancel.watch(self._wake), self._changed:
            self._changed.wait_for(lambda: self._is_open or cancel.is_raised, 60)
        cancel.check()

    def open(self) -> None:
        with self._changed:
            self._is_open = True
            self._changed.notify_all()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


class Node:
    """An instance with its store, metrics and proofs."""

    def __init__(self, url: str, prove: Prove, settings: dict[str, Any]) -> None:
        self.settings = QueueSettings(url=Secret(url), **BRISK | settings)
        self.metrics = Metrics(CollectorRegistry())
        self.connection = RedisConnection.open(url)
        self.store = JobStore(self.connection, self.settings, lambda event: count_event(self.metrics, event))
        self.service = ScriptedService(prove)
        self.instance = QueueInstance(self.connection, self.store, self.settings, self.metrics)

    def start(self, *, work: bool, circuits: CircuitSelection, slots: int, total_slots: int) -> None:
        self.instance.start()
        if work:
            self.instance.work(self.service, circuits, slots, total_slots)

    async def close(self) -> None:
        await self.instance.close()
        await self.store.close()
        await self.connection.close()

    async def submit(self, number: int = 0, body: bytes = VECTOR.body, **members: Any) -> str:
        """Submit the inclusion request; blanks after it make different jobs of different numbers."""
        submission = {"circuit_type": "inclusion", "circuit": "v2_inclusion_32_1", "body": body + b" " * number}
        return (await self.store.submit(Submission(**{**submission, **members}))).job_id

    async def status(self, job_id: str) -> JobStatus:
        status = await self.store.status(job_id)
        assert status is not None
        return status

    async def ended(self, job_id: str) -> JobStatus:
        """Return the status of a job once it is final."""
        return await self.reaches(job_id, lambda job: job.state.is_final)

    async def reaches(self, job_id: str, holds: Callable[[JobStatus], bool]) -> JobStatus:
        """Return the status of a job once something holds."""
        deadline = time.monotonic() + 60
        while not holds(status := await self.status(job_id)):
            assert time.monotonic() < deadline, status
            await asyncio.sleep(0.02)
        return status

    async def begun(self, job_id: str) -> JobStatus:
        """Return the status of a job once it is proved."""
        return await self.reaches(job_id, lambda job: job.state is JobState.PROCESSING)

    def sample(self, metric: str, **labels: str) -> float:
        """Return the value of a metric, by the name of its attribute."""
        collector = getattr(self.metrics, metric)
        if labels:
            collector = collector.labels(**labels)
        return float(collector._value.get())

    async def shows(self, value: float, metric: str, **labels: str) -> None:
        """Wait until a metric has a value: counters follow what others see of a job in no time, but they follow."""
        await until(lambda: self.sample(metric, **labels) == value)


def succeed(_: ProofTask, __: CancelFlag) -> None:
    """Return a proof at once."""


StartNode = Callable[..., Node]
"""Starts an instance: what it does in place of proofs, then settings."""


@contextlib.asynccontextmanager
async def nodes_on(url: str) -> AsyncIterator[StartNode]:
    """Give a function that starts instances on one Redis."""
    started: list[Node] = []

    def start(
        prove: Prove = succeed,
        *,
        work: bool = True,
        circuits: CircuitSelection | None = None,
        slots: int = 1,
        total_slots: int = 4,
        **settings: Any,
    ) -> Node:
        node = Node(url, prove, settings)
        started.append(node)
        node.start(work=work, circuits=circuits or CircuitSelection.everything(), slots=slots, total_slots=total_slots)
        return node

    try:
        yield start
    finally:
        for node in started:
            await node.close()


async def until(holds: Callable[[], Awaitable[bool] | bool], seconds: float = 60) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while True:
        answer = holds()
        if isinstance(answer, bool):
            if answer:
                return
        elif await answer:
            return
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
