"""24 hours of a forester at an accelerated clock: its memory stays flat, and it reports every epoch.

Starts `localnet up` with simulated proofs and epochs of half an hour, and a forester whose monitoring API is scraped.
The clock of the chain is moved ahead many slots at once, most of which have no block, so that a blockhash stays valid
as long as on a cluster's clock; users make traffic all the time. Exit status 1 if a bound is missed:

  - after the warm-up (a quarter of the run) memory grows by at most 6 MiB
  - threads, open files, tasks and rows of the journal are as many at the end as after the warm-up, within a few
  - every epoch is reported, nothing is left in the queues, no defect is in the log
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench_report import Report
from fleet import DEFECTS, Member, admit
from line_chart import Point, draw
from network import FIRST_EPOCH, INITIAL_TRAFFIC, Network, has_reported, log_line, running_network, waiting
from process_figures import MIB, ProcessFigures

from forester.network_status.state import NetworkState
from forester.units import SLOT_SECONDS

EPOCH_SLOTS = 4500
"""Half an hour."""
PHASES = (EPOCH_SLOTS // 2, EPOCH_SLOTS, EPOCH_SLOTS // 2)
TRAFFIC = ({"compress": 10}, {"spend": 5}, {"addresses": 5}, {"v1_compress": 2}, {"v1_spend": 1}, {"v1_addresses": 1})
TICK_S = 0.1
MOST_MORE = {"resident_mib": 6.0, "threads": 8, "files": 4, "journal_rows": 20, "tasks": 30}
"""Growth after the warm-up that is tolerated."""
_WARM_UP = 0.25
_EDGE = 8
_START_DEADLINE_S = 120.0


@dataclass(frozen=True)
class Sample:
    """A process after some simulated hours."""

    hours: float
    resident_mib: float
    threads: int
    files: int
    tasks: int
    journal_rows: int
    waiting: int


@dataclass
class Day:
    """A run as it goes."""

    options: argparse.Namespace
    network: Network
    member: Member
    epochs: range
    samples: list[Sample] = field(default_factory=list)
    scraped: int = 0

    async def traffic(self) -> None:
        """Send users' traffic until cancelled."""
        while True:
            for counts in TRAFFIC:
                await self.network.seed(counts)
                await asyncio.sleep(self.options.traffic_every / len(TRAFFIC))

    async def clock(self, last: int) -> None:
        """Move the chain to a slot, at the pace that is asked for."""
        step = max(1, round(self.options.slots_per_second * TICK_S))
        slot, due = await self.network.rpc.slot("processed"), time.monotonic()
        while slot < last:
            due = max(due + TICK_S, time.monotonic())
            slot = min(slot + step, last)
            await self.network.call("localnet_warp", slot)
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def take_samples(self, first: int) -> None:
        """Take a sample again and again, until cancelled."""
        while True:
            await asyncio.sleep(self.options.sample_every)
            await asyncio.to_thread(self._scrape)
            state, process = await self.network.state(), ProcessFigures(self.member.pid)
            sample = Sample(
                hours=round((state.slot - first) * SLOT_SECONDS / 3600, 2),
                resident_mib=round(process.resident_bytes / MIB, 1),
                threads=process.threads,
                files=process.open_files,
                tasks=self.last("heartbeat", "tasks"),
                journal_rows=await asyncio.to_thread(self.member.journal_rows),
                waiting=sum(waiting(state).values()),
            )
            self.samples.append(sample)
            log_line(f"{sample.hours:5.1f} h  {sample.resident_mib:.1f} MiB  {sample.tasks} tasks")

    def last(self, event: str, name: str) -> int:
        """Return the last value that the forester logged; 0 without one."""
        return max((0, *[int(line[name]) for line in self.member.lines() if line["event"] == event][-1:]))

    def _scrape(self) -> None:
        """Read what a monitoring system reads."""
        [address] = {line["address"] for line in self.member.lines() if line["event"] == "api_listening"}
        for path in ("metrics", "metrics/json", "status", "health"):
            with (
                contextlib.suppress(urllib.error.HTTPError),
                urllib.request.urlopen(f"http://{address}/{path}", timeout=30) as answer,
            ):
                answer.read()
                self.scraped += 1

    async def until(self, is_so: Callable[[NetworkState], bool], within_s: float) -> NetworkState:
        """Wait for a state for a limited time; the clock advances slowly."""
        ends = time.monotonic() + within_s
        while True:
            state = await self.network.state()
            if is_so(state) or time.monotonic() > ends:
                return state
            await self.network.call("localnet_advance", 1)
            await asyncio.sleep(TICK_S)

    def unreported(self, state: NetworkState) -> list[int]:
        """Return the epochs whose work was not reported."""
        return [epoch for epoch in self.epochs if not has_reported(state, epoch, self.member)]

    async def live(self) -> NetworkState:
        """Run the whole day; return the state at its end."""
        times = self.network.times
        first, last = times.phases(self.epochs[0]).active.first, times.phases(self.epochs[-1]).active.last
        await self.network.seed(INITIAL_TRAFFIC)
        await self.until(lambda _: self.last("epoch_state", "slot") > 0, _START_DEADLINE_S)
        await self.clock(first)
        background = [asyncio.create_task(work) for work in (self.traffic(), self.take_samples(first))]
        try:
            await self.clock(last)
        finally:
            for task in background:
                task.cancel()
            ended = await asyncio.gather(*background, return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception):
                raise error
        return await self.until(lambda state: not waiting(state) and not self.unreported(state), 120.0)

    def judge(self, state: NetworkState) -> Report:
        """Compare what happened with what must be."""
        report = Report()
        warm = self.samples[int(len(self.samples) * _WARM_UP) :]
        steady = [sample for sample in warm if sample.tasks] or warm
        edge = max(1, len(steady) // _EDGE)
        for name, most in MOST_MORE.items():
            early, late = (
                statistics.median(getattr(sample, name) for sample in part) for part in (steady[:edge], steady[-edge:])
            )
            report.require(f"{name}: at most {most:g} more", late - early <= most, f"{late - early:+.1f}")
        unreported, left = self.unreported(state), waiting(state)
        report.require("every epoch is reported", not unreported, unreported or f"{len(self.epochs)} epochs")
        report.require("every queue holds less than a batch", not left, left or "drained")
        events = Counter(line["event"] for line in self.member.lines())
        defects = sum(events[event] for event in DEFECTS)
        report.require("no defect is in the log", not defects, defects)
        report.tables["samples"] = [asdict(sample) for sample in self.samples]
        report.figures = {
            "simulated_hours": round(len(self.epochs) * EPOCH_SLOTS * SLOT_SECONDS / 3600, 1),
            "mib_per_simulated_day": round(24 * slope(steady), 2),
            "transactions": events["transaction_confirmed"],
            "failed_transactions": events["transaction_failed"],
            "log_lines": sum(events.values()),
            "scrapes": self.scraped,
            "traffic": dict(self.network.made),
            "traffic_refused": self.network.refused,
        }
        return report


def slope(samples: list[Sample]) -> float:
    """Return the growth of memory in MiB per simulated hour, by least squares."""
    if len(samples) < 2:
        return 0.0
    hours, sizes = [sample.hours for sample in samples], [sample.resident_mib for sample in samples]
    return statistics.linear_regression(hours, sizes).slope


async def run(options: argparse.Namespace, folder: Path) -> Report:
    """Run the whole measurement."""
    epochs = range(FIRST_EPOCH, FIRST_EPOCH + max(1, round(options.hours * 3600 / SLOT_SECONDS / EPOCH_SLOTS)))
    first_slot = str(FIRST_EPOCH * EPOCH_SLOTS - 10)
    async with running_network("--first-slot", first_slot, phases=PHASES) as network:
        day = Day(options, network, Member(1, 1, folder), epochs)
        admit(network.net, [day.member])
        # A WebSocket's slots count only near the last one of the node, which must be read often at this pace.
        own = {"API_SERVER_PORT": "0", "SLOT_UPDATE_INTERVAL_SECONDS": "1"}
        day.member.start(network.net.environment | own)
        try:
            state = await day.live()
        finally:
            await asyncio.to_thread(day.member.stop)
    if options.chart is not None:
        points = [Point(sample.hours, sample.resident_mib) for sample in day.samples]
        title = "resident memory of a forester, MiB, over simulated hours"
        options.chart.write_text(draw({title: {"memory": points}}))
    return day.judge(state)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add = parser.add_argument
    add("--hours", type=float, default=24, help="simulated hours (24)")
    add("--slots-per-second", type=float, default=400, help="pace of the chain; a cluster has 2.5 (400)")
    add("--traffic-every", type=float, default=4, help="seconds between rounds of users' traffic (4)")
    add("--sample-every", type=float, default=5, help="seconds between samples of the process (5)")
    add("--chart", type=Path, help="SVG file for memory over simulated time")
