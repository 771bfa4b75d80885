"""Hundreds of workers with simulated proofs on one Redis: submissions, polls of statuses, load of Redis.

A worker is the queue part of `prover start --queue-only` with one slot, whose proof is a pause. A few processes hold
all of them. Clients use the job store without HTTP, so that the figures are of Redis; `bench.py queue` measures the
API. Three phases: idle workers, submissions from all clients at once, and polls at a fixed rate until all jobs ended.
The latency of a poll counts from its planned time. Exit status 1 if a job is lost or ends wrongly.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import multiprocessing
import random
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench_report import Report, percentile
from process_figures import ProcessFigures
from queue_instances import BRISK, PROOF, VECTOR, nodes_on
from redis_server import RedisServer, running_redis

from prover.keys.catalogue.selection import CircuitSelection
from prover.queue.connection import RedisConnection
from prover.queue.jobs import JobState, Submission
from prover.queue.store import JobStore
from prover.settings import QueueSettings
from shared.process.logs import configure_logs

CIRCUIT = "v2_inclusion_32_1"
TREES = 20
WATCH_S = 0.5


@dataclass
class Phase:
    """Requests of one kind, and what Redis did meanwhile."""

    name: str
    latencies_s: list[float] = field(default_factory=list)
    seconds: float = 0.0
    redis_s: float = 0.0
    """CPU seconds of Redis."""
    commands: int = 0
    """Commands from all clients and workers."""

    @property
    def p99_ms(self) -> float:
        """The p99 of the latencies; 0 without requests."""
        return 1000 * percentile(self.latencies_s, 99)

    @property
    def row(self) -> dict[str, Any]:
        """Return the printed row."""
        return {
            "phase": self.name,
            "seconds": round(self.seconds, 1),
            "requests": len(self.latencies_s),
            "requests_per_s": round(len(self.latencies_s) / self.seconds, 1),
            "p99_ms": round(self.p99_ms, 1),
            "redis_load_percent": round(100 * self.redis_s / self.seconds, 1),
            "redis_commands_per_s": round(self.commands / self.seconds),
        }


def work(url: str, workers: int, proof_s: float) -> None:
    """Run workers in this process until it is ended."""
    configure_logs(level="error")
    asyncio.run(_work(url, workers, proof_s))


async def _work(url: str, workers: int, proof_s: float) -> None:
    usual = {name: getattr(QueueSettings(), name) for name in BRISK}
    circuits = CircuitSelection.of(names=[CIRCUIT])
    async with nodes_on(url) as start:
        for _ in range(workers):
            start(lambda *_: time.sleep(proof_s), circuits=circuits, total_slots=1, **usual)
        await asyncio.Event().wait()


@contextlib.contextmanager
def running_workers(url: str, workers: int, processes: int, proof_s: float) -> Iterator[None]:
    """Workers in several processes, which run during the block."""
    context = multiprocessing.get_context("spawn")
    shares = [len(range(number, workers, processes)) for number in range(processes)]
    started = [context.Process(target=work, args=(url, share, proof_s), daemon=True) for share in shares]
    for process in started:
        process.start()
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.join()


class Fleet:
    """Clients of the queue, and the measurement of Redis."""

    def __init__(self, store: JobStore, redis: RedisServer) -> None:
        self._store = store
        self._redis = redis
        self.ids: list[str] = []
        self.phases: list[Phase] = []

    @contextlib.asynccontextmanager
    async def phase(self, name: str) -> AsyncIterator[Phase]:
        """Measure the block as a phase."""
        phase, figures = Phase(name), ProcessFigures(self._redis.pid)
        commands, busy, started = await self._commands(), figures.cpu_s, time.perf_counter()
        yield phase
        phase.seconds, phase.redis_s = time.perf_counter() - started, figures.cpu_s - busy
        phase.commands = await self._commands() - commands
        self.phases.append(phase)

    async def _commands(self) -> int:
        return int((await asyncio.to_thread(self._redis.info, "stats"))["total_commands_processed"])

    async def submit(self, phase: Phase, jobs: int, clients: int) -> None:
        """Submit different jobs, each client one after the other."""
        numbers = iter(range(jobs))
        body = VECTOR.body.rstrip()[:-1]

        async def client() -> None:
            for number in numbers:
                own = body + f', "unknown": {number}}}'.encode()
                submission = Submission("inclusion", CIRCUIT, own, f"tree-{number % TREES}", number)
                started = time.perf_counter()
                result = await self._store.submit(submission)
                phase.latencies_s.append(time.perf_counter() - started)
                self.ids.append(result.job_id)

        await asyncio.gather(*(client() for _ in range(clients)))

    async def poll(self, phase: Phase, pollers: int, rate: float, patience_s: float) -> None:
        """Poll random jobs at a rate until all ended, or the patience is over."""
        started, ended = time.perf_counter(), asyncio.Event()

        async def poller(number: int) -> None:
            while not ended.is_set():
                planned = started + number / rate
                await asyncio.sleep(planned - time.perf_counter())
                await self._store.status(random.choice(self.ids))
                phase.latencies_s.append(time.perf_counter() - planned)
                number += pollers

        tasks = [asyncio.create_task(poller(number)) for number in range(pollers)]
        while time.perf_counter() < started + patience_s:
            stats = await self._store.stats()
            if stats.total_pending + stats.total_active == 0:
                break
            await asyncio.sleep(WATCH_S)
        ended.set()
        await asyncio.gather(*tasks)

    async def unfinished(self) -> list[str]:
        """Return the jobs that did not end with the proof of their worker."""
        found = [(job_id, await self._store.status(job_id)) for job_id in self.ids]
        return [
            job_id
            for job_id, status in found
            if status is None or status.state is not JobState.COMPLETED or status.proof != PROOF
        ]


async def measure(options: argparse.Namespace, redis: RedisServer) -> tuple[list[Phase], list[str]]:
    """Return the phases, and the jobs without a proof."""
    connection = RedisConnection.open(redis.url, max_connections=2 * options.pollers, timeout_s=60)
    store = JobStore(connection)
    fleet = Fleet(store, redis)
    try:
        async with fleet.phase("idle"):
            await asyncio.sleep(options.idle)
        async with fleet.phase("submissions") as phase:
            await fleet.submit(phase, options.jobs, options.pollers)
        async with fleet.phase("statuses") as phase:
            await fleet.poll(phase, options.pollers, options.rate, options.patience)
        return fleet.phases, await fleet.unfinished()
    finally:
        await store.close()
        await connection.close()


async def connected(redis: RedisServer, workers: int, patience_s: float) -> None:
    """Wait until every worker has a connection and Redis has as many clients as a second before."""
    deadline, before = time.monotonic() + patience_s, 0
    while time.monotonic() < deadline:
        clients = int((await asyncio.to_thread(redis.info, "clients"))["connected_clients"])
        if clients > workers and clients == before:
            return
        before = clients
        await asyncio.sleep(1)
    raise SystemExit(f"only {before} clients of {workers} workers are connected after {patience_s:g} s")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("--workers", type=int, default=220, help="workers with one slot each (default 220)")
    parser.add_argument("--processes", type=int, default=4, help="processes that hold them (default 4)")
    parser.add_argument("--proof-s", type=float, default=5, help="seconds of a simulated proof (default 5)")
    parser.add_argument("--jobs", type=int, default=2000, help="jobs (default 2000)")
    parser.add_argument("--pollers", type=int, default=64, help="clients (default 64)")
    parser.add_argument("--rate", type=float, default=60, help="statuses per second of all clients (default 60)")
    parser.add_argument("--idle", type=float, default=10, help="seconds of the idle phase (default 10)")
    parser.add_argument("--patience", type=float, default=600, help="seconds until a job is lost (default 600)")
    parser.add_argument("--p99-ms", type=float, default=0, help="maximum p99 of a status; 0: none")


def run(options: argparse.Namespace) -> Report:
    """Measure, and judge what came of the jobs."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running_redis(Path(folder), appendonly=True) as redis,
        running_workers(redis.url, options.workers, options.processes, options.proof_s),
        asyncio.Runner() as runner,
    ):
        runner.run(connected(redis, options.workers, options.patience))
        phases, unfinished = runner.run(measure(options, redis))
    report = Report({f"{options.workers} workers": [phase.row for phase in phases]})
    report.require("every job ends with a proof", not unfinished, f"{options.jobs - len(unfinished)} of {options.jobs}")
    if options.p99_ms:
        slowest = phases[-1].p99_ms
        report.require(f"p99 of a status: {options.p99_ms:g} ms", slowest <= options.p99_ms, f"{slowest:.1f} ms")
    return report
