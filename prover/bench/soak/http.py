"""Thousands of good, bad, abandoned and broken requests: the answers are as expected and memory stays flat.

Starts `prover start` on the published keys, warms it up, sends a fixed mixture of requests from several clients at
once, and samples the resident memory of the process. Exit status 1 if an answer is unexpected or missing, or if memory
or open files grow.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import statistics
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import aiohttp
import reference_fixtures
from bench_report import Report, percentile
from process_figures import MIB
from proof_requests import CASES, REQUESTS
from prover_server import OURS, REQUEST_DEADLINE_S, ServerProcess, running
from rich.console import Console
from rich.progress import Progress

REQUEST = json.loads((REQUESTS / f"{CASES['inclusion 32/1']}.json").read_text())
SAMPLES = 40


@dataclass
class Findings:
    """Answers, latencies, memory and open files of a run."""

    outcomes: Counter[str] = field(default_factory=Counter)
    unexpected: Counter[str] = field(default_factory=Counter)
    proof_s: list[float] = field(default_factory=list)
    resident: list[int] = field(default_factory=list)
    files: tuple[int, int] = (0, 0)

    @property
    def growth_bytes(self) -> int:
        """Return memory after the run minus memory after the warm-up, medians of a few samples."""
        edge = max(1, len(self.resident) // 8)
        return int(statistics.median(self.resident[-edge:]) - statistics.median(self.resident[:edge]))


@dataclass(frozen=True)
class Client:
    """One of several clients that send at the same time."""

    session: aiohttp.ClientSession
    server: ServerProcess
    rng: random.Random
    findings: Findings

    async def post(self, body: bytes, expected: int, name: str, path: str = "/prove") -> None:
        """Send a body and record the answer; 503 is expected under load."""
        async with self.session.post(f"http://127.0.0.1:{self.server.port}{path}", data=body) as response:
            await response.read()
            self.note(name, response.status, expected)

    def note(self, name: str, status: int, expected: int) -> None:
        """Count an answer."""
        self.findings.outcomes[f"{name}: {status}"] += 1
        if status not in (expected, 503):
            self.findings.unexpected[f"{name}: {status}, expected {expected}"] += 1

    def fresh(self, **changes: object) -> bytes:
        """Return a request with unique bytes, so that no proof is shared."""
        return json.dumps(REQUEST | {"unknown": self.rng.getrandbits(64)} | changes).encode()

    async def good(self) -> None:
        """Request a proof."""
        started = time.perf_counter()
        await self.post(self.fresh(), 200, "good")
        self.findings.proof_s.append(time.perf_counter() - started)

    async def wrong_hash(self) -> None:
        """Send a false statement."""
        await self.post(self.fresh(publicInputHash=hex(self.rng.getrandbits(250))), 400, "wrong hash")

    async def malformed(self) -> None:
        """Send a truncated body."""
        body = self.fresh()
        await self.post(body[: self.rng.randrange(len(body) - 1)], 400, "cut off")

    async def many_values(self) -> None:
        """Send a large body that is no request."""
        await self.post(b"[" + b"0," * 500_000 + b"0]", 400, "a million zeros")

    async def lost(self) -> None:
        """Send to an unknown path."""
        await self.post(b"x", 404, "unknown path", path="/nope")

    async def abandoned(self) -> None:
        """Close the connection while the proof is computed."""
        with contextlib.suppress(TimeoutError, aiohttp.ClientError):
            async with asyncio.timeout(self.rng.random() * 0.05):
                await self.post(self.fresh(), 200, "abandoned, answered before")
                return
        self.findings.outcomes["abandoned: no answer"] += 1

    async def broken(self) -> None:
        """Send bytes that are not HTTP."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        try:
            writer.write(self.rng.randbytes(self.rng.randrange(1, 2000)) + b"\r\n\r\n")
            writer.write_eof()
            with contextlib.suppress(ConnectionError):
                answer = await asyncio.wait_for(reader.read(), REQUEST_DEADLINE_S)
                self.note("broken framing", int(answer.split(b" ")[1]) if answer else 400, 400)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def pick(self) -> Callable[[], Awaitable[None]]:
        """Return the next request at random."""
        kinds = (self.good, self.wrong_hash, self.malformed, self.many_values, self.lost, self.abandoned, self.broken)
        chosen: Callable[[], Awaitable[None]] = self.rng.choices(kinds, weights=(10, 30, 33, 2, 14, 6, 5))[0]
        return chosen


async def soak(server: ServerProcess, requests: int, clients: int, seed: int) -> Findings:
    """Send the requests, after a tenth as many to warm up."""
    findings = Findings()
    timeout = aiohttp.ClientTimeout(total=REQUEST_DEADLINE_S)
    warm_up = max(clients, requests // 10)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("requests", total=warm_up + requests)
        async with aiohttp.ClientSession(timeout=timeout) as session:

            async def run(count: int, seed: int, every: int) -> None:
                left = iter(range(count))

                async def client(number: int) -> None:
                    me = Client(session, server, random.Random(seed * 1000 + number), findings)
                    for turn in left:
                        await me.pick()()
                        progress.advance(bar)
                        if every and turn % every == 0:
                            findings.resident.append(server.resident_bytes)

                await asyncio.gather(*(client(number) for number in range(clients)))

            await run(warm_up, seed, 0)
            files = server.open_files
            await run(requests, seed + 1, max(1, requests // SAMPLES))
            await Client(session, server, random.Random(seed), findings).good()
            findings.files = files, server.open_files
    return findings


def judge(findings: Findings, options: argparse.Namespace) -> Report:
    """Return counts, times and memory, and what they must be."""
    report = Report(
        {"answers": [{"request: status": name, "count": n} for name, n in sorted(findings.outcomes.items())]}
    )
    growth_mib = findings.growth_bytes / MIB
    report.figures = {
        "proof p50, p95 s": [round(percentile(findings.proof_s, percent), 3) for percent in (50, 95)],
        "resident MiB, maximum": round(max(findings.resident) / MIB, 1),
    }
    report.require("answers are as expected", not findings.unexpected, dict(findings.unexpected))
    bound = f"growth of memory: at most {options.growth_mib:g} MiB"
    report.require(bound, growth_mib <= options.growth_mib, f"{growth_mib:+.1f} MiB")
    first, last = findings.files
    report.require("open files do not grow", last <= first + options.clients + 8, f"{first}, then {last}")
    report.require("proofs are made", findings.outcomes["good: 200"] > 0, findings.outcomes["good: 200"])
    return report


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("--requests", type=int, default=10_000, help="requests after the warm-up (default 10000)")
    parser.add_argument("--clients", type=int, default=16, help="clients that send at once (default 16)")
    parser.add_argument("--growth-mib", type=float, default=24, help="tolerated growth of memory, MiB (default 24)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the mixture (default 1)")


def run(options: argparse.Namespace) -> Report:
    """Soak a server of ours."""
    # A slow machine is no fault here.
    patience = {f"PROVER_PROVING__{name}_DEADLINE_S": str(REQUEST_DEADLINE_S) for name in ("MERKLE", "BATCH")}
    with running(OURS, reference_fixtures.proving_keys_dir(), variables=patience) as server:
        findings = asyncio.run(soak(server, options.requests, options.clients, options.seed))
    return judge(findings, options)
