"""Faults of the services of one `forester start`: its reaction to each, and the time that it needs to recover.

Starts `localnet up` with simulated proofs, fault-injecting proxies in front of its node, indexer and prover, and a
forester. Each fault lasts for a while under users' traffic. Then it ends, and the queues have to become empty again.
Exit status 1 if a bound is missed:

  - after each fault every queue is empty again within its time, and the process is the one that was started
  - no task crashed, and the log has at most 300 lines in any minute
  - the roots of all trees on chain are those of the indexer
  - every epoch that the forester could report is reported
  - no proof is made twice unless the fault was the prover's; whatever the indexer says, the chain refuses nothing
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
import urllib.error
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fault_cases import CASES, Case, HostClock, Stage
from fault_proxy import FaultProxy
from forester_fleet import Member, admit, moment
from localnet_process import running_localnet
from process_figures import resident_mib
from proof_ledger import Ledger, running_ledger
from rich.console import Console
from rich.table import Table
from soak_roots import compared_roots
from soak_verdict import waiting

from forester.chain.programs.addresses import PROTOCOL_CONFIG
from forester.chain.registry_accounts import decode_protocol_config
from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RpcPool
from forester.network_status.epochs import protocol_times
from forester.network_status.reader import read_network
from forester.network_status.state import NetworkState

FIRST_SLOT = 590
BEGINNING = {"compress": 20, "v1_compress": 12, "addresses": 10}
TRAFFIC = ({"compress": 10}, {"spend": 5}, {"addresses": 10}, {"v1_compress": 3}, {"v1_spend": 2}, {"v1_addresses": 2})
MOST_LINES_PER_MINUTE = 300
BEGIN_DEADLINE_S = 300.0
_POLL_S = 0.25


@dataclass
class Row:
    """Outcome of a fault. ``recovery_s`` counts from its end; None if the queues were not empty in time."""

    fault: str
    held_s: float
    recovery_s: float | None = None
    lines_per_minute: float = 0.0
    loudest: str = ""
    rpc: int = 0
    indexer: int = 0
    prover: int = 0
    proofs: int = 0
    made_again: int = 0
    refused: int = 0
    resident_mib: float = 0.0
    missed: list[str] = field(default_factory=list)


def say(text: str) -> None:
    """Print one line of progress on standard error."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


async def seed(stage: Stage, counts: dict[str, int]) -> None:
    """Send traffic; ignore refusals, for example of a full queue."""
    try:
        await stage.call("localnet_seed", counts)
    except (AssertionError, urllib.error.URLError, TimeoutError) as error:
        say(f"   traffic {counts} refused: {str(error)[:200]}")


class FaultRun:
    """Cases one after another before one process."""

    def __init__(self, stage: Stage, ledger: Ledger, options: argparse.Namespace) -> None:
        self._stage = stage
        self._ledger = ledger
        self._options = options
        self._first_epoch = 0

    async def rows(self, cases: list[Case]) -> list[Row]:
        """Show all faults."""
        for counts in (BEGINNING, *TRAFFIC):
            await seed(self._stage, counts)
        process = self._stage.member.process
        if await self._recovered(time.monotonic() + BEGIN_DEADLINE_S) is None:
            raise TimeoutError(f"nothing is moved without a fault: {self._stage.member.log.read_text()[-2000:]}")
        state = await read_network(self._stage.rpc, all_epochs=True)
        ours = self._stage.member.payer.pubkey()
        self._first_epoch = min(
            epoch for epoch, items in state.registrations.items() if any(item.authority == ours for item in items)
        )
        rows = []
        for case in cases:
            row = await self._shown(case)
            if process is None or process.poll() is not None:
                row.missed.append("the process ended")
            missed = f", missed: {'; '.join(row.missed)}" if row.missed else ""
            say(f"{case.name}: well after {row.recovery_s} s, {row.rpc} calls of the node{missed}")
            rows.append(row)
            if process is None or process.poll() is not None:
                break
        return rows

    async def _shown(self, case: Case) -> Row:
        stage, began, logged = self._stage, time.time(), self._stage.member.log.stat().st_size
        held_s = case.hold_s if self._options.hold is None else min(case.hold_s, self._options.hold)
        row, proofs = Row(case.name, held_s), len(self._ledger.entries)
        again = len(self._ledger.repeated())
        await case.begin(stage)
        shown = time.time()
        try:
            for half in (1, 2):
                for counts in TRAFFIC:
                    await seed(self._stage, counts)
                await asyncio.sleep(max(0.0, half * held_s / 2 - (time.time() - shown)))
        finally:
            await asyncio.to_thread(stage.well)
        ended = time.time()
        limit_s = case.recover_s * self._options.patience
        recovered_s = await self._recovered(time.monotonic() + limit_s)
        row.recovery_s = None if recovered_s is None else round(time.time() - (ended if held_s else shown), 1)
        row.held_s = round(ended - shown, 1) if held_s else 0.0
        for name, proxy in stage.proxies.items():
            setattr(row, name, proxy.calls(began, time.time()))
        row.proofs = len(self._ledger.entries) - proofs
        row.made_again = len(self._ledger.repeated()) - again
        self._read_log(row, logged)
        if stage.member.process is not None:
            row.resident_mib = resident_mib(stage.member.process.pid)
        if recovered_s is None:
            row.missed.append(f"not well within {limit_s:g} s")
        if row.made_again and not case.name.startswith("prover"):
            row.missed.append(f"{row.made_again} proofs made twice")
        if row.refused and case.name.startswith("indexer"):
            row.missed.append(f"{row.refused} transactions refused")
        if row.lines_per_minute > MOST_LINES_PER_MINUTE:
            row.missed.append(f"{row.lines_per_minute:.0f} lines a minute")
        return row

    async def _recovered(self, ends: float) -> float | None:
        """Wait until nothing is left to do; when that was, None if it did not come about."""
        stage = self._stage
        while time.monotonic() < ends:
            state = await read_network(stage.rpc)
            awaited = stage.awaited is None or await stage.registered(stage.awaited)
            if not waiting(state) and awaited:
                stage.awaited = None
                return time.monotonic()
            await asyncio.sleep(_POLL_S)
        return None

    def _read_log(self, row: Row, logged: int) -> None:
        lines = list(self._stage.member.lines(logged))
        row.lines_per_minute = float(_most_within(sorted(map(moment, lines)), 60.0))
        loud = Counter(line["event"] for line in lines if line["level"] in ("warning", "error"))
        row.loudest = ", ".join(f"{event} {count}" for event, count in loud.most_common(3))
        crashes = loud["task_crashed"]
        if crashes:
            row.missed.append(f"{crashes} crashes")
        row.refused = sum(line["event"] == "transaction_failed" and line["reason"] == "refused" for line in lines)

    async def epochs_missed(self) -> list[str]:
        """Return the epochs that could be reported and were not."""
        state = await read_network(self._stage.rpc, all_epochs=True)
        return [text for epoch in self._closed(state) if (text := self._epoch_missed(state, epoch))]

    def _closed(self, state: NetworkState) -> list[int]:
        """Return epochs whose report phase has ended."""
        return list(range(self._first_epoch, self._stage.times.live_epochs(state.slot)[0]))

    def _epoch_missed(self, state: NetworkState, epoch: int) -> str:
        ours = [
            item for item in state.registrations.get(epoch, ()) if item.authority == self._stage.member.payer.pubkey()
        ]
        if epoch in self._stage.skipped or any(item.has_reported_work for item in ours):
            return ""
        return f"epoch {epoch} {'not reported' if ours else 'not registered'}"


def _most_within(times: list[float], span_s: float) -> int:
    """Return the maximum number of events in any span."""
    most = first = 0
    for last, at in enumerate(times):
        while at - times[first] > span_s:
            first += 1
        most = max(most, last - first + 1)
    return most


@asynccontextmanager
async def staged(
    options: argparse.Namespace, folder: Path, ledger: Ledger, settings: Mapping[str, str] = MappingProxyType({})
) -> AsyncIterator[Stage]:
    """Run a network with fault-injecting proxies, and a forester, with further variables as its settings."""
    with running_localnet("--slot-ms", str(options.slot_ms), "--first-slot", str(FIRST_SLOT)) as net:
        async with AsyncExitStack() as stack:
            rpc = RpcClient(await stack.enter_async_context(RpcPool([net.url])))
            proxies = {name: FaultProxy() for name in ("rpc", "indexer", "prover")}
            urls = {}
            for name, proxy in proxies.items():
                variable = f"{name.upper()}_URL"
                urls[variable] = await stack.enter_async_context(proxy.before(net.environment[variable]))
            prover = await stack.enter_async_context(running_ledger(ledger, urls["PROVER_URL"]))
            member = Member(1, 1, folder)
            await admit(rpc, net.call, net.keys["authority"], [member])
            config = await rpc.existing_account(PROTOCOL_CONFIG, "the protocol configuration")
            times = protocol_times(decode_protocol_config(config.data).config)
            host = HostClock(folder)
            stage = Stage(net, rpc, member, times, proxies, host)
            member.start(net.environment | urls | host.environment() | dict(settings), f"{prover}/1")
            try:
                yield stage
            finally:
                await asyncio.to_thread(stage.well)
                if member.process is not None:
                    member.process.kill()
                    member.process.wait(60)


async def run(options: argparse.Namespace, folder: Path, cases: list[Case]) -> tuple[list[Row], dict[str, str]]:
    """Run all cases; return a row for each, and other missed bounds by name."""
    ledger, missed = Ledger(), dict[str, str]()
    async with staged(options, folder, ledger) as stage:
        faults = FaultRun(stage, ledger, options)
        rows = await faults.rows(cases)
        state = await read_network(stage.rpc)
        roots = await compared_roots(stage.rpc, stage.net, state)
        different = [tree for tree, (ours, theirs) in roots.items() if ours != theirs]
        if different:
            missed["roots of the chain are the indexer's"] = ", ".join(different)
        if epochs := await faults.epochs_missed():
            missed["every epoch is reported"] = ", ".join(epochs)
        status = await asyncio.to_thread(stage.member.stop)
        if status != 0:
            missed["the forester ends with status 0"] = str(status)
    return rows, missed


def chosen(options: argparse.Namespace) -> list[Case]:
    """Return the requested cases."""
    return [case for case in CASES if not options.only or any(part in case.name for part in options.only)]


def show(rows: list[Row], missed: dict[str, str], console: Console) -> None:
    """Print tables."""
    columns = [name for name in asdict(rows[0]) if name != "missed"] if rows else []
    table = Table(*(name.replace("_", " ") for name in columns), title="faults")
    for row in rows:
        values = asdict(row)
        table.add_row(*(str(values[name]) for name in columns))
    console.print(table)
    for row in rows:
        for text in row.missed:
            console.print(f"[red]MISSED[/red] {row.fault}: {text}")
    for name, found in missed.items():
        console.print(f"[red]MISSED[/red] {name}: {found}")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.epilog = "faults:\n" + "\n".join(f"  {case.name}" for case in CASES)
    add = parser.add_argument
    add("--only", nargs="+", metavar="PART", help="faults whose names have one of these parts (all)")
    add("--hold", type=float, help="seconds that a fault lasts at most (30, the prover's 60)")
    add("--slot-ms", type=float, default=400, help="milliseconds per slot, as a cluster has them (400)")
    add("--patience", type=float, default=1, help="times as long may recovery take as usual, on a slow machine (1)")
    add("--logs", type=Path, help="folder in which log and journal stay")
    add("--json", action="store_true", help="print one JSON object, no tables")


def main(options: argparse.Namespace) -> int:
    """Run; return 0 if every bound was kept."""
    cases = chosen(options)
    with tempfile.TemporaryDirectory(prefix="faults-") as temporary:
        folder = options.logs or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        rows, missed = asyncio.run(run(options, folder.resolve(), cases))
    passed = not missed and not any(row.missed for row in rows) and len(rows) == len(cases)
    if options.json:
        result: dict[str, Any] = {"passed": passed, "faults": [asdict(row) for row in rows], "missed": missed}
        print(json.dumps(result, indent=2))
    else:
        show(rows, missed, Console(width=None if sys.stdout.isatty() else 200))
    return 0 if passed else 1
