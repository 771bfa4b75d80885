"""Compare the answers of a running prover with the reference's: send every case and print differences.

    conformance.py --base-url http://127.0.0.1:3001                       # with recorded answers
    conformance.py --base-url http://ours:3001 --compare http://theirs    # and with a running reference
    conformance.py --base-url http://ours:3001 --queue                    # the flows of a server with a queue

Intended differences are listed with their reasons and do not count; prover/docs/reference/differences.md explains
them. A case whose proving key the server lacks is skipped and counted as such. Exit status 1 when anything else
differs.
"""

from __future__ import annotations

import argparse
import enum
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass

from conformance_suite.answers import alike, faults
from conformance_suite.cases import DIFFERENCES, VARIABLE, Case, Expectation, all_cases
from conformance_suite.queue import QUEUE_DIFFERENCES, steps
from conformance_suite.wire import Answer, ask
from rich.console import Console
from rich.table import Table

PATIENCE_S = 300.0
POLL_S = 0.1


class Outcome(enum.Enum):
    """Result of one case."""

    SAME = "same"
    INTENDED = "intended"
    SKIPPED = "skipped"
    DIFFERENT = "different"


@dataclass(frozen=True)
class Row:
    """One line of the report."""

    case: str
    outcome: Outcome
    answer: str
    expected: str
    remark: str = ""


@dataclass(frozen=True)
class Played:
    """A case with its answer; of one that waits for a job also the earlier answers, without repetitions."""

    case: Case
    answer: Answer
    job_id: str = ""
    early: tuple[Answer, ...] = ()

    def faults(self, expected: Expectation) -> list[str]:
        """Return the differences of the answer, or an earlier one, from the expected one."""
        found = faults(self.answer, expected, self.job_id)
        for answer in self.early:
            found += [f"earlier: {fault}" for fault in faults(answer, self.case.pending or {}, self.job_id)]
        return found

    @property
    def lacks_key(self) -> bool:
        """True if the server could not prove because it lacks the case's key."""
        return self.case.key is not None and self.answer.lacks_key


def play(base_url: str, cases: Iterable[Case]) -> list[Played]:
    """Send the cases one after the other."""
    job_id, played = "", []
    for case in cases:
        if case.pending is not None:
            played.append(_wait(base_url, case, job_id))
            continue
        answer = ask(base_url, case.method, case.path, case.body, case.headers)
        if answer.members.get("status") == "queued":
            job_id = str(answer.members.get("job_id"))
        played.append(Played(case, answer, job_id))
    return played


def _wait(base_url: str, case: Case, job_id: str) -> Played:
    early: list[Answer] = []
    deadline = time.monotonic() + PATIENCE_S
    while True:
        answer = ask(base_url, case.method, case.path.replace(VARIABLE, job_id))
        if answer.members.get("status") not in ("queued", "processing") or time.monotonic() > deadline:
            return Played(case, answer, job_id, tuple(early))
        if not early or early[-1] != answer:
            early.append(answer)
        time.sleep(POLL_S)


def judge(ours: Played) -> Row:
    """Compare an answer with that of later versions of the reference, and with our intended differences."""
    case, answer = ours.case, str(ours.answer)
    expected = f"{case.head['status']} {case.head.get('code', '')}".strip()
    found = ours.faults(case.head)
    if not found:
        return Row(case.name, Outcome.SAME, answer, expected)
    if reason := _difference(ours):
        return Row(case.name, Outcome.INTENDED, answer, expected, reason)
    if ours.lacks_key:
        return Row(case.name, Outcome.SKIPPED, answer, expected, f"needs the key {case.key}")
    return Row(case.name, Outcome.DIFFERENT, answer, expected, "; ".join(found))


def compare(ours: Played, theirs: Played) -> Row:
    """Compare an answer with that of a running reference of version 0.27.0."""
    case = ours.case

    def row(outcome: Outcome, remark: str = "") -> Row:
        return Row(case.name, outcome, str(ours.answer), str(theirs.answer), remark)

    unexpected = theirs.faults(case.old)
    if not unexpected and alike(ours.answer, theirs.answer):
        return row(Outcome.SAME)
    if not unexpected and (reason := _difference(ours)):
        return row(Outcome.INTENDED, reason)
    if not unexpected and case.old != case.head and not ours.faults(case.head):
        return row(Outcome.INTENDED, "as later versions of the reference")
    if ours.lacks_key or theirs.lacks_key:
        return row(Outcome.SKIPPED, f"needs the key {case.key}")
    found = f"the reference's own answer: {'; '.join(unexpected)}" if unexpected else "answers differ"
    return row(Outcome.DIFFERENT, found)


def _difference(ours: Played) -> str | None:
    """Return the reason of an intended difference, if the answer is the one that it intends."""
    difference = (DIFFERENCES | QUEUE_DIFFERENCES).get(ours.case.name)
    return None if difference is None or ours.faults(difference.expect) else difference.reason


def run(base_url: str, other_url: str | None = None, cases: Iterable[Case] | None = None) -> list[Row]:
    """Send the cases one after the other; return a row per case, two with another server to compare."""
    chosen = [*(all_cases() if cases is None else cases)]
    ours = play(base_url, chosen)
    rows = [judge(played) for played in ours]
    if other_url:
        reason = "the reference dies of this request"
        rows += [
            Row(one.case.name, Outcome.INTENDED, str(one.answer), "not sent", reason)
            for one in ours
            if one.case.kills_old
        ]
        compared = [one for one in ours if not one.case.kills_old]
        rows += map(compare, compared, play(other_url, [one.case for one in compared]))
    return rows


def report(rows: list[Row], console: Console) -> None:
    """Print what is not the same, then the counts."""
    table = Table("case", "outcome", "answer", "reference", "remark")
    colours = {Outcome.DIFFERENT: "red", Outcome.INTENDED: "yellow", Outcome.SKIPPED: "dim"}
    for row in rows:
        if row.outcome is not Outcome.SAME:
            table.add_row(row.case, row.outcome.value, row.answer, row.expected, row.remark, style=colours[row.outcome])
    if table.row_count:
        console.print(table)
    counts = {outcome: sum(row.outcome is outcome for row in rows) for outcome in Outcome}
    console.print(", ".join(f"{count} {outcome.value}" for outcome, count in counts.items() if count))


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--base-url",
        required=True,
        metavar="URL",
        help="server to judge, without API keys, and without a queue unless --queue",
    )
    parser.add_argument("--compare", metavar="URL", help="reference prover 0.27.0 with the same keys")
    parser.add_argument("--case", action="append", metavar="NAME", help="only this case; repeatable")
    parser.add_argument("--queue", action="store_true", help="both have a queue: play its flows instead")
    options = parser.parse_args()
    names = set(options.case or ())
    if names and options.queue:
        parser.error("--queue plays all its steps, because they need each other; leave out --case")
    if unknown := names - {case.name for case in all_cases()}:
        parser.error(f"there is no case {', '.join(sorted(unknown))}")
    chosen = [case for case in all_cases() if not names or case.name in names]
    rows = run(options.base_url, options.compare, steps() if options.queue else chosen)
    report(rows, Console(width=None if sys.stdout.isatty() else 160))
    return 1 if any(row.outcome is Outcome.DIFFERENT for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
