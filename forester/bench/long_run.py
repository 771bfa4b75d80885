"""24 hours of a forester at an accelerated clock: its memory stays flat, and it reports every epoch.

Starts `localnet up` with simulated proofs and epochs of half an hour, and a forester whose monitoring API is scraped.
The clock of the chain is moved ahead many slots at once, most of which have no block, so that a blockhash stays valid
as long as on a cluster's clock; users make traffic all the time. Exit status 1 if a bound is missed:

  - after the warm-up (a quarter of the run) memory grows by at most 6 MiB
  - threads, open files, tasks and rows of the journal are as many at the end as after the warm-up, within a few
  - every epoch is reported, nothing is left in the queues, no task crashed
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import json
import statistics
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from forester_fleet import Member, admit
from line_chart import Series, write_chart
from localnet_process import Localnet, running_localnet
from process_figures import Figures, figures_of
from rich.console import Console
from rich.table import Table
from soak_verdict import Verdict, waiting

from forester.chain.programs.addresses import PROTOCOL_CONFIG
from forester.chain.registry_accounts import decode_protocol_config
from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RpcPool
from forester.epoch.phases import ProtocolTimes
from forester.network_status.epochs import protocol_times
from forester.network_status.reader import read_network
from forester.network_status.state import NetworkState
from forester.units import SLOT_SECONDS

EPOCH_SLOTS = 4500
"""Half an hour."""
PHASES = {"registration": EPOCH_SLOTS // 2, "active": EPOCH_SLOTS, "report": EPOCH_SLOTS // 2}
FIRST_EPOCH = 3
_PHASES_AT = 41 + 3 * 8
"""Where the protocol configuration has the lengths of registration, active and report phase.

Source: forester/docs/reference/accounts.md, "Registry accounts".
"""

BEGINNING = {"compress": 20, "v1_compress": 12, "addresses": 10}
TRAFFIC = ({"compress": 10}, {"spend": 5}, {"addresses": 5}, {"v1_compress": 2}, {"v1_spend": 1}, {"v1_addresses": 1})
TICK_S = 0.1
MOST_GROWTH_MIB = 6.0
MOST_MORE = {"threads": 8, "files": 4, "rows": 20, "tasks": 30}
_WARM_UP = 0.25
_EDGE = 8
_START_DEADLINE_S = 120.0


@dataclass(frozen=True)
class Sample:
    """A process after some simulated hours."""

    hours: float
    figures: Figures
    tasks: int
    waiting: int

    @property
    def values(self) -> dict[str, float]:
        """Return the values that must not grow, by name."""
        rows = sum(self.figures.rows.values())
        return {"threads": self.figures.threads, "files": self.figures.files, "rows": rows, "tasks": self.tasks}


@dataclass
class Day:
    """A run as it goes."""

    options: argparse.Namespace
    net: Localnet
    rpc: RpcClient
    member: Member
    times: ProtocolTimes
    samples: list[Sample] = field(default_factory=list)
    made: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    scraped: int = 0

    async def call(self, method: str, *params: object) -> object:
        """Return the result of a method of localnet."""
        return await asyncio.to_thread(self.net.call, method, *params)

    async def seed(self, counts: dict[str, int]) -> None:
        """Send traffic; count what users are refused, for example because a queue is full."""
        try:
            await self.call("localnet_seed", counts)
            self.made.update(counts)
        except (AssertionError, urllib.error.URLError, TimeoutError):
            self.refused += 1

    async def traffic(self) -> None:
        """Send users' traffic until cancelled."""
        while True:
            for counts in TRAFFIC:
                await self.seed(counts)
                await asyncio.sleep(self.options.traffic_every / len(TRAFFIC))

    async def clock(self, last: int) -> None:
        """Move the chain to a slot, at the pace that is asked for."""
        step = max(1, round(self.options.slots_per_second * TICK_S))
        slot, due = await self.rpc.slot("processed"), time.monotonic()
        while slot < last:
            due = max(due + TICK_S, time.monotonic())
            slot = min(slot + step, last)
            await self.call("localnet_warp", slot)
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def looks(self, first: int) -> None:
        """Take a sample again and again, until cancelled."""
        while True:
            await asyncio.sleep(self.options.sample_every)
            await self.look(first)

    async def look(self, first: int) -> None:
        """Take a sample."""
        process = self.member.process
        if process is None or process.poll() is not None:
            raise RuntimeError(f"the forester has ended: {self.member.log.read_text()[-2000:]}")
        await asyncio.to_thread(self._scrape)
        state = await read_network(self.rpc)
        hours = (state.slot - first) * SLOT_SECONDS / 3600
        figures = await asyncio.to_thread(figures_of, process.pid, self.member.journal)
        tasks = self._last("heartbeat", "tasks")
        self.samples.append(Sample(hours, figures, tasks, sum(waiting(state).values())))
        print(f"{hours:5.1f} h  {figures.resident_mib:.1f} MiB  {tasks} tasks", file=sys.stderr, flush=True)

    def _last(self, event: str, name: str) -> int:
        return max((0, *[int(line[name]) for line in self.member.lines() if line["event"] == event][-1:]))

    def _scrape(self) -> None:
        """Read what a monitoring system reads."""
        [place] = {line["address"] for line in self.member.lines() if line["event"] == "api_listening"}
        for path in ("metrics", "metrics/json", "status", "health"):
            with (
                contextlib.suppress(urllib.error.HTTPError),
                urllib.request.urlopen(f"http://{place}/{path}", timeout=30) as answer,
            ):
                answer.read()
                self.scraped += 1

    async def until(self, true: Callable[[NetworkState], bool], within_s: float) -> NetworkState:
        """Wait for a state, or give it up; the clock goes on slowly."""
        ends = time.monotonic() + within_s
        while True:
            state = await read_network(self.rpc, all_epochs=True)
            if true(state) or time.monotonic() > ends:
                return state
            await self.call("localnet_advance", 1)
            await asyncio.sleep(TICK_S)


async def live(day: Day) -> Verdict:
    """Run the whole day; return the verdict."""
    epochs = range(FIRST_EPOCH, FIRST_EPOCH + max(1, round(day.options.hours * 3600 / SLOT_SECONDS / EPOCH_SLOTS)))
    first, last = day.times.phases(epochs[0]).active.first, day.times.phases(epochs[-1]).active.last
    await day.seed(BEGINNING)
    await day.until(lambda _: day._last("epoch_state", "slot") > 0, _START_DEADLINE_S)
    await day.clock(first)
    background = [asyncio.create_task(work) for work in (day.traffic(), day.looks(first))]
    try:
        await day.clock(last)
    finally:
        for task in background:
            task.cancel()
        ended = await asyncio.gather(*background, return_exceptions=True)
    for error in ended:
        if isinstance(error, Exception):
            raise error

    def done(state: NetworkState) -> bool:
        return not waiting(state) and not _unreported(day, state, epochs)

    state = await day.until(done, 120.0)
    return judge(day, state, epochs)


def _unreported(day: Day, state: NetworkState, epochs: range) -> list[int]:
    ours = day.member.payer.pubkey()
    reported = {
        epoch
        for epoch, items in state.registrations.items()
        if any(item.authority == ours and item.has_reported_work for item in items)
    }
    return [epoch for epoch in epochs if epoch not in reported]


def judge(day: Day, state: NetworkState, epochs: range) -> Verdict:
    """Compare what happened with what must be."""
    verdict = Verdict()
    warm = day.samples[int(len(day.samples) * _WARM_UP) :]
    steady = [sample for sample in warm if sample.tasks] or warm
    edge = max(1, len(steady) // _EDGE)
    early, late = steady[:edge], steady[-edge:]

    def growth(of: Callable[[Sample], float]) -> float:
        return statistics.median(map(of, late)) - statistics.median(map(of, early))

    grown = growth(lambda sample: sample.figures.resident_mib)
    verdict.require(f"memory grows by at most {MOST_GROWTH_MIB:g} MiB", grown <= MOST_GROWTH_MIB, f"{grown:+.1f} MiB")
    for name, most in MOST_MORE.items():
        more = growth(lambda sample, name=name: sample.values[name])  # type: ignore[misc]
        verdict.require(f"{name}: at most {most} more", more <= most, f"{more:+g}")
    unreported = _unreported(day, state, epochs)
    verdict.require("every epoch is reported", not unreported, str(unreported or f"{len(epochs)} epochs"))
    left = waiting(state)
    verdict.require("every queue holds less than a batch", not left, str(left or "drained"))
    events = Counter(line["event"] for line in day.member.lines())
    verdict.require("no task crashed", not events["task_crashed"], str(events["task_crashed"]))
    verdict.figures = {
        "simulated_hours": round(len(epochs) * EPOCH_SLOTS * SLOT_SECONDS / 3600, 1),
        "resident_mib": [round(sample.figures.resident_mib, 1) for sample in day.samples],
        "mib_per_simulated_day": round(24 * slope(steady), 2),
        "transactions": events["transaction_confirmed"],
        "failed_transactions": events["transaction_failed"],
        "log_lines": sum(events.values()),
        "scrapes": day.scraped,
        "traffic": dict(day.made),
        "traffic_refused": day.refused,
    }
    return verdict


def slope(samples: list[Sample]) -> float:
    """Return the slope in MiB per simulated hour, by least squares."""
    if len(samples) < 2:
        return 0.0
    hours, sizes = [sample.hours for sample in samples], [sample.figures.resident_mib for sample in samples]
    return statistics.linear_regression(hours, sizes).slope


@asynccontextmanager
async def beginning(options: argparse.Namespace, folder: Path) -> AsyncIterator[Day]:
    """Run a network with epochs of half an hour, and a forester."""
    with running_localnet("--first-slot", str(FIRST_EPOCH * EPOCH_SLOTS - 10)) as net:
        async with AsyncExitStack() as stack:
            rpc = RpcClient(await stack.enter_async_context(RpcPool([net.url])))
            lengths = b"".join(length.to_bytes(8, "little") for length in PHASES.values())
            patch = {"offset": _PHASES_AT, "data": base64.b64encode(lengths).decode()}
            net.call("localnet_patchAccount", str(PROTOCOL_CONFIG), patch)
            config = await rpc.existing_account(PROTOCOL_CONFIG, "the protocol configuration")
            times = protocol_times(decode_protocol_config(config.data).config)
            member = Member(1, 1, folder)
            await admit(rpc, net.call, net.keys["authority"], [member])
            member.start(net.environment | {"API_SERVER_PORT": "0"}, net.environment["PROVER_URL"])
            try:
                yield Day(options, net, rpc, member, times)
            finally:
                if member.process is not None:
                    await asyncio.to_thread(member.stop)


async def run(options: argparse.Namespace, folder: Path) -> tuple[Verdict, list[Sample]]:
    """Run the whole measurement."""
    async with beginning(options, folder) as day:
        return await live(day), day.samples


def show(verdict: Verdict, samples: list[Sample], console: Console) -> None:
    """Print a table over the hours, and the bounds."""
    table = Table("simulated hour", "resident MiB", "", "threads", "files", "tasks", "journal rows", "waiting")
    most = max(sample.figures.resident_mib for sample in samples)
    for sample in samples[:: max(1, len(samples) // 24)]:
        bar = "█" * round(30 * sample.figures.resident_mib / most)
        counts = [f"{sample.values[name]:g}" for name in ("threads", "files", "tasks", "rows")]
        table.add_row(f"{sample.hours:.1f}", f"{sample.figures.resident_mib:.1f}", bar, *counts, str(sample.waiting))
    console.print(table)
    for name, value in verdict.figures.items():
        if name != "resident_mib":
            console.print(f"{name.replace('_', ' ')}: {value}")
    for check in verdict.checks:
        console.print(f"{'kept' if check.kept else '[red]MISSED[/red]'}  {check.name}: {check.found}")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    add = parser.add_argument
    add("--hours", type=float, default=24, help="simulated hours (24)")
    add("--slots-per-second", type=float, default=400, help="pace of the chain; a cluster has 2.5 (400)")
    add("--traffic-every", type=float, default=4, help="seconds between rounds of users' traffic (4)")
    add("--sample-every", type=float, default=5, help="seconds between samples of the process (5)")
    add("--chart", type=Path, help="SVG file for memory over simulated time")
    add("--logs", type=Path, help="folder in which log and journal stay")
    add("--json", action="store_true", help="print one JSON object, no tables")


def main(options: argparse.Namespace) -> int:
    """Run; return 0 if every bound was kept."""
    with tempfile.TemporaryDirectory(prefix="day-") as temporary:
        folder = options.logs or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        verdict, samples = asyncio.run(run(options, folder.resolve()))
    if options.chart is not None:
        points = [(sample.hours, sample.figures.resident_mib) for sample in samples]
        write_chart(options.chart, Series("resident memory of a forester", "simulated hours", "MiB", points))
    if options.json:
        result = verdict.as_object()
        del result["foresters"]
        print(json.dumps(result, indent=2))
    else:
        show(verdict, samples, Console(width=None if sys.stdout.isatty() else 140))
    return 0 if verdict.passed else 1
