"""Foresters that share a network under traffic, kills and faults: all work is done, and done once.

Starts `localnet up`, a prover that is simulated (or, with --keys-dir, real), and foresters with keys and weights of
their own. For some epochs users make traffic of every kind while foresters are killed with SIGKILL and started again,
transactions vanish, and the prover and the indexer fail. Then faults end, and the foresters empty the queues. Exit
status 1 if a bound is missed:

  - every queue holds less than a batch, and the roots of all trees on chain are those of the indexer
  - at most 2 % of the transactions were for work that was done already, by another forester or the same one
  - at most 2 % of the proofs were made again though nobody was killed and nothing failed since the first time
  - no proof that was in a journal when its process was killed was computed again
  - every forester reported its work for every epoch, unless it was being started, killed and started again for
    nearly all of the registration or the report phase
  - no defect is in the log

Proofs are counted between the foresters and the prover, by what they prove; transactions by the foresters' logs.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench_report import Report
from fleet import Member, admit
from network import FIRST_EPOCH, FIRST_SLOT, INITIAL_TRAFFIC, Network, log_line, running_network, waiting
from proof_log import ProofLog
from prover_server import OURS, running
from soak_verdict import SlotTimes, Span, judge

from forester.network_status.state import NetworkState

TRAFFIC = (
    *({"compress": 5}, {"compress": 5}, {"compress": 5}, {"spend": 4}, {"spend": 4}),
    *({"addresses": 1},) * 8,
    *({"v1_compress": 3}, {"v1_spend": 1}, {"v1_spend": 1}, {"v1_addresses": 1}, {"v1_addresses": 1}),
)
"""A round in small parts: while it makes traffic the network answers no call and reports no slot."""

FAULTS: tuple[dict[str, Any], ...] = (
    {"dropEvery": 3},
    {"proverDown": True},
    {"proverCut": True},
    {"proverDelayMs": 1500},
    {"indexerLag": 10},
    {"indexerTooManyRequests": True},
)
NO_FAULTS = {name: type(value)() for fault in FAULTS for name, value in fault.items()}
POLL_S = 1.0


@dataclass
class Run:
    """State of a run."""

    options: argparse.Namespace
    network: Network
    members: list[Member]
    chance: random.Random
    environments: dict[int, dict[str, str]]
    """Variables of each member, by number."""
    faults: Counter[str] = field(default_factory=Counter)
    over: bool = False
    fault_spans: list[Span] = field(default_factory=list)
    seen: list[tuple[float, int]] = field(default_factory=list)
    """Times of slots, Unix seconds."""

    async def traffic(self) -> None:
        """Send users' traffic until cancelled."""
        while True:
            for part in self.chance.sample(TRAFFIC, len(TRAFFIC)):
                await self.network.seed(part)
                await asyncio.sleep(self.options.traffic_every / len(TRAFFIC))

    async def kills(self, slots: tuple[int, int]) -> None:
        """Send SIGKILL at a random slot of each span; restart the process after up to three seconds."""
        first, count = slots[0], self.options.kills
        span = (slots[1] - first) / max(1, count)
        at = [round(first + span * (number + self.chance.random())) for number in range(count)]
        restarts = set[asyncio.Task[None]]()
        for slot in at:
            await self.reach(slot)
            alive = [member for member in self.members if member.process is not None]
            if alive:
                fewest = min(len(member.lives) for member in alive)
                victim = self.chance.choice([member for member in alive if len(member.lives) == fewest])
                restarts.add(asyncio.create_task(self._killed(victim)))
        if restarts:
            await asyncio.gather(*restarts)

    async def _killed(self, member: Member) -> None:
        log_line(f"   kill -9 of forester {member.number}")
        await asyncio.to_thread(member.kill)
        await asyncio.sleep(self.chance.uniform(0.1, 3))
        if not self.over:
            self.start(member)

    def start(self, member: Member) -> None:
        """Start a process of a forester."""
        member.start(self.environments[member.number])

    async def failures(self) -> None:
        """Inject one fault after another, each for some seconds with a pause after it, until cancelled."""
        while True:
            await asyncio.sleep(self.options.fault_every * self.chance.uniform(0.5, 1.5))
            fault, began = self.chance.choice(FAULTS), time.time()
            self.faults[next(iter(fault))] += 1
            log_line(f"   fault {fault}")
            try:
                await self.network.call("localnet_faults", fault)
                await asyncio.sleep(self.chance.uniform(1, 6))
            finally:
                await self.network.call("localnet_faults", NO_FAULTS)
                self.fault_spans.append((began, time.time()))

    async def reach(self, slot: int) -> None:
        """Wait for a slot; a process that ended unexpectedly ends the run."""
        while True:
            now = await self.network.rpc.slot()
            self.seen.append((time.time(), now))
            if now >= slot:
                return
            for member in self.members:
                _ = member.process and member.pid
            await asyncio.sleep(min(POLL_S, self.options.slot_ms / 100))

    async def run_epochs(self, epochs: list[int]) -> NetworkState:
        """Run epochs under traffic and faults, then without; return the state when the work is done or time is over."""
        times = self.network.times
        first, last = times.phases(epochs[0]).active.first, times.phases(epochs[-1]).active.last
        await self.network.seed(INITIAL_TRAFFIC)
        for member in self.members:
            self.start(member)
        log_line(f"{len(self.members)} foresters; epochs {epochs[0]} to {epochs[-1]} last until slot {last}")
        await self.reach(first)
        background = [asyncio.create_task(self.traffic())]
        if self.options.fault_every:
            background.append(asyncio.create_task(self.failures()))
        await self.kills((first, last - 20))
        await self.reach(last)
        for task in background:
            task.cancel()
        await asyncio.gather(*background, return_exceptions=True)
        log_line(
            f"traffic and faults end: {dict(self.network.made)}, {self.network.refused} refused; {dict(self.faults)}"
        )
        return await self.drained(epochs, times.phases(epochs[-1]).report_work.last)

    async def drained(self, epochs: list[int], last_report: int) -> NetworkState:
        """Wait until no work waits and every forester has reported, or the report phase is over."""
        ends = time.monotonic() + self.options.patience
        while True:
            state = await self.network.state()
            self.seen.append((time.time(), state.slot))
            reports = [item.has_reported_work for epoch in epochs for item in state.registrations.get(epoch, ())]
            left = waiting(state)
            reported = sum(reports) == len(epochs) * len(self.members) or state.slot > last_report
            if (not left and reported) or time.monotonic() > ends:
                return state
            log_line(f"   slot {state.slot}: waiting {left or 'nothing'}, {sum(reports)} reports")
            await asyncio.sleep(5 * POLL_S)


async def run(options: argparse.Namespace, folder: Path) -> Report:
    """Run foresters through all epochs, and judge their work."""
    began, proof_log = time.monotonic(), ProofLog()
    epochs = list(range(FIRST_EPOCH, FIRST_EPOCH + options.epochs))
    members = [
        Member(number, weight, folder / f"forester-{number}") for number, weight in enumerate(options.weights, start=1)
    ]
    async with AsyncExitStack() as stack:
        words = ["--slot-ms", str(options.slot_ms), "--first-slot", str(FIRST_SLOT)]
        if options.keys_dir is not None:
            prover = stack.enter_context(running(OURS, options.keys_dir.resolve()))
            words += ["--keys-dir", str(options.keys_dir), "--prover-url", f"http://127.0.0.1:{prover.port}"]
        network = await stack.enter_async_context(running_network(*words))
        environments = {}
        for member in members:
            proxy = proof_log.before(network.net.environment["PROVER_URL"], member.number)
            url = await stack.enter_async_context(proxy)
            environments[member.number] = network.net.environment | {"PROVER_URL": url}
        state_of_run = Run(options, network, members, random.Random(options.seed), environments)
        try:
            admit(network.net, members)
            state = await state_of_run.run_epochs(epochs)
            different = await network.differing_roots()
        finally:
            state_of_run.over = True
            statuses = await asyncio.gather(*(asyncio.to_thread(member.stop) for member in members))
        slots = SlotTimes(network.times, state_of_run.seen)
        report = judge(members, proof_log, state, different, epochs, state_of_run.fault_spans, slots)
    report.require("every forester ends with status 0", set(statuses) <= {0}, statuses)
    report.figures |= {"traffic": dict(network.made), "faults": dict(state_of_run.faults)}
    report.figures["seconds"] = round(time.monotonic() - began)
    return report


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.epilog = """examples:
  bench.py forester shared                              two epochs with kills and faults, some five minutes
  bench.py forester shared --kills 100 --epochs 8       a long one
  bench.py forester shared --kills 0 --fault-every 0    how much foresters disturb each other when nothing fails
  bench.py forester shared --keys-dir keys-cache/development real proofs (`prover keys dev --run-mode local-rpc`)
"""
    add = parser.add_argument
    add("--weights", type=int, nargs="+", default=[1, 2, 3], help="weight of each forester (1 2 3)")
    add("--epochs", type=int, default=2, help="epochs under traffic and faults, 200 slots each (2)")
    add("--kills", type=int, default=6, help="SIGKILLs at random points, 0 for none (6)")
    add("--fault-every", type=float, default=15, help="seconds between faults; 0 for none (15)")
    add("--traffic-every", type=float, default=8, help="seconds between rounds of users' traffic (8)")
    add(
        "--slot-ms",
        type=float,
        default=400,
        help="milliseconds per slot; a cluster has 400, fewer are faster (400)",
    )
    add("--keys-dir", type=Path, help="proving keys of batch size 10: a prover makes real proofs (simulated ones)")
    add("--patience", type=float, default=240, help="seconds to empty the queues when traffic has ended (240)")
    add("--seed", type=int, default=7, help="seed of the random choices; timing still varies (7)")
