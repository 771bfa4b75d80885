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
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import aiohttp
import reference_fixtures
from bench_server import OURS, ServerProcess, running
from proof_requests import CASES, REQUEST_DEADLINE_S, REQUESTS
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

REQUEST = json.loads((REQUESTS / f"{CASES['inclusion 32/1']}.json").read_text())
SAMPLES = 40
MIB = 2**20


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


def report(findings: Findings, console: Console) -> None:
    """Print counts, memory and times."""
    table = Table("request: status", "count")
    for outcome, count in sorted(findings.outcomes.items()):
        table.add_row(outcome, str(count))
    console.print(table)
    times = sorted(findings.proof_s)
    percentiles = ", ".join(f"p{p} {times[min(len(times) - 1, len(times) * p // 100)]:.3f} s" for p in (50, 95, 99))
    first, last, most = findings.resident[0], findings.resident[-1], max(findings.resident)
    console.print(f"proofs: {percentiles}")
    console.print(
        f"resident memory: {first / MIB:.1f} MiB after the warm-up, {last / MIB:.1f} at the end, at most "
        f"{most / MIB:.1f}; growth {findings.growth_bytes / MIB:+.1f} MiB"
    )
    console.print(f"open files: {findings.files[0]} after the warm-up, {findings.files[1]} at the end")


def faults(findings: Findings, growth_mib: float, clients: int) -> list[str]:
    """Return the faults found."""
    found = [f"{what} ({count} times)" for what, count in findings.unexpected.items()]
    if findings.growth_bytes > growth_mib * MIB:
        found.append(f"memory grew by {findings.growth_bytes / MIB:.1f} MiB, more than {growth_mib:g}")
    if findings.files[1] > findings.files[0] + clients + 8:
        found.append(f"open files grew from {findings.files[0]} to {findings.files[1]}")
    if not any(outcome == "good: 200" for outcome in findings.outcomes):
        found.append("no proof was made")
    return found


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("--requests", type=int, default=10_000, help="requests after the warm-up (default 10000)")
    parser.add_argument("--clients", type=int, default=16, help="clients that send at once (default 16)")
    parser.add_argument("--growth-mib", type=float, default=24, help="tolerated growth of memory, MiB (default 24)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the mixture (default 1)")


def main(options: argparse.Namespace) -> int:
    """Measure, print, and return the exit status."""
    # A slow machine is no fault here.
    patience = {f"PROVER_PROVING__{name}_DEADLINE_S": str(REQUEST_DEADLINE_S) for name in ("MERKLE", "BATCH")}
    with running(OURS, reference_fixtures.proving_keys_dir(), variables=patience) as server:
        findings = asyncio.run(soak(server, options.requests, options.clients, options.seed))
    report(findings, Console(width=None if sys.stdout.isatty() else 120))
    found = faults(findings, options.growth_mib, options.clients)
    for fault in found:
        print(f"fault: {fault}", file=sys.stderr)
    return 1 if found else 0
