"""The whole system on this machine: a network with the published programs, a prover, a forester that empties queues.

Makes development keys (a minute, once), starts `prover start` and `localnet up` with them, sends transactions as users
do, and runs `forester start` until no queue holds a whole batch. Prints the trees before and after. Exit status 0 only
when every queue was emptied and the roots of all trees with work have changed on chain.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from rich.console import Console
from rich.table import Table

from forester.chain.latest_root import latest_root
from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RpcPool
from forester.errors import ForesterError
from forester.network_status.reader import read_network
from forester.network_status.state import TreeState

WORKSPACE = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
LOCALNET = WORKSPACE / "shared" / "localnet" / ".venv" / "bin" / "localnet"
KEYS = WORKSPACE / "keys-cache" / "development"
TRAFFIC = {"compress": 25, "spend": 12, "addresses": 12, "v1": 4, "v1-spend": 2, "v1-addresses": 2}
SLOT_MS = 200
START_DEADLINE_S = 180.0
WORK_DEADLINE_S = 300.0
STOP_DEADLINE_S = 60.0
POLL_S = 1.0


class DemoFailed(Exception):
    """A step did not do what it must; the message says which."""


def say(message: str) -> None:
    """Print one line of progress on standard error."""
    print(message, file=sys.stderr, flush=True)


@contextlib.contextmanager
def running(name: str, command: list[str], log: Path, variables: dict[str, str] | None = None) -> Iterator[IO[str]]:
    """Run a process with its standard output as the value and its standard error in ``log``; end it by SIGTERM."""
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=sink, text=True, env={**os.environ, **(variables or {})}
        )
    try:
        yield cast("IO[str]", process.stdout)
        if process.poll() is not None:
            raise DemoFailed(f"{name} ended with {process.returncode}: {tail(log)}")
        process.send_signal(signal.SIGTERM)
        process.wait(STOP_DEADLINE_S)
    except subprocess.TimeoutExpired as error:
        raise DemoFailed(f"{name} did not end within {STOP_DEADLINE_S:.0f} s of SIGTERM") from error
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        cast("IO[str]", process.stdout).close()


def tail(log: Path) -> str:
    """Return the last lines of a log."""
    return log.read_text(errors="replace")[-2000:].strip()


def announced(log: Path, deadline_s: float = START_DEADLINE_S) -> dict[str, str]:
    """Return the line in which the prover announces its addresses."""
    deadline = time.monotonic() + deadline_s
    while time.monotonic() < deadline:
        for line in log.read_text(errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                told = json.loads(line)
                if told.get("event") == "listening":
                    return dict(told)
        time.sleep(0.1)
    raise DemoFailed(f"the prover does not listen: {tail(log)}")


@contextlib.contextmanager
def running_prover(folder: Path) -> Iterator[str]:
    """Run `prover start` on free ports; yield its URL."""
    log = folder / "prover.log"
    ports = ["--prover-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0"]
    with running("prover start", [str(BIN / "prover"), "start", "--keys-dir", str(KEYS), *ports], log):
        yield f"http://{announced(log)['api']}"


@contextlib.contextmanager
def running_localnet(folder: Path, prover_url: str) -> Iterator[dict[str, str]]:
    """Run `localnet up` on free ports with the verifying keys of KEYS; yield the environment of a forester."""
    log = folder / "localnet.log"
    ports = [word for name in ("rpc", "prover", "indexer") for word in (f"--{name}-port", "0")]
    keys = ["--keys-dir", str(KEYS), "--prover-url", prover_url]
    command = [str(LOCALNET), "up", "--json", "--slot-ms", str(SLOT_MS), *ports, *keys]
    with running("localnet up", command, log) as output:
        line = output.readline()
        if not line:
            raise DemoFailed(f"localnet ended: {tail(log)}")
        yield dict(json.loads(line)["environment"])


def run(name: str, command: list[str]) -> None:
    """Run all steps. Raise DemoFailed or ReferenceUnavailable."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DemoFailed(f"{name} ended with {done.returncode}: {done.stderr.strip()[-2000:]}")


@dataclass(frozen=True)
class TreeView:
    """A tree at one moment: its root, its next leaf, the elements that wait by queue, and how many a batch takes."""

    kind: str
    address: str
    root: bytes
    next_index: int
    pending: dict[str, int]
    batch: int

    @property
    def batches_waiting(self) -> bool:
        """True if the forester has work."""
        return any(count >= self.batch for count in self.pending.values())


async def read_trees(rpc_url: str) -> list[TreeView]:
    """Return all trees of the network as on chain."""
    async with RpcPool([rpc_url]) as pool:
        client = RpcClient(pool)
        state = await read_network(client)
        accounts = await client.accounts([tree.tree.address for tree in state.trees])
        return [view(tree, account.data) for tree, account in zip(state.trees, accounts, strict=True) if account]


def view(tree: TreeState, data: bytes) -> TreeView:
    """Return the part of a tree's state that is shown."""
    batch = 1 if tree.batched is None else tree.batched.queue.zkp_batch_size
    root = bytes(latest_root(tree.kind, data))
    return TreeView(tree.kind.label, str(tree.tree.address), root, tree.head.next_index, tree.pending, batch)


@contextlib.contextmanager
def progress(rpc_url: str) -> Iterator[None]:
    """Say every few seconds what still waits."""
    done = threading.Event()

    def report() -> None:
        while not done.wait(5):
            with contextlib.suppress(ForesterError):
                trees = asyncio.run(read_trees(rpc_url))
                waiting = {kind: count for tree in trees for kind, count in tree.pending.items() if count}
                say(f"   waiting: {', '.join(f'{kind} {count}' for kind, count in waiting.items()) or 'nothing'}")

    reporter = threading.Thread(target=report, name="progress", daemon=True)
    reporter.start()
    try:
        yield
    finally:
        done.set()
        reporter.join()


def forest(folder: Path, environment: dict[str, str]) -> list[TreeView]:
    """Run the forester until no batch waits; return the trees then."""
    log = folder / "forester.log"
    variables = {**environment, "JOURNAL_PATH": str(folder / "journal.sqlite")}
    deadline = time.monotonic() + WORK_DEADLINE_S
    with (
        running("forester start", [str(BIN / "forester"), "start"], log, variables),
        progress(environment["RPC_URL"]),
    ):
        while time.monotonic() < deadline:
            trees = asyncio.run(read_trees(environment["RPC_URL"]))
            if not any(tree.batches_waiting for tree in trees):
                return trees
            time.sleep(POLL_S)
    raise DemoFailed(f"queues were not emptied within {WORK_DEADLINE_S:.0f} s: {tail(log)}")


def show(before: list[TreeView], after: list[TreeView], seconds: dict[str, float]) -> None:
    """Print trees and times."""
    table = Table("tree", "root before", "root after", "leaves", "waiting before", "after")
    for old, new in zip(before, after, strict=True):
        table.add_row(
            f"{old.kind} {old.address[:6]}…",
            *(f"{tree.root.hex()[:12]}…" for tree in (old, new)),
            f"{old.next_index} → {new.next_index}",
            *(" + ".join(map(str, tree.pending.values())) for tree in (old, new)),
        )
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table)
    for stage, passed in seconds.items():
        console.print(f"  {stage:<45} {passed:>6.1f} s")
    print("\nWaiting: appends + nullifications in V2 state trees. Batches take 10; what is left waits for more.")


def demo(folder: Path) -> None:
    """Run all steps."""
    seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def step(number: int, title: str) -> Iterator[None]:
        say(f"{number}. {title}")
        started = time.monotonic()
        yield
        seconds[title] = time.monotonic() - started

    with step(1, "development keys (once)"):
        run("prover keys dev", [str(BIN / "prover"), "keys", "dev", "--mode", "local-rpc", "--keys-dir", str(KEYS)])
    with running_prover(folder) as prover_url, contextlib.ExitStack() as stack:
        with step(2, "prover and network start"):
            environment = stack.enter_context(running_localnet(folder, prover_url))
        rpc_url = environment["RPC_URL"]
        with step(3, "traffic of users, with proofs"):
            counts = [word for name, count in TRAFFIC.items() for word in (f"--{name}", str(count))]
            run("localnet seed", [str(LOCALNET), "seed", "--url", rpc_url, *counts])
            run("localnet epoch", [str(LOCALNET), "epoch", "--url", rpc_url, "registration"])
        before = asyncio.run(read_trees(rpc_url))
        with step(4, "forester: registration, proofs, transactions"):
            after = forest(folder, environment)
    unchanged = [
        old.address for old, new in zip(before, after, strict=True) if old.batches_waiting and old.root == new.root
    ]
    if unchanged:
        raise DemoFailed(f"the roots of {', '.join(unchanged)} did not change")
    show(before, after, seconds)


def main() -> int:
    """Run the demo; 0 when every queue was emptied."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=Path, help="folder in which the logs of the processes stay")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="demo-") as temporary:
        folder = options.logs or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            demo(folder)
        except (DemoFailed, ForesterError) as error:
            say(f"\nDemo failed: {error}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
