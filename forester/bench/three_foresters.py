"""Foresters that share a network under traffic, kills and faults: no work is left, none is done twice.

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
  - no task crashed

Proofs are counted between the foresters and the prover, by what they prove; transactions by the foresters' logs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forester_fleet import Member, admit
from localnet_process import Localnet, running_localnet
from proof_ledger import Ledger, running_ledger
from rich.console import Console
from soak_prover import ProverUnusable, running_prover
from soak_roots import compared_roots
from soak_verdict import SlotTimes, Span, Verdict, judge, show, waiting

from forester.chain.programs.addresses import PROTOCOL_CONFIG
from forester.chain.registry_accounts import decode_protocol_config
from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RpcPool
from forester.epoch.phases import ProtocolTimes
from forester.errors import ForesterError
from forester.network_status.epochs import protocol_times
from forester.network_status.reader import read_network
from forester.network_status.state import NetworkState

FIRST_EPOCH = 3
FIRST_SLOT = 590
"""A little before the registration of FIRST_EPOCH opens, under the rules of the published fixtures."""

BEGINNING = {"compress": 20, "v1_compress": 12, "addresses": 10}
TRAFFIC = (
    *({"compress": 5}, {"compress": 5}, {"compress": 5}, {"spend": 4}, {"spend": 4}),
    *({"addresses": 1},) * 8,
    *({"v1_compress": 3}, {"v1_spend": 1}, {"v1_spend": 1}, {"v1_addresses": 1}, {"v1_addresses": 1}),
)
"""A round in small parts: while the network makes traffic, it answers no request and reports no slot."""

FAULTS: tuple[dict[str, Any], ...] = (
    {"dropEvery": 3},
    {"proverDown": True},
    {"proverCut": True},
    {"proverDelayMs": 1500},
    {"indexerLag": 10},
    {"indexerTooManyRequests": True},
)
WELL = {
    "dropEvery": 0,
    "proverDown": False,
    "proverCut": False,
    "proverDelayMs": 0,
    "indexerLag": 0,
    "indexerTooManyRequests": False,
}
POLL_S = 1.0


@dataclass
class Run:
    """A run as it goes."""

    options: argparse.Namespace
    net: Localnet
    rpc: RpcClient
    members: list[Member]
    chance: random.Random
    prover_of: Callable[[Member], str]
    made: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    over: bool = False
    troubles: list[Span] = field(default_factory=list)
    times: ProtocolTimes = field(init=False)
    seen: list[tuple[float, int]] = field(default_factory=list)
    """When slots were seen, Unix seconds."""

    async def call(self, method: str, *params: Any) -> Any:
        """Return the result of a method of localnet."""
        return await asyncio.to_thread(self.net.call, method, *params)

    async def seed(self, counts: dict[str, int]) -> None:
        """Send traffic; what users are refused while the indexer or the prover fails is counted only."""
        for kind, count in counts.items():
            try:
                self.made += Counter(await self.call("localnet_seed", {kind: count}))
            except (AssertionError, urllib.error.URLError, TimeoutError):
                self.refused += 1

    async def traffic(self) -> None:
        """Send users' traffic until cancelled."""
        while True:
            for part in self.chance.sample(TRAFFIC, len(TRAFFIC)):
                await self.seed(part)
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
        say(f"   kill -9 of {member.name}")
        await asyncio.to_thread(member.kill)
        await asyncio.sleep(self.chance.uniform(0.1, 3))
        if not self.over:
            self.start(member)

    def start(self, member: Member) -> None:
        """Start a process of a forester."""
        member.start(self.net.environment, self.prover_of(member))

    async def failures(self) -> None:
        """Inject one fault after another, each for some seconds with a pause after it, until cancelled."""
        while True:
            await asyncio.sleep(self.options.fault_every * self.chance.uniform(0.5, 1.5))
            fault, began = self.chance.choice(FAULTS), time.time()
            self.faults[next(iter(fault))] += 1
            say(f"   fault {fault}")
            try:
                await self.call("localnet_faults", fault)
                await asyncio.sleep(self.chance.uniform(1, 6))
            finally:
                await self.call("localnet_faults", WELL)
                self.troubles.append((began, time.time()))

    async def _slot(self) -> int:
        slot = await self.rpc.slot()
        self.seen.append((time.time(), slot))
        return slot

    async def reach(self, slot: int) -> None:
        """Wait for a slot; a process that ended by itself ends the run."""
        while await self._slot() < slot:
            for member in self.members:
                if member.process is not None and (status := member.process.poll()) is not None:
                    raise RunFailed(f"{member.name} ended with {status}: {member.log.read_text()[-2000:]}")
            await asyncio.sleep(min(POLL_S, self.options.slot_ms / 100))


class RunFailed(Exception):
    """The run could not be made; the message says why."""


def say(text: str) -> None:
    """Print one line of progress on standard error."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


async def run_through(run: Run, epochs: list[int]) -> NetworkState:
    """Run epochs under traffic and faults, then without; return the state when all is done or time is up."""
    config = await run.rpc.existing_account(PROTOCOL_CONFIG, "the protocol configuration")
    times = run.times = protocol_times(decode_protocol_config(config.data).config)
    first, last = times.phases(epochs[0]).active.first, times.phases(epochs[-1]).active.last
    await run.seed(BEGINNING)
    for member in run.members:
        run.start(member)
    say(f"{len(run.members)} foresters; epochs {epochs[0]} to {epochs[-1]} last until slot {last}")
    await run.reach(first)
    background = [asyncio.create_task(run.traffic())]
    if run.options.fault_every:
        background.append(asyncio.create_task(run.failures()))
    await run.kills((first, last - 20))
    await run.reach(last)
    for task in background:
        task.cancel()
    await asyncio.gather(*background, return_exceptions=True)
    say(f"traffic and faults end: {dict(run.made)}, {run.refused} refused; faults {dict(run.faults)}")
    return await drained(run, epochs, times.phases(epochs[-1]).report_work.last)


async def drained(run: Run, epochs: list[int], last_report: int) -> NetworkState:
    """Wait until nothing is left to do and every report is there, or no more can come."""
    ends = time.monotonic() + run.options.patience
    while True:
        state = await read_network(run.rpc, all_epochs=True)
        run.seen.append((time.time(), state.slot))
        reports = [item.has_reported_work for epoch in epochs for item in state.registrations.get(epoch, ())]
        left = waiting(state)
        reported = sum(reports) == len(epochs) * len(run.members) or state.slot > last_report
        if (not left and reported) or time.monotonic() > ends:
            return state
        say(f"   slot {state.slot}: waiting {left or 'nothing'}, {sum(reports)} reports")
        await asyncio.sleep(5 * POLL_S)


async def soak(options: argparse.Namespace, folder: Path) -> Verdict:
    """Run the whole soak."""
    began = time.monotonic()
    epochs = list(range(FIRST_EPOCH, FIRST_EPOCH + options.epochs))
    ledger = Ledger()
    with ExitStack() as processes:
        words = ["--slot-ms", str(options.slot_ms), "--first-slot", str(FIRST_SLOT)]
        if options.keys_dir is not None:
            prover = processes.enter_context(running_prover(folder, options.keys_dir))
            words += ["--keys-dir", str(options.keys_dir), "--prover-url", prover]
        net = processes.enter_context(running_localnet(*words))
        async with AsyncExitStack() as stack:
            pool = await stack.enter_async_context(RpcPool([net.url]))
            url = await stack.enter_async_context(
                running_ledger(ledger, net.environment["PROVER_URL"], proof_s=options.proof_seconds)
            )
            members = [
                Member(number, weight, folder / f"forester-{number}")
                for number, weight in enumerate(options.weights, start=1)
            ]
            for member in members:
                member.folder.mkdir(parents=True, exist_ok=True)
            rpc = RpcClient(pool)
            run = Run(options, net, rpc, members, random.Random(options.seed), lambda member: f"{url}/{member.number}")
            try:
                await admit(rpc, net.call, net.keys["authority"], members)
                state = await run_through(run, epochs)
                roots = await compared_roots(rpc, net, state)
            finally:
                run.over = True
                alive = [member for member in members if member.process is not None]
                statuses = await asyncio.gather(*(asyncio.to_thread(member.stop) for member in alive))
            verdict = judge(members, ledger, state, roots, epochs, run.troubles, SlotTimes(run.times, run.seen))
    verdict.require("every forester ends with status 0", set(statuses) <= {0}, str(statuses))
    verdict.figures["traffic"] = dict(run.made)
    verdict.figures["faults"] = dict(run.faults)
    verdict.figures["seconds"] = round(time.monotonic() - began)
    return verdict


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.epilog = """examples:
  bench.py forester-shared                              two epochs with kills and faults, some five minutes
  bench.py forester-shared --kills 100 --epochs 8       a long one
  bench.py forester-shared --kills 0 --fault-every 0    how much foresters disturb each other when nothing fails
  bench.py forester-shared --keys-dir keys-cache/development real proofs (`prover keys dev --mode local-rpc`)
"""
    add = parser.add_argument
    add("--weights", type=int, nargs="+", default=[1, 2, 3], help="weight of each forester (1 2 3)")
    add("--epochs", type=int, default=2, help="epochs under traffic and faults, 200 slots each (2)")
    add("--kills", type=int, default=6, help="SIGKILLs at random points, 0 for none (6)")
    add("--fault-every", type=float, default=15, help="seconds between faults; 0 for none (15)")
    add("--traffic-every", type=float, default=8, help="seconds between rounds of users' traffic (8)")
    add("--slot-ms", type=float, default=400, help="milliseconds per slot; a cluster has 400, less hurries all (400)")
    add("--keys-dir", type=Path, help="proving keys of batch size 10: a prover makes real proofs (simulated ones)")
    add("--proof-seconds", type=float, default=0, help="how much longer proofs take, of a prover of four at a time (0)")
    add("--patience", type=float, default=240, help="seconds to empty the queues when traffic has ended (240)")
    add("--seed", type=int, default=7, help="of the random choices; the network's own timing stays what it is (7)")
    add("--logs", type=Path, help="folder in which logs and journals stay")
    add("--json", action="store_true", help="print one JSON object, no tables")


def main(options: argparse.Namespace) -> int:
    """Run; return 0 if every bound was kept."""
    with tempfile.TemporaryDirectory(prefix="foresters-") as temporary:
        folder = options.logs or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            verdict = asyncio.run(soak(options, folder.resolve()))
        except (RunFailed, ProverUnusable, ForesterError) as error:
            say(f"the run failed: {error}")
            return 1
    if options.json:
        print(json.dumps(verdict.as_object(), indent=2))
    else:
        show(verdict, Console(width=None if sys.stdout.isatty() else 120))
    return 0 if verdict.passed else 1
