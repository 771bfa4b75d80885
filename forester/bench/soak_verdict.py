"""The verdict on a run of several foresters: figures, bounds, tables."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from forester_fleet import Member, moment
from proof_ledger import Entry, Ledger
from rich.console import Console
from rich.table import Table

from forester.epoch.phases import ProtocolTimes, SlotRange
from forester.network_status.state import NetworkState, TreeState

DUPLICATE_PERCENT = 2.0
_DONE_ALREADY = re.compile(r"\b(6015|9003|13006|10010|110\d\d)\b")
"""Codes with which the programs refuse work that is already done: no such element, another root or index."""
_WORK = frozenset({"v2_batches", "nullify", "update_address"})


Span = tuple[float, float]
"""First and last moment, Unix seconds."""


REACTION_S = 10.0
"""Seconds of readiness in a phase up to which a forester need not have sent anything in it."""

UNREADY_PERCENT = 10.0
"""With more, kills follow one another more quickly than the machine starts processes: the run proves little."""


@dataclass(frozen=True)
class SlotTimes:
    """The phases of epochs, and the times of slots in their order, Unix seconds."""

    times: ProtocolTimes
    seen: Sequence[tuple[float, int]]

    def span(self, slots: SlotRange) -> Span:
        """Return the times of the first and the last slot."""
        inside = [at for at, slot in self.seen if slot in slots]
        return (inside[0], inside[-1]) if inside else (0.0, 0.0)


@dataclass
class Check:
    """A bound and whether the run kept it."""

    name: str
    kept: bool
    found: str


@dataclass
class Verdict:
    """Figures and checks of a run."""

    checks: list[Check] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    members: list[dict[str, Any]] = field(default_factory=list)

    def require(self, name: str, kept: bool, found: str) -> None:
        """Add a bound and what was found."""
        self.checks.append(Check(name, kept, found))

    @property
    def passed(self) -> bool:
        """Return True if every bound was kept."""
        return all(check.kept for check in self.checks)

    def as_object(self) -> dict[str, Any]:
        """Return the verdict for --json."""
        checks = [{"check": item.name, "kept": item.kept, "found": item.found} for item in self.checks]
        return {"passed": self.passed, "checks": checks, "figures": self.figures, "foresters": self.members}


@dataclass
class Transactions:
    """Outcomes of transactions that change trees, by the logs of the foresters."""

    confirmed: int = 0
    done_already: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, lines: Iterable[dict[str, Any]]) -> Transactions:
        """Count the lines of logs."""
        counted = cls()
        for line in lines:
            if line["event"] == "transaction_confirmed" and line["purpose"] in _WORK:
                counted.confirmed += 1
            elif line["event"] == "transaction_failed" and line["purpose"] in _WORK:
                if line["reason"] == "refused" and _DONE_ALREADY.search(line["error"] or ""):
                    counted.done_already += 1
                counted.reasons[f"{line['reason']}: {line['error']}"] += 1
        return counted


def waiting(state: NetworkState) -> dict[str, int]:
    """Return the elements that wait although they fill a batch, by tree and queue."""
    return {
        f"{tree.kind.label} {str(tree.tree.address)[:8]} {label}": count
        for tree in state.trees
        for label, count in tree.pending.items()
        if count >= batch_of(tree)
    }


def batch_of(tree: TreeState) -> int:
    """Return the size of the tree's batches; 1 for V1, whose elements are processed one by one."""
    return tree.batched.queue.zkp_batch_size if tree.batched is not None else 1


def judge(
    members: list[Member],
    ledger: Ledger,
    state: NetworkState,
    roots: dict[str, tuple[str, str]],
    epochs: list[int],
    troubles: list[Span],
    slots: SlotTimes,
) -> Verdict:
    """Compare what happened with what must be; ``troubles`` are the times in which faults were shown."""
    verdict = Verdict()
    left = waiting(state)
    verdict.require("every queue holds less than a batch", not left, str(left) if left else "drained")
    different = {tree: pair for tree, pair in roots.items() if pair[0] != pair[1]}
    found = ", ".join(f"{tree}: {pair}" for tree, pair in different.items())
    verdict.require("roots of the chain are the indexer's", not different, found or f"{len(roots)} trees agree")
    _duplicate_transactions(verdict, members)
    _duplicate_proofs(verdict, members, ledger, troubles)
    _after_restarts(verdict, members, ledger)
    _reports(verdict, members, state, epochs, slots)
    crashes = sum(line["event"] == "task_crashed" for member in members for line in member.lines())
    verdict.require("no task crashed", crashes == 0, str(crashes))
    _recovery(verdict, members)
    _members(verdict, members, ledger, state, epochs)
    return verdict


def _duplicate_transactions(verdict: Verdict, members: list[Member]) -> None:
    counted = [Transactions.of(member.lines()) for member in members]
    failed, done = sum(item.done_already for item in counted), sum(item.confirmed for item in counted)
    reasons = sum((item.reasons for item in counted), Counter[str]())
    percent = _percent(failed, failed + done)
    verdict.figures["transactions"] = {"confirmed": done, "done_already": failed, "percent": percent}
    verdict.figures["failed_transactions"] = dict(reasons.most_common())
    name = f"transactions for work that was done: at most {DUPLICATE_PERCENT:g} %"
    verdict.require(name, percent <= DUPLICATE_PERCENT, f"{failed} of {failed + done} ({percent:g} %)")


def _duplicate_proofs(verdict: Verdict, members: list[Member], ledger: Ledger, troubles: list[Span]) -> None:
    """Check duplicate proofs: a lost transaction or a killed process makes another process prove again."""
    made, repeated = len(ledger.entries), ledger.repeated()
    died = {member.number: [life.killed for life in member.lives if life.killed is not None] for member in members}
    free = [pair for pair in repeated if not _forced(*pair, died=died[pair[0].member], troubles=troubles)]
    percent = _percent(len(free), made)
    verdict.figures["proofs"] = {
        "made": made,
        "made_again": len(repeated),
        "of_these_after_a_kill_or_fault": len(repeated) - len(free),
        "of_these_by_the_same_forester": sum(first.member == second.member for first, second in repeated),
        "percent": _percent(len(repeated), made),
        "percent_without_kill_or_fault": percent,
    }
    verdict.figures["failed_proof_requests"] = {str(status): count for status, count in ledger.failures.items()}
    name = f"proofs made again without kill or fault: at most {DUPLICATE_PERCENT:g} %"
    verdict.require(name, percent <= DUPLICATE_PERCENT, f"{len(free)} of {made} ({percent:g} %)")


def _forced(first: Entry, second: Entry, *, died: Sequence[float], troubles: Sequence[Span]) -> bool:
    span = first.asked, second.asked
    killed = any(span[0] <= at <= span[1] for at in died)
    return killed or any(began <= span[1] and span[0] <= ended for began, ended in troubles)


def _percent(part: int, whole: int) -> float:
    return round(100 * part / max(1, whole), 2)


def _after_restarts(verdict: Verdict, members: list[Member], ledger: Ledger) -> None:
    """Count proofs that were in the journal when a process died, and were made again by the next one."""
    again = lost = 0
    for member in members:
        mine = [entry for entry in ledger.entries if entry.member == member.number]
        for life in member.lives:
            if life.killed is None:
                continue
            later = {entry.link for entry in mine if entry.asked > life.killed}
            again += len(later & life.kept)
            before = {entry.link for entry in mine if life.began <= entry.answered <= life.killed}
            lost += len(later & (before - life.kept))
    verdict.figures["answers_lost_in_kills"] = lost
    verdict.require("kept proofs computed again after a restart", again == 0, str(again))


def _reports(verdict: Verdict, members: list[Member], state: NetworkState, epochs: list[int], slots: SlotTimes) -> None:
    excused = 0
    for epoch in epochs:
        registered = {item.authority: item for item in state.registrations.get(epoch, ())}
        mine = [registered.get(member.payer.pubkey()) for member in members]
        missing, down, phases = list[str](), list[str](), slots.times.phases(epoch)
        for member, item in zip(members, mine, strict=True):
            if item is None or not item.has_reported_work:
                phase = slots.span(phases.registration if item is None else phases.report_work)
                (missing if member.ready_seconds(phase) >= REACTION_S else down).append(member.name)
        excused += len(down)
        work = " + ".join(str(item.work_counter) if item is not None else "-" for item in mine)
        found = f"no report of {', '.join(missing)}" if missing else f"work {work}"
        found += f"; hardly ready in the phase: {', '.join(down)}" if down else ""
        verdict.require(f"epoch {epoch} reported by every forester", not missing, found)
    percent = _percent(excused, len(epochs) * len(members))
    name = f"reports of foresters that were hardly ready: at most {UNREADY_PERCENT:g} % missed"
    verdict.require(name, percent <= UNREADY_PERCENT, f"{excused} of {len(epochs) * len(members)} ({percent:g} %)")


def _recovery(verdict: Verdict, members: list[Member]) -> None:
    ready = [seconds for member in members for seconds in member.recoveries()]
    kills = sum(life.killed is not None for member in members for life in member.lives)
    verdict.figures["kills"] = kills
    if ready:
        spread = {"median": round(statistics.median(ready), 2), "max": round(max(ready), 2)}
        verdict.figures["seconds_from_start_to_ready"] = spread
    first = [seconds for member in members for seconds in _until_first_success(member)]
    if first:
        spread = {"median": round(statistics.median(first), 2), "max": round(max(first), 2)}
        verdict.figures["seconds_from_kill_to_next_confirmed_transaction"] = spread


def _until_first_success(member: Member) -> list[float]:
    confirmed = [moment(line) for line in member.lines() if line["event"] == "transaction_confirmed"]
    killed = [life.killed for life in member.lives if life.killed is not None]
    return [min(later) - at for at in killed if (later := [done for done in confirmed if done > at])]


def _members(verdict: Verdict, members: list[Member], ledger: Ledger, state: NetworkState, epochs: list[int]) -> None:
    for member in members:
        counted = Transactions.of(member.lines())
        work = sum(
            item.work_counter
            for epoch in epochs
            for item in state.registrations.get(epoch, ())
            if item.authority == member.payer.pubkey()
        )
        verdict.members.append(
            {
                "forester": member.number,
                "weight": member.weight,
                "kills": sum(life.killed is not None for life in member.lives),
                "work_counted": work,
                "transactions": counted.confirmed,
                "done_already": counted.done_already,
                "proofs": sum(entry.member == member.number for entry in ledger.entries),
            }
        )


def show(verdict: Verdict, console: Console) -> None:
    """Print tables."""
    foresters = Table(*verdict.members[0], title="foresters")
    for row in verdict.members:
        foresters.add_row(*map(str, row.values()))
    console.print(foresters)
    figures = Table("figure", "value", title="figures")
    for name, value in verdict.figures.items():
        figures.add_row(name.replace("_", " "), _text(value))
    console.print(figures)
    checks = Table("bound", "", "found", title="bounds")
    for check in verdict.checks:
        checks.add_row(check.name, "kept" if check.kept else "[red]MISSED[/red]", check.found)
    console.print(checks)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "\n".join(f"{name}: {item}" for name, item in value.items()) or "none"
    return str(value)
