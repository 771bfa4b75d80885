"""Jobs for measurements of the queue, and a client that follows each job until it ends.

The client repeats requests without an answer, as the HTTP contract allows, and records answers that it forbids.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from golden_vectors import BATCH, RequestVector, provable_with

TREES = 5
PAUSE_S = 0.1
QUARANTINED = "gave up after"


@dataclass
class Job:
    """One request and its outcome."""

    vector: RequestVector
    body: bytes
    provable: bool
    ids: list[str] = field(default_factory=list)
    end: dict[str, Any] | None = None
    """The final answer; one from a synchronous proof has no ``status``."""
    ended_at: float = 0.0
    resent: int = 0
    """Submissions that got no answer or 503."""
    faults: list[str] = field(default_factory=list)
    """Answers that the contract forbids."""

    @property
    def proof(self) -> dict[str, Any] | None:
        """Return the proof; None without one."""
        if self.end is None or self.end.get("status") == "failed":
            return None
        proof: dict[str, Any] = self.end["result"]["proof"] if "result" in self.end else self.end
        return proof

    @property
    def error(self) -> str:
        """Return the reason of a failure; empty without one."""
        return str(self.end.get("error", "")) if self.end else ""


def made_jobs(count: int, seed: int, batch_proofs: int, circuits: Iterable[str]) -> list[Job]:
    """Return mixed jobs in random order: ``batch_proofs`` batches, a quarter unprovable, the others of ``circuits``.

    No two bodies are equal: each has its own value of a member that the service ignores.
    """
    rng = random.Random(seed)
    small, batches = provable_with(frozenset(circuits)), provable_with(BATCH)
    unprovable = count // 4
    chosen = [(batches[number % len(batches)], True) for number in range(batch_proofs)]
    chosen += [(rng.choice(small + batches), False) for _ in range(unprovable)]
    chosen += [(rng.choice(small), True) for _ in range(count - len(chosen))]
    rng.shuffle(chosen)
    return [_job(vector, provable, number, rng) for number, (vector, provable) in enumerate(chosen)]


def _job(vector: RequestVector, provable: bool, number: int, rng: random.Random) -> Job:
    request = vector.request | {"unknown": f"{number}-{rng.getrandbits(64):x}"}
    if rng.random() < 0.8:
        request |= {"treeId": f"tree-{rng.randrange(TREES)}", "batchIndex": number}
    if not provable:
        _spoil(request)
    return Job(vector, json.dumps(request).encode(), provable)


def _spoil(request: dict[str, Any]) -> None:
    """Make a statement false in a way that only its prechecks or its circuit detect."""
    if "oldRoot" in request:
        request["oldRoot"] = "0x1"
        return
    for account in request.get("inputCompressedAccounts", []):
        account["root"] = "0x1"
    for address in request.get("newAddresses", []):
        address["root"] = "0x1"


class Client:
    """A client that follows jobs."""

    def __init__(self, session: aiohttp.ClientSession, server: str, deadline: float) -> None:
        """Use ``server``, a base address, until ``deadline``, a value of the monotonic clock."""
        self._session = session
        self._server = server
        self._deadline = deadline

    async def see_through(self, job: Job) -> None:
        """Submit a job and poll its status until it is final."""
        if await self._submit(job) is None:
            return
        while not await self.ask(job):
            if self._is_late(job):
                return
            await asyncio.sleep(PAUSE_S)

    async def ask(self, job: Job) -> bool:
        """Poll the status once; return True if it is final."""
        status, answer = await self._call("GET", f"/prove/status?job_id={job.ids[-1]}")
        if status in (0, 500, 503):
            return False
        if status == 404:
            job.faults.append("lost: job_not_found")
        elif status not in (200, 202) or answer.get("job_id") != job.ids[-1]:
            job.faults.append(f"status answered {status} {answer}")
        state = answer.get("status")
        if state not in ("completed", "failed"):
            if job.end is not None:
                job.faults.append(f"final, then {state}")
            return False
        if job.end is not None and job.end != answer:
            job.faults.append(f"ended twice: {job.end} and {answer}")
        if job.end is None:
            job.end, job.ended_at = answer, time.time()
        return True

    async def _submit(self, job: Job) -> str | None:
        """Return the job's id; None if there is no job to wait for."""
        while not self._is_late(job):
            status, answer = await self._call("POST", "/prove", job.body, {"X-Async": "true"})
            if status == 202:
                job.ids.append(str(answer["job_id"]))
                return job.ids[-1]
            if status in (200, 400):  # Redis was away: a small circuit was proved at once
                job.ended_at = time.time()
                job.end = answer if status == 200 else {"status": "failed", "error": answer.get("message", "")}
                return None
            if status not in (0, 408, 503):
                job.faults.append(f"submission answered {status} {answer}")
                return None
            job.resent += 1
            await asyncio.sleep(PAUSE_S)
        return None

    def _is_late(self, job: Job) -> bool:
        late = time.monotonic() > self._deadline
        if late:
            job.faults.append("lost: no end in time")
        return late

    async def _call(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Return status and JSON of an answer; status 0 without an answer."""
        try:
            async with self._session.request(method, self._server + path, data=body, headers=headers) as response:
                answer: dict[str, Any] = await response.json(content_type=None)
                return response.status, answer
        except (aiohttp.ClientError, TimeoutError, ValueError):
            return 0, {}
