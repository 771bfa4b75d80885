"""The whole system on this machine: a network with the published programs, a prover, a forester that empties queues.

Makes development keys (a minute, once), starts `prover start` and `localnet up` with them, sends transactions as users
do, and runs `forester start` until no queue holds a whole batch. Prints the trees before and after. Exit status 0 only
when every queue was emptied and the roots of all trees with work have changed on chain.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench_report import Report
from fleet import Member, admit
from network import FIRST_SLOT, Network, batch_of, log_line, running_network
from program_log import run_program
from prover_server import OURS, running

from forester.errors import ForesterError

KEYS = Path(__file__).resolve().parents[2] / "keys-cache" / "development"
TRAFFIC = {"compress": 25, "spend": 12, "addresses": 12, "v1_compress": 4, "v1_spend": 2, "v1_addresses": 2}
SLOT_MS = 200
WORK_DEADLINE_S = 300.0
POLL_S = 2.0


class DemoFailed(Exception):
    """A step did not do what it must; the message says which."""


async def trees_of(network: Network) -> list[dict[str, Any]]:
    """Return all trees of the network as the chain has them."""
    return [
        {
            "tree": f"{tree.kind.label} {str(tree.tree.address)[:6]}",
            "root": (await network.root(tree))[:12],
            "leaves": tree.head.next_index,
            "waiting": " + ".join(map(str, tree.pending.values())),
            "has_work": any(count >= batch_of(tree) for count in tree.pending.values()),
        }
        for tree in (await network.state()).trees
    ]


async def forest(network: Network, member: Member) -> list[dict[str, Any]]:
    """Run the forester until no batch waits; return the trees then."""
    member.start(network.net.environment)
    log_line("   it registers and waits for its epoch; waiting elements: to insert, or to insert + to nullify")
    ends = time.monotonic() + WORK_DEADLINE_S
    try:
        while time.monotonic() < ends:
            trees = await trees_of(network)
            if not any(tree["has_work"] for tree in trees):
                return trees
            _ = member.pid  # it runs
            log_line(
                "   waiting: " + ", ".join(f"{tree['tree']} {tree['waiting']}" for tree in trees if tree["has_work"])
            )
            await asyncio.sleep(POLL_S)
    finally:
        await asyncio.to_thread(member.stop)
    raise DemoFailed(f"queues were not emptied within {WORK_DEADLINE_S:.0f} s: {member.log.read_text()[-2000:]}")


async def demo(folder: Path, report: Report) -> None:
    """Run all steps."""

    @contextmanager
    def step(title: str) -> Iterator[None]:
        log_line(f"{len(report.figures) + 1}. {title}")
        started = time.monotonic()
        yield
        report.figures[f"{title}, s"] = round(time.monotonic() - started, 1)

    with step("development keys (once)"):
        words = [OURS, "keys", "dev", "--mode", "local-rpc", "--keys-dir", str(KEYS)]
        await asyncio.to_thread(run_program, words, {"key_created": "   key {number} of {of}: {circuit}"}, log_line)
    with running(OURS, KEYS) as prover:
        options = ("--slot-ms", str(SLOT_MS), "--first-slot", str(FIRST_SLOT), "--keys-dir", str(KEYS))
        async with running_network(*options, "--prover-url", f"http://127.0.0.1:{prover.port}") as network:
            with step("traffic of users, with proofs"):
                await network.seed(TRAFFIC)
                if network.refused:
                    raise DemoFailed("the network refused the traffic")
            before, member = await trees_of(network), Member(1, 1, folder)
            admit(network.net, [member])
            with step("forester: registration, proofs, transactions"):
                after = await forest(network, member)
    report.tables |= {"trees before": [*before], "trees after": [*after]}
    for old, new in zip(before, after, strict=True):
        if old["has_work"]:
            report.require(f"the root of {old['tree']} changed", old["root"] != new["root"], new["root"])


def main() -> int:
    """Run the demo; return 0 if every queue was emptied."""
    report = Report()
    with tempfile.TemporaryDirectory(prefix="demo-") as folder:
        try:
            asyncio.run(demo(Path(folder), report))
        except (DemoFailed, ForesterError, RuntimeError, subprocess.CalledProcessError) as error:
            log_line(f"\nDemo failed: {error}")
            return 1
    report.write(as_json=False)
    if not report.passed:
        return 1
    log_line('The demo worked: every full batch of the queues is in its tree. Next: "First proof" in README.md')
    return 0


if __name__ == "__main__":
    sys.exit(main())
