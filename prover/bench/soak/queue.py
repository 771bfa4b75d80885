"""Mixed jobs through a queue whose processes and connections fail: none is lost, each ends once, proofs verify.

Starts Redis with an append-only file, an API and three workers that reach it through a proxy, and injects faults while
jobs come in: SIGKILL of workers, of the API and of Redis, SIGSTOP of a worker and of Redis, CLIENT KILL, cut and slow
connections. Exit status 1 if a job is lost, ends twice or wrongly, or a proof does not verify. Prints the faults and
the times of recovery.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import reference_batch_keys
import reference_fixtures
from bench_report import Report
from golden_vectors import BATCH, PUBLISHED
from in_process_service import circuit, scalars
from independent_groth16 import IndependentKey, holds
from local_processes import free_port
from queue_fleet import PROVER, Member, moment, running_fleet
from queue_sabotage import Injected, Saboteur
from redis_server import running_redis
from soak.queue_jobs import QUARANTINED, Client, Job, made_jobs
from tcp_proxy import running_proxy

from prover.errors import ProofFailed
from prover.kernel.engine import Engine
from prover.keys.files.verifying_keys import VerifyingKeys
from prover.proving.proof_encoding import read_proof

WORKERS = 3
LATENCY_S = 0.01
"""Latency of the network without faults."""


@dataclass
class Outcome:
    """Jobs, faults and log events of a run."""

    jobs: list[Job]
    injected: list[Injected]
    events: list[dict[str, object]]
    seconds: float

    def count(self, event: str) -> int:
        """Return how often the processes logged an event."""
        return sum(line["event"] == event for line in self.events)

    def returns(self) -> list[float]:
        """Return seconds from the fault of a worker until each of its jobs is free for another worker."""
        return [
            min(later) - fault.at
            for fault in self.injected
            for orphan in fault.orphans
            if (later := [at for at in self._moments("job_reclaimed", orphan) if at > fault.at])
        ]

    def _moments(self, event: str, job_id: str) -> list[float]:
        return [moment(line) for line in self.events if line["event"] == event and line["job_id"] == job_id]


async def shake(
    saboteur: Saboteur, members: list[Member], jobs: list[Job], options: argparse.Namespace
) -> list[Injected]:
    """Submit the jobs in as many groups as there are faults, one group with each; return when all jobs ended."""
    faults = [fault for _ in range(options.rounds) for fault in saboteur.round()]
    injected = []
    server = f"http://127.0.0.1:{members[0].api_port}"
    timeout = aiohttp.ClientTimeout(total=30)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        client = Client(session, server, time.monotonic() + options.patience)
        async with asyncio.TaskGroup() as group:
            for number, fault in enumerate(faults):
                for job in jobs[number :: len(faults)]:
                    group.create_task(client.see_through(job))
                injected.append(await fault())
                recovery = group.create_task(recover(session, members, injected[-1]))
                # Some faults meet a system that has not recovered from the one before.
                await asyncio.wait([recovery], timeout=options.pause)
        # Once more: what ended stays as it ended.
        await asyncio.gather(*(client.ask(job) for job in jobs if job.ids))
        async with session.get(f"{server}/queue/stats") as response:
            left = await response.json(content_type=None)
    if left["total_pending"] or left["total_active"]:
        jobs[0].faults.append(f"the queue is not empty: {left}")
    return injected


async def recover(session: aiohttp.ClientSession, members: list[Member], fault: Injected) -> None:
    """Wait until every process reports that it is ready; record the time that it takes."""
    waiting = list(members)
    while waiting:
        await asyncio.sleep(0.1)
        waiting = [member for member in waiting if not await is_ready(session, member)]
    fault.ready_s = time.time() - (fault.over or fault.at)


async def is_ready(session: aiohttp.ClientSession, member: Member) -> bool:
    """Return True if a process reports that it is ready."""
    try:
        async with session.get(f"http://127.0.0.1:{member.metrics_port}/readyz") as response:
            return response.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False


def soak(options: argparse.Namespace, keys_dir: Path, folder: Path) -> Outcome:
    """Start all processes, inject faults under load, and stop the processes as an operator would."""
    jobs = made_jobs(options.jobs, options.seed, options.batch_proofs, options.circuits.split(","))
    variables = {
        "PROVER_QUEUE__LEASE_S": str(options.lease_s),
        "PROVER_QUEUE__HEARTBEAT_S": str(options.lease_s / 4),
        "PROVER_QUEUE__ATTEMPTS": str(options.attempts),
        "PROVER_QUEUE__WAIT_LIMIT_S": str(options.patience),
    }
    started = time.monotonic()
    with (
        running_redis(folder, appendonly=True) as redis,
        running_proxy(redis.port, free_port()) as proxy,
        running_fleet(folder, keys_dir, f"redis://127.0.0.1:{proxy.port}/0", variables, workers=WORKERS) as fleet,
    ):
        [api], workers = fleet
        proxy.latency_s = LATENCY_S
        saboteur = Saboteur(redis, proxy, api, workers, options.lease_s, options.seed)
        injected = asyncio.run(shake(saboteur, [api, *workers], jobs, options))
        seconds = time.monotonic() - started
        for member in (api, *workers):
            status = member.end(signal.SIGTERM)
            if status != 0:
                jobs[0].faults.append(f"{member.name} stopped with status {status}: {member.tail()}")
        events = [line for member in (api, *workers) for line in member.events()]
    return Outcome(jobs, injected, events, seconds)


def faults_of(outcome: Outcome, keys_dir: Path, independently: int) -> list[str]:
    """Return the faults found; some proofs are also verified by an independent implementation."""
    found = [f"{job.vector.name}: {fault}" for job in outcome.jobs for fault in job.faults]
    finished = Counter(line["job_id"] for line in outcome.events if line["event"] == "job_finished")
    found += [f"{job_id} was finished {count} times" for job_id, count in finished.items() if count > 1]
    found += [f"defect: {line}" for line in outcome.events if line["event"] == "unexpected_error"]
    for job in outcome.jobs:
        if len(set(job.ids)) > 1:
            found.append(f"{job.vector.name}: several ids {job.ids}")
        if job.proof is not None and not job.provable:
            found.append(f"{job.vector.name}: a false statement was proved")
        if job.proof is None and job.end is not None and not failed_as_expected(job):
            found.append(f"{job.vector.name}: failed with {job.error!r}")
    proved = [job for job in outcome.jobs if job.proof is not None and job.provable]
    return found + false_proofs(proved, keys_dir, independently)


def failed_as_expected(job: Job) -> bool:
    """Return True if a failure has an expected reason."""
    if job.provable:
        return QUARANTINED in job.error
    return "constraint" in job.error and "is not satisfied" in job.error


def false_proofs(jobs: list[Job], keys_dir: Path, independently: int) -> list[str]:
    """Verify all proofs, and the first few also by the independent implementation."""
    wrong = []
    with Engine() as engine:
        keys = VerifyingKeys(keys_dir, engine)
        for number, job in enumerate(jobs):
            [key] = keys.find(circuit(job.vector.circuit))
            proof = job.proof or {}
            try:
                key.verify(read_proof(json.dumps(proof).encode()), scalars(job.vector.public_inputs))
            except ProofFailed as error:
                wrong.append(f"{job.vector.name}: {error.detail}")
            if number < independently and not holds(IndependentKey.read(key.write()), proof, job.vector.public_inputs):
                wrong.append(f"{job.vector.name}: the proof does not verify")
    return wrong


def report_of(outcome: Outcome) -> Report:
    """Return the injected faults and the outcomes of the jobs."""
    report, jobs = Report({"injected faults": []}), outcome.jobs
    for kind in sorted({fault.kind for fault in outcome.injected}):
        times = [fault.ready_s for fault in outcome.injected if fault.kind == kind]
        ready = {"ready_again_median_s": round(statistics.median(times), 1), "slowest_s": round(max(times), 1)}
        report.tables["injected faults"].append({"fault": kind, "times": len(times), **ready})
    refused = sum(job.end is not None and job.proof is None and "is not satisfied" in job.error for job in jobs)
    returns = sorted(outcome.returns())
    report.figures = {
        "jobs": len(jobs),
        "seconds": round(outcome.seconds),
        "faults injected": len(outcome.injected),
        "proofs": sum(job.proof is not None for job in jobs),
        "false statements refused": refused,
        "quarantined": sum(QUARANTINED in job.error for job in jobs),
        "lost": sum(any(fault.startswith("lost") for fault in job.faults) for job in jobs),
        "duplicates proved, their results ignored": outcome.count("outcome_ignored"),
        "put back": outcome.count("job_requeued"),
        "submissions repeated": sum(job.resent for job in jobs),
        "answered without the queue while Redis was away": sum(job.end is not None and not job.ids for job in jobs),
        "jobs of killed or stopped workers": len(returns),
        "free for others after s (median, slowest)": [round(statistics.median(returns), 1), round(returns[-1], 1)]
        if returns
        else [],
    }
    return report


def keys_in(folder: Path, names: Iterable[str]) -> Path:
    """Return the folder, with links to the published and the small batch keys; those of ``names`` are prepared."""
    batches = reference_batch_keys.tested_keys_dir()
    for source in (reference_fixtures.proving_keys_dir(), batches):
        for key in source.glob("*.key"):
            (folder / key.name).symlink_to(key)
    words = [word for name in sorted(names) for word in ("--circuit", name)]
    # Not folded: no proof is timed here.
    subprocess.run(
        [PROVER, "keys", "prepare", "--no-fold", "--keys-dir", folder, *words], check=True, stdout=sys.stderr
    )
    return folder


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("--jobs", type=int, default=200, help="jobs in all (default 200)")
    parser.add_argument("--batch-proofs", type=int, default=40, help="provable batches included (default 40)")
    parser.add_argument(
        "--circuits", default=",".join(sorted(PUBLISHED)), help="circuits of the other jobs (default: published)"
    )
    parser.add_argument("--independent", type=int, default=30, help="proofs verified by other code, too (default 30)")
    parser.add_argument("--pause", type=float, default=8, help="maximum seconds from fault to fault (default 8)")
    parser.add_argument("--rounds", type=int, default=5, help="how often each fault is injected (default 5)")
    parser.add_argument("--lease-s", type=float, default=10, help="PROVER_QUEUE__LEASE_S (default 10)")
    parser.add_argument("--attempts", type=int, default=3, help="PROVER_QUEUE__ATTEMPTS (default 3)")
    parser.add_argument(
        "--patience", type=float, default=1500, help="seconds until a job counts as lost (default 1500)"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of jobs and faults (default 1)")
    parser.add_argument("--logs", type=Path, help="folder that keeps logs and data")


def run(options: argparse.Namespace) -> Report:
    """Soak a queue, and judge what came of the jobs."""
    with tempfile.TemporaryDirectory() as keys, tempfile.TemporaryDirectory() as data:
        batches = BATCH if options.batch_proofs else frozenset()
        keys_dir = keys_in(Path(keys), batches | set(options.circuits.split(",")))
        folder = options.logs or Path(data)
        folder.mkdir(parents=True, exist_ok=True)
        outcome = soak(options, keys_dir, folder)
        report, faults = report_of(outcome), faults_of(outcome, keys_dir, options.independent)
    report.require("no job is lost or ends wrongly, proofs verify", not faults, "; ".join(faults) or "no fault")
    return report
