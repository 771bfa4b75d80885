"""Submissions and polls with thousands of waiting jobs: latencies, memory of Redis, load of the API.

Starts Redis with an append-only file and an API without workers, so that only the queue is measured. Measures with all
jobs waiting and with a tenth of them. Exit status 1 if commands or bytes of Redis per request grow with the number of
waiting jobs. Times are printed; they fail the run only with --p99-ms.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import tempfile
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import reference_fixtures
from bench_report import Report, percentile
from process_figures import ProcessFigures
from proof_requests import REQUESTS
from queue_fleet import Member, running_fleet
from redis_server import RedisServer, running_redis

TREES = 20
GROWTH = 1.5
"""Tolerated growth of counts per request with ten times the jobs."""


@dataclass
class Phase:
    """Cost of many requests of one kind."""

    name: str
    waiting: int
    """Jobs in the queue at the end."""
    latencies_s: list[float]
    seconds: float
    api_s: float
    """CPU seconds of the API."""
    redis_s: float
    commands: float
    """Commands that Redis ran per request, those inside scripts included."""
    sent_bytes: float
    """Bytes that Redis sent per request."""

    @property
    def row(self) -> dict[str, Any]:
        """Return the printed row; the last three columns are per request."""
        count = len(self.latencies_s)
        return {
            "requests": self.name,
            "waiting": self.waiting,
            "count": count,
            "per_s": round(count / self.seconds),
            "p50_ms": round(1000 * percentile(self.latencies_s, 50), 1),
            "p99_ms": round(1000 * percentile(self.latencies_s, 99), 1),
            "api_load_percent": round(100 * self.api_s / self.seconds),
            "redis_load_percent": round(100 * self.redis_s / self.seconds),
            "api_ms": round(1000 * self.api_s / count, 2),
            "redis_commands": round(self.commands, 1),
            "redis_bytes_sent": round(self.sent_bytes),
        }


class Load:
    """Requests to one API."""

    def __init__(self, session: aiohttp.ClientSession, api: Member, redis: RedisServer, body: bytes) -> None:
        self._session = session
        self._base = f"http://127.0.0.1:{api.api_port}"
        self._api = api
        self._redis = redis
        self._body = body.rstrip()[:-1]
        self.ids: list[str] = []

    async def submit(self, count: int, clients: int) -> Phase:
        """Submit jobs, all different, from several clients at once."""
        numbers = iter(range(len(self.ids), len(self.ids) + count))
        latencies: list[float] = []

        async def client() -> None:
            latencies.extend([await self._submit_one(number) for number in numbers])

        return await self._measure("submit", latencies, lambda: _together(client, clients))

    async def poll(self, pollers: int, polls: int, interval_s: float) -> Phase:
        """Poll random jobs; each poller pauses between an answer and its next request."""
        latencies: list[float] = []
        left = iter(range(polls))

        async def client() -> None:
            await asyncio.sleep(random.uniform(0, interval_s))
            for _ in left:
                latencies.append(await self._poll_one(random.choice(self.ids)))
                await asyncio.sleep(interval_s)

        return await self._measure(f"status, every {interval_s:g} s", latencies, lambda: _together(client, pollers))

    async def _submit_one(self, number: int) -> float:
        extra = f', "unknown": {number}, "treeId": "tree-{number % TREES}", "batchIndex": {number}}}'
        started = time.perf_counter()
        async with self._session.post(f"{self._base}/prove", data=self._body + extra.encode()) as response:
            answer: dict[str, Any] = await response.json()
        elapsed = time.perf_counter() - started
        if response.status != 202 or answer["status"] != "queued":
            raise SystemExit(f"a submission was answered {response.status} {answer}")
        self.ids.append(answer["job_id"])
        return elapsed

    async def _poll_one(self, job_id: str) -> float:
        started = time.perf_counter()
        async with self._session.get(f"{self._base}/prove/status?job_id={job_id}") as response:
            answer: dict[str, Any] = await response.json()
        elapsed = time.perf_counter() - started
        if response.status != 202 or answer["status"] != "queued":
            raise SystemExit(f"a status was answered {response.status} {answer}")
        return elapsed

    async def _measure(self, name: str, latencies: list[float], work: Callable[[], Coroutine[Any, Any, None]]) -> Phase:
        pids = (self._api.pid, self._redis.pid)
        counting = self._counts()[1], self._counts()[1]
        gc.freeze()  # the clients' own full collections are no latency of the service
        before, busy, started = self._counts(), [ProcessFigures(pid).cpu_s for pid in pids], time.perf_counter()
        await work()
        seconds = time.perf_counter() - started
        api_s, redis_s = (ProcessFigures(pid).cpu_s - earlier for pid, earlier in zip(pids, busy, strict=True))
        after = self._counts()
        count = len(latencies)
        commands, sent = (
            (after[0] - before[0]) / count,
            (after[1] - before[1] - (counting[1] - counting[0])) / count,
        )
        return Phase(name, len(self.ids), latencies, seconds, api_s, redis_s, commands, sent)

    def _counts(self) -> tuple[float, float]:
        commands = self._redis.info("commandstats")
        own = ("cmdstat_info", "cmdstat_client|setinfo")
        ran = sum(entry["calls"] for name, entry in commands.items() if name not in own)
        return ran, self._redis.info("stats")["total_net_output_bytes"]


async def _together(client: Callable[[], Coroutine[Any, Any, None]], count: int) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(client())


async def measure(options: argparse.Namespace, api: Member, redis: RedisServer) -> tuple[list[Phase], float]:
    """Fill the queue in two steps and poll statuses after each; return the phases and the bytes of Redis per job."""
    body = (REQUESTS / f"{options.vector}.json").read_bytes()
    intervals = [float(text) for text in options.intervals.split(",")]
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=120)) as session:
        load = Load(session, api, redis, body)
        await load.submit(options.clients, options.clients)  # connections, imports, scripts
        empty = used_memory(redis)
        first = len(load.ids)
        phases = []
        for jobs in (options.jobs // 10, options.jobs):
            phases.append(await load.submit(jobs - len(load.ids), options.clients))
            await settled(redis)
            phases += [await load.poll(options.clients, options.polls, interval) for interval in intervals]
        return phases, (used_memory(redis) - empty) / (len(load.ids) - first)


async def settled(redis: RedisServer) -> None:
    """Wait until Redis has rewritten its append-only file and the disk has it: real jobs arrive over hours."""
    while True:
        state = redis.info("persistence")
        if not state["aof_rewrite_in_progress"] and not state["aof_rewrite_scheduled"]:
            await asyncio.to_thread(os.sync)
            return
        await asyncio.sleep(0.1)


def used_memory(redis: RedisServer) -> int:
    """Return the bytes that Redis has allocated."""
    return int(redis.info("memory")["used_memory"])


def require_constant_cost(report: Report, phases: list[Phase]) -> None:
    """Require that the counts per request do not grow with the number of waiting jobs."""
    half = len(phases) // 2
    for few, many in zip(phases[:half], phases[half:], strict=True):
        for what, less, more in (
            ("commands", few.commands, many.commands),
            ("bytes sent", few.sent_bytes, many.sent_bytes),
        ):
            report.require(f"{few.name}: {what} per request", more <= less * GROWTH, f"{less:.1f}, then {more:.1f}")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("--jobs", type=int, default=10_000, help="waiting jobs in the end (default 10000)")
    parser.add_argument("--clients", type=int, default=64, help="clients at once (default 64)")
    parser.add_argument("--polls", type=int, default=5_000, help="statuses in each measurement (default 5000)")
    parser.add_argument(
        "--intervals",
        default="1,0.1",
        help="pauses of a poller, seconds (default 1,0.1: a forester and a local client)",
    )
    parser.add_argument(
        "--vector", default="batch_update_32_10", help="request that is sent (default batch_update_32_10)"
    )
    parser.add_argument("--folder", type=Path, help="folder of Redis' file, on the disk to measure")
    parser.add_argument("--p99-ms", type=float, default=0, help="maximum p99 of a status; 0: none")


def main(options: argparse.Namespace) -> int:
    """Measure, print, and return the exit status."""
    # A sweep reads up to 256 entries of each queue at once, which a short measurement would count as its requests.
    ages = ("WAIT_LIMIT_S", "REQUEST_AGE_S")
    sweeps = ("SWEEP_STUCK_S", "SWEEP_REQUESTS_S", "SWEEP_FAILURES_S", "SWEEP_RESULTS_S")
    variables = dict.fromkeys((f"PROVER_QUEUE__{name}" for name in (*ages, *sweeps)), "86400")
    keys_dir = reference_fixtures.proving_keys_dir()
    with (
        tempfile.TemporaryDirectory(dir=options.folder) as folder,
        running_redis(Path(folder), appendonly=True) as redis,
        running_fleet(Path(folder), keys_dir, redis.url, variables, workers=0) as ([api], _),
    ):
        phases, job_bytes = asyncio.run(measure(options, api, redis))
    body_kib = (REQUESTS / f"{options.vector}.json").stat().st_size / 1024
    report = Report({"requests": [phase.row for phase in phases]})
    report.figures = {"redis KiB per job": round(job_bytes / 1024, 1), "KiB of its body": round(body_kib, 1)}
    require_constant_cost(report, phases)
    slowest_ms = max(percentile(phase.latencies_s, 99) * 1000 for phase in phases if phase.name.startswith("status"))
    if options.p99_ms:
        report.require(f"p99 of a status: {options.p99_ms:g} ms", slowest_ms <= options.p99_ms, f"{slowest_ms:.1f} ms")
    report.write(as_json=False)
    return 0 if report.passed else 1
