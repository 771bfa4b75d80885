"""The verdict on a run of several foresters: figures and bounds."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench_report import Report
from fleet import DEFECTS, Member, moment
from network import has_reported, waiting
from proof_log import Entry, ProofLog

from forester.epoch.phases import ProtocolTimes, SlotRange
from forester.network_status.state import NetworkState
from forester.transactions.confirm import Fate

DUPLICATE_PERCENT = 2.0
_DONE_ALREADY = re.compile(r"\b(6015|9003|13006|10010|110\d\d)\b")
"""Codes with which the programs refuse work that is done: the element is gone, the root or the index is another."""
_WORK = frozenset({"v2_batches", "nullify", "update_address"})

Span = tuple[float, float]
"""From when to when, Unix seconds."""

REACTION_S = 10.0
"""A forester that was ready for less than this in a phase need not have sent anything in it."""

UNREADY_PERCENT = 10.0
"""With more, kills follow one another more quickly than the machine starts processes: the run says little."""


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
                if line["reason"] == Fate.REFUSED.value and _DONE_ALREADY.search(line["error"] or ""):
                    counted.done_already += 1
                counted.reasons[f"{line['reason']}: {line['error']}"] += 1
        return counted


def judge(
    members: list[Member],
    proof_log: ProofLog,
    state: NetworkState,
    different: dict[str, tuple[str, str]],
    epochs: list[int],
    troubles: list[Span],
    slots: SlotTimes,
) -> Report:
    """Compare what happened with what must be; ``troubles`` are the times in which faults were shown."""
    report = Report()
    left = waiting(state)
    report.require("every queue holds less than a batch", not left, left or "drained")
    report.require("roots of the chain are the indexer's", not different, different)
    _duplicate_transactions(report, members)
    _duplicate_proofs(report, members, proof_log, troubles)
    _after_restarts(report, members, proof_log)
    _reports(report, members, state, epochs, slots)
    defects = sum(line["event"] in DEFECTS for member in members for line in member.lines())
    report.require("no defect is in the log", defects == 0, defects)
    _recovery(report, members)
    _members(report, members, proof_log, state, epochs)
    return report


def _duplicate_transactions(report: Report, members: list[Member]) -> None:
    counted = [Transactions.of(member.lines()) for member in members]
    failed, done = sum(item.done_already for item in counted), sum(item.confirmed for item in counted)
    reasons = sum((item.reasons for item in counted), Counter[str]())
    percent = _percent(failed, failed + done)
    report.figures["transactions"] = {"confirmed": done, "done_already": failed, "percent": percent}
    report.figures["failed_transactions"] = dict(reasons.most_common())
    name = f"transactions for work that was done: at most {DUPLICATE_PERCENT:g} %"
    report.require(name, percent <= DUPLICATE_PERCENT, f"{failed} of {failed + done} ({percent:g} %)")


def _duplicate_proofs(report: Report, members: list[Member], proof_log: ProofLog, troubles: list[Span]) -> None:
    """Check duplicate proofs: a lost transaction or a killed process makes another process prove again."""
    made, repeated = len(proof_log.entries), proof_log.repeated()
    died = {member.number: [life.killed for life in member.lives if life.killed is not None] for member in members}
    free = [pair for pair in repeated if not _forced(*pair, died=died[pair[0].member], troubles=troubles)]
    percent = _percent(len(free), made)
    report.figures["proofs"] = {
        "made": made,
        "made_again": len(repeated),
        "of_these_after_a_kill_or_fault": len(repeated) - len(free),
        "of_these_by_the_same_forester": sum(first.member == second.member for first, second in repeated),
        "percent": _percent(len(repeated), made),
        "percent_without_kill_or_fault": percent,
    }
    report.figures["failed_proof_requests"] = {str(status): count for status, count in proof_log.failures.items()}
    name = f"proofs made again without kill or fault: at most {DUPLICATE_PERCENT:g} %"
    report.require(name, percent <= DUPLICATE_PERCENT, f"{len(free)} of {made} ({percent:g} %)")


def _forced(first: Entry, second: Entry, *, died: Sequence[float], troubles: Sequence[Span]) -> bool:
    span = first.asked, second.asked
    killed = any(span[0] <= at <= span[1] for at in died)
    return killed or any(began <= span[1] and span[0] <= ended for began, ended in troubles)


def _percent(part: int, whole: int) -> float:
    return round(100 * part / max(1, whole), 2)


def _after_restarts(report: Report, members: list[Member], proof_log: ProofLog) -> None:
    """Count proofs that were in the journal when a process died, and were made again by the next one."""
    again = lost = 0
    for member in members:
        mine = [entry for entry in proof_log.entries if entry.member == member.number]
        for life in member.lives:
            if life.killed is None:
                continue
            later = {entry.link for entry in mine if entry.asked > life.killed}
            again += len(later & life.kept)
            before = {entry.link for entry in mine if life.began <= entry.answered <= life.killed}
            lost += len(later & (before - life.kept))
    report.figures["answers_lost_in_kills"] = lost
    report.require("kept proofs computed again after a restart", again == 0, again)


def _reports(report: Report, members: list[Member], state: NetworkState, epochs: list[int], slots: SlotTimes) -> None:
    excused = 0
    for epoch in epochs:
        missing, down, phases = list[int](), list[int](), slots.times.phases(epoch)
        for member in members:
            reported = has_reported(state, epoch, member)
            if not reported:
                phase = slots.span(phases.registration if reported is None else phases.report_work)
                (missing if member.ready_seconds(phase) >= REACTION_S else down).append(member.number)
        excused += len(down)
        found = f"no report of {missing or 'none'}; hardly ready in the phase: {down or 'none'}"
        report.require(f"epoch {epoch} reported by every forester", not missing, found)
    percent = _percent(excused, len(epochs) * len(members))
    name = f"reports of foresters that were hardly ready: at most {UNREADY_PERCENT:g} % missed"
    report.require(name, percent <= UNREADY_PERCENT, f"{excused} of {len(epochs) * len(members)} ({percent:g} %)")


def _recovery(report: Report, members: list[Member]) -> None:
    report.figures["kills"] = sum(life.killed is not None for member in members for life in member.lives)
    ready = [seconds for member in members for seconds in member.recoveries()]
    moved = [seconds for member in members for seconds in _until_first_success(member)]
    for name, found in (("start_to_ready", ready), ("kill_to_next_confirmed_transaction", moved)):
        if found:
            spread = {"median": round(statistics.median(found), 2), "max": round(max(found), 2)}
            report.figures[f"seconds_from_{name}"] = spread


def _until_first_success(member: Member) -> list[float]:
    confirmed = [moment(line) for line in member.lines() if line["event"] == "transaction_confirmed"]
    killed = [life.killed for life in member.lives if life.killed is not None]
    return [min(later) - at for at in killed if (later := [done for done in confirmed if done > at])]


def _members(
    report: Report, members: list[Member], proof_log: ProofLog, state: NetworkState, epochs: list[int]
) -> None:
    rows: list[dict[str, Any]] = []
    for member in members:
        counted = Transactions.of(member.lines())
        items = [item for epoch in epochs for item in state.registrations.get(epoch, ())]
        rows.append(
            {
                "forester": member.number,
                "weight": member.weight,
                "kills": sum(life.killed is not None for life in member.lives),
                "work_counted": sum(i.work_counter for i in items if i.authority == member.payer.pubkey()),
                "transactions": counted.confirmed,
                "done_already": counted.done_already,
                "proofs": sum(entry.member == member.number for entry in proof_log.entries),
            }
        )
    report.tables["foresters"] = [*rows]
