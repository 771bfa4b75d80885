"""Faults of the services of one `forester start`: its reaction to each, and the time that it needs to recover.

Starts `localnet up` with simulated proofs, fault-injecting proxies in front of its node, indexer and prover, and a
forester. Each fault lasts for a while under users' traffic. Then it ends, and the queues have to become empty again.
Exit status 1 if a bound is missed:

  - after each fault every queue is empty again within its time, and the process is the one that was started
  - no defect is in the log, which has at most 300 lines in any minute
  - the roots of all trees on chain are those of the indexer
  - every epoch that the forester could report is reported
  - no proof is made twice unless the fault was the prover's; whatever the indexer says, the chain refuses nothing
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType

from bench_report import Report
from fault_cases import CASES, Case, HostClock, Stage
from fault_proxy import FaultProxy
from fleet import DEFECTS, Member, admit, moment
from network import FIRST_SLOT, INITIAL_TRAFFIC, has_reported, log_line, running_network, waiting
from process_figures import MIB, ProcessFigures
from proof_log import ProofLog

from forester.network_status.reader import read_network
from forester.transactions.confirm import Fate

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
    lines_per_minute: int = 0
    loudest: str = ""
    rpc: int = 0
    indexer: int = 0
    prover: int = 0
    proofs: int = 0
    made_again: int = 0
    refused: int = 0
    resident_mib: float = 0.0
    missed: str = ""


class FaultRun:
    """Cases one after another before one process."""

    def __init__(self, stage: Stage, proof_log: ProofLog, options: argparse.Namespace) -> None:
        self._stage = stage
        self._proof_log = proof_log
        self._options = options

    async def report(self, cases: list[Case]) -> Report:
        """Show all faults, and compare what happened with what must be."""
        report, network, member = Report(), self._stage.network, self._stage.member
        for counts in (INITIAL_TRAFFIC, *TRAFFIC):
            await network.seed(counts)
        if not await self._recovers(BEGIN_DEADLINE_S):
            raise TimeoutError(f"nothing is moved without a fault: {member.log.read_text()[-2000:]}")
        registrations = (await network.state()).registrations
        first = min(
            epoch for epoch in registrations if any(i.authority == member.payer.pubkey() for i in registrations[epoch])
        )
        rows = []
        for case in cases:
            row = await self._shown(case)
            log_line(f"{case.name}: recovered after {row.recovery_s} s, {row.rpc} calls; missed: {row.missed or '-'}")
            rows.append(row)
            _ = member.pid  # the process that was started
        report.tables["faults"] = [asdict(row) for row in rows]
        missed = {row.fault: row.missed for row in rows if row.missed}
        report.require("the forester recovers from every fault", not missed, missed or f"{len(rows)} faults")
        different = await network.differing_roots()
        report.require("roots of the chain are the indexer's", not different, different)
        state = await network.state()
        closed = set(range(first, network.times.live_epochs(state.slot)[0])) - self._stage.skipped
        unreported = [epoch for epoch in closed if not has_reported(state, epoch, member)]
        report.require("every epoch is reported", not unreported, unreported or f"{len(closed)} epochs")
        return report

    async def _shown(self, case: Case) -> Row:
        stage, began, logged = self._stage, time.time(), self._stage.member.log.stat().st_size
        held_s = case.hold_s if self._options.hold is None else min(case.hold_s, self._options.hold)
        row, proofs, again = Row(case.name, held_s), len(self._proof_log.entries), len(self._proof_log.repeated())
        await case.begin(stage)
        shown = time.time()
        try:
            for half in (1, 2):
                for counts in TRAFFIC:
                    await stage.network.seed(counts)
                await asyncio.sleep(max(0.0, half * held_s / 2 - (time.time() - shown)))
        finally:
            await asyncio.to_thread(stage.end_faults)
        ended, limit_s = time.time(), case.recover_s * self._options.patience
        if await self._recovers(limit_s):
            row.recovery_s = round(time.time() - (ended if held_s else shown), 1)
        row.held_s = round(ended - shown, 1) if held_s else 0.0
        for name, proxy in stage.proxies.items():
            setattr(row, name, proxy.calls(began, time.time()))
        row.proofs = len(self._proof_log.entries) - proofs
        row.made_again = len(self._proof_log.repeated()) - again
        row.resident_mib = round(ProcessFigures(stage.member.pid).resident_bytes / MIB, 1)
        defects = self._read_log(row, logged)
        missed = {
            f"not recovered within {limit_s:g} s": row.recovery_s is None,
            f"{row.made_again} proofs made twice": row.made_again and not case.name.startswith("prover"),
            f"{row.refused} transactions refused": row.refused and case.name.startswith("indexer"),
            f"{row.lines_per_minute} lines a minute": row.lines_per_minute > MOST_LINES_PER_MINUTE,
            f"{defects} defects": defects,
        }
        row.missed = ", ".join(text for text, is_missed in missed.items() if is_missed)
        return row

    async def _recovers(self, within_s: float) -> bool:
        """Wait until nothing is left to do; return False if that takes longer."""
        stage, ends = self._stage, time.monotonic() + within_s
        while time.monotonic() < ends:
            state = await read_network(stage.network.rpc)
            if not waiting(state) and (stage.awaited is None or await stage.is_registered(stage.awaited)):
                stage.awaited = None
                return True
            await asyncio.sleep(_POLL_S)
        return False

    def _read_log(self, row: Row, logged: int) -> int:
        """Read what the log says since ``logged``; return the number of defects."""
        lines = list(self._stage.member.lines(logged))
        row.lines_per_minute = _most_within(sorted(map(moment, lines)), 60.0)
        loud = Counter(line["event"] for line in lines if line["level"] in ("warning", "error"))
        row.loudest = ", ".join(f"{event} {count}" for event, count in loud.most_common(3))
        row.refused = sum(
            line["event"] == "transaction_failed" and line["reason"] == Fate.REFUSED.value for line in lines
        )
        return sum(loud[event] for event in DEFECTS)


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
    folder: Path,
    proof_log: ProofLog,
    settings: Mapping[str, str] = MappingProxyType({}),
    *,
    slot_ms: float,
    first_slot: int = FIRST_SLOT,
) -> AsyncIterator[Stage]:
    """Run a network with fault-injecting proxies, and a forester, with further variables as its settings."""
    words = ("--slot-ms", str(slot_ms), "--first-slot", str(first_slot))
    async with running_network(*words) as network, AsyncExitStack() as stack:
        proxies = {name: FaultProxy() for name in ("rpc", "indexer", "prover")}
        variables = network.net.environment | dict(settings)
        for name, proxy in proxies.items():
            variable = f"{name.upper()}_URL"
            variables[variable] = await stack.enter_async_context(proxy.before(variables[variable]))
        variables["PROVER_URL"] = await stack.enter_async_context(proof_log.before(variables["PROVER_URL"], 1))
        stage = Stage(network, Member(1, 1, folder), proxies, HostClock(folder))
        admit(network.net, [stage.member])
        stage.member.start(variables | stage.host.environment())
        try:
            yield stage
        finally:
            await asyncio.to_thread(stage.end_faults)
            if stage.member.process is not None:
                stage.member.process.kill()
                stage.member.process.wait(60)


async def run(options: argparse.Namespace, folder: Path) -> Report:
    """Run the cases that are asked for."""
    cases = [case for case in CASES if not options.only or any(part in case.name for part in options.only)]
    proof_log = ProofLog()
    async with staged(folder, proof_log, slot_ms=options.slot_ms) as stage:
        report = await FaultRun(stage, proof_log, options).report(cases)
        status = await asyncio.to_thread(stage.member.stop)
    report.require("the forester ends with status 0", status == 0, status)
    return report


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.epilog = "faults:\n" + "\n".join(f"  {case.name}" for case in CASES)
    add = parser.add_argument
    add("--only", nargs="+", metavar="PART", help="faults whose names have one of these parts (all)")
    add("--hold", type=float, help="seconds that a fault lasts at most (30, the prover's 60)")
    add("--slot-ms", type=float, default=400, help="milliseconds per slot, as a cluster has them (400)")
    add("--patience", type=float, default=1, help="times as long may recovery take as usual, on a slow machine (1)")
