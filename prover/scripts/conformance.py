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
from collections.abc import Iterable
from dataclasses import dataclass

from conformance_cases import DIFFERENCES, Case, Expectation, all_cases
from conformance_queue import QUEUE_DIFFERENCES, Played, alike, play, steps
from conformance_wire import Answer, ask
from rich.console import Console
from rich.table import Table


class Outcome(enum.Enum):
    """Result of one case."""

    SAME = "same"
    MEANT = "meant"
    LEFT_OUT = "left out"
    DIFFERENT = "different"


@dataclass(frozen=True)
class Row:
    """One line of the report."""

    case: str
    outcome: Outcome
    answer: str
    expected: str
    remark: str = ""


def faults(answer: Answer, expected: Expectation) -> list[str]:
    """Say in which ways an answer is not the expected one."""
    found = []
    message = str(answer.problem.get("message", ""))
    if answer.status != (expected["status"] or 0):
        found.append(f"status {answer.status}, expected {expected['status']}")
    if expected.get("empty_body") and (answer.text or answer.allow):
        found.append("a body, or an Allow header")
    if expected.get("proof") and not answer.is_proof:
        found.append("no proof")
    if "body" in expected and answer.text != expected["body"]:
        found.append(f"body {answer.text[:40]!r}")
    if "code" in expected and answer.problem.get("code") != expected["code"]:
        found.append(f"code {answer.problem.get('code')}, expected {expected['code']}")
    # Section 2.2 of the service specification leaves the type of error bodies free.
    if "content_type" in expected and "code" not in expected and answer.content_type != expected["content_type"]:
        found.append(f"content type {answer.content_type!r}")
    found += [
        f"no {words!r} in {message[:60]!r}" for words in expected.get("message_contains", []) if words not in message
    ]
    return found


def judge(case: Case, answer: Answer) -> Row:
    """Compare an answer with the recorded one of the reference, and with our intended differences."""
    expected = f"{case.head['status']} {case.head.get('code', '')}".strip()
    found = faults(answer, case.head)
    if not found:
        return Row(case.name, Outcome.SAME, str(answer), expected)
    if case.name in DIFFERENCES and not faults(answer, case.ours):
        return Row(case.name, Outcome.MEANT, str(answer), expected, DIFFERENCES[case.name].reason)
    if case.key and answer.lacks_key:
        return Row(case.name, Outcome.LEFT_OUT, str(answer), expected, f"needs the key {case.key}")
    return Row(case.name, Outcome.DIFFERENT, str(answer), expected, "; ".join(found))


def compare(case: Case, answer: Answer, other_url: str) -> Row:
    """Compare an answer with that of a running reference of version 0.27.0."""
    if case.kills_old:
        return Row(case.name, Outcome.MEANT, str(answer), "not sent", "the reference dies of this request")
    theirs = _ask(other_url, case)

    def row(outcome: Outcome, remark: str = "") -> Row:
        return Row(case.name, outcome, str(answer), str(theirs), remark)

    unexpected = faults(theirs, case.old)
    if not unexpected and answer.gist == theirs.gist:
        return row(Outcome.SAME)
    if not unexpected and case.name in DIFFERENCES and not faults(answer, case.ours):
        return row(Outcome.MEANT, DIFFERENCES[case.name].reason)
    if not unexpected and case.old != case.head and not faults(answer, case.head):
        return row(Outcome.MEANT, "as later versions of the reference")
    if case.key and (answer.lacks_key or theirs.lacks_key):
        return row(Outcome.LEFT_OUT, f"needs the key {case.key}")
    return row(
        Outcome.DIFFERENT, f"the reference's own answer: {'; '.join(unexpected)}" if unexpected else "answers differ"
    )


def _ask(base_url: str, case: Case) -> Answer:
    return ask(base_url, case.method, case.path, case.body, case.headers)


def run_queue(base_url: str, other_url: str | None = None) -> list[Row]:
    """Play the flows of a server with a queue; returns a row per step, two with another server to compare."""
    script = steps()
    ours = play(base_url, script)
    rows = [judge_step(step) for step in ours]
    if other_url:
        rows += map(compare_step, ours, play(other_url, script))
    return rows


def judge_step(played: Played) -> Row:
    """Compare an answer with that of later versions of the reference, and with our intended differences."""
    step, answer = played.step, played.answer

    def row(outcome: Outcome, remark: str = "") -> Row:
        return Row(step.name, outcome, str(answer), str(step.expect["status"]), remark)

    found = played.faults(step.expect)
    if not found:
        return row(Outcome.SAME)
    if step.name in QUEUE_DIFFERENCES and not played.faults(QUEUE_DIFFERENCES[step.name].expect):
        return row(Outcome.MEANT, QUEUE_DIFFERENCES[step.name].reason)
    return row(Outcome.DIFFERENT, "; ".join(found))


def compare_step(ours: Played, theirs: Played) -> Row:
    """Compare an answer with that of a reference of version 0.27.0 with a queue of its own."""
    step = ours.step

    def row(outcome: Outcome, remark: str = "") -> Row:
        return Row(step.name, outcome, str(ours.answer), str(theirs.answer), remark)

    unexpected = theirs.faults(step.old)
    if unexpected:
        return row(Outcome.DIFFERENT, f"the reference's own answer: {'; '.join(unexpected)}")
    if alike(ours.answer, theirs.answer):
        return row(Outcome.SAME)
    if step.name in QUEUE_DIFFERENCES and not ours.faults(QUEUE_DIFFERENCES[step.name].expect):
        return row(Outcome.MEANT, QUEUE_DIFFERENCES[step.name].reason)
    if step.old != step.expect and not ours.faults(step.expect):
        return row(Outcome.MEANT, "as later versions of the reference")
    return row(Outcome.DIFFERENT, "answers differ")


def run(base_url: str, other_url: str | None = None, cases: Iterable[Case] | None = None) -> list[Row]:
    """Send the cases one after the other; return a row per case, two with another server to compare."""
    rows = []
    for case in all_cases() if cases is None else cases:
        answer = _ask(base_url, case)
        rows.append(judge(case, answer))
        if other_url:
            rows.append(compare(case, answer, other_url))
    return rows


def report(rows: list[Row], console: Console) -> None:
    """Print what is not the same, then the counts."""
    table = Table("case", "outcome", "answer", "reference", "remark")
    colours = {Outcome.DIFFERENT: "red", Outcome.MEANT: "yellow", Outcome.LEFT_OUT: "dim"}
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
    chosen = [case for case in all_cases() if not options.case or case.name in options.case]
    if options.queue:
        rows = run_queue(options.base_url, options.compare)
    else:
        rows = run(options.base_url, options.compare, chosen)
    report(rows, Console(width=None if sys.stdout.isatty() else 160))
    return 1 if any(row.outcome is Outcome.DIFFERENT for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
