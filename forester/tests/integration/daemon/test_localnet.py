"""``forester start`` as a process: through epochs of the published programs, a signal, and a start that resumes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from localnet_process import Localnet, running_localnet
from solders.pubkey import Pubkey
from status_lines import check_queue_blocks

from forester.api.monitoring import watching
from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RpcPool
from forester.cli.main import cli
from forester.daemon.daemon import Daemon
from forester.daemon.services import open_services
from forester.network_status.reader import read_network
from forester.network_status.state import NetworkState
from forester.observability.health import HealthBoard
from forester.observability.metrics import Metrics
from forester.settings import load_settings
from shared.process.shutdown import Shutdown

SLOTS = ("--slot-ms", "30", "--first-slot", "570")
"""A forester that is there within a few seconds finds the registration phase of epoch 3, from slot 600 to 699, open."""

V1 = {"v1_compress": 5, "v1_spend": 3, "v1_addresses": 2}
SEED = {"compress": 25, "spend": 12, "addresses": 22} | V1
"""Both generations: batches of 10 in V2 queues, five elements in V1 queues."""

UNKNOWN = Pubkey(bytes([77]) * 32)
DEADLINE_S = 240
"""Far more than a loaded machine needs: an epoch has 200 slots, and one that is missed is followed by another."""

MORE_AFTER_S = 30
FIRST_NODE_GONE = {"RPC_URL": "http://127.0.0.1:1", "RPC_POOL_INITIAL_RETRY_DELAY_MS": "10"}


@pytest.fixture(scope="module")
def net() -> Iterator[Localnet]:
    with running_localnet(*SLOTS) as localnet:
        localnet.call("localnet_seed", SEED)
        yield localnet


def environment(net: Localnet, journal: Path) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    quick = {"CONFIRMATION_POLL_INTERVAL_MS": "100"}
    return inherited | net.environment | quick | {"JOURNAL_PATH": str(journal)}


@contextlib.contextmanager
def forester(net: Localnet, journal: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    log = journal.with_name("log")
    with log.open("a") as found:
        process = subprocess.Popen(
            [sys.executable, "-m", "forester", "start", *options],
            env=environment(net, journal),
            cwd=journal.parent,
            stderr=found,
            text=True,
        )
        try:
            yield process
        except BaseException:
            sys.stderr.write(log.read_text()[-20_000:])
            raise
        finally:
            process.kill()
            process.wait(60)


async def state_of(net: Localnet) -> NetworkState:
    async with RpcPool([net.url]) as pool:
        return await read_network(RpcClient(pool), all_epochs=True)


def wait_for(net: Localnet, process: subprocess.Popen[str], true: Callable[[NetworkState], bool]) -> NetworkState:
    """Wait; a loaded machine may miss the report of an epoch, so there is more to work on after a while."""
    ends, again = time.monotonic() + DEADLINE_S, time.monotonic() + MORE_AFTER_S
    while time.monotonic() < ends:
        assert process.poll() is None, "the forester has ended"
        state = asyncio.run(state_of(net))
        if true(state):
            return state
        if time.monotonic() > again and drained(state):
            net.call("localnet_seed", {"compress": 10})
            again = time.monotonic() + MORE_AFTER_S
        time.sleep(0.5)
    raise AssertionError(f"not reached within {DEADLINE_S} s")


def drained(state: NetworkState) -> bool:
    batches = [queue.ready_zkp_batches for item in state.trees for queue in item.queues.values()]
    return not any(batches) and not any(item.pending_cells for item in state.trees)


def v1(state: NetworkState) -> dict[str, tuple[int, int]]:
    """Return elements that wait, and changes of the trees so far, by the generation's kinds."""
    found = {"StateV1": (0, 0), "AddressV1": (0, 0)}
    for item in state.trees:
        if not item.kind.is_batched:
            waiting, changes = found[item.kind.label]
            found[item.kind.label] = waiting + item.pending_cells, changes + item.head.sequence_number
    return found


def work(state: NetworkState, *, reported: bool) -> int:
    """Return elements that the program has counted for us, or those of epochs that were reported."""
    every = [item for registrations in state.registrations.values() for item in registrations]
    return sum(item.work_counter for item in every if item.has_reported_work or not reported)


def stop(process: subprocess.Popen[str], number: signal.Signals) -> int:
    process.send_signal(number)
    return process.wait(DEADLINE_S)


def test_start__one_epoch_with_traffic__drains_the_queues_reports_ends_cleanly_and_continues(
    net: Localnet, tmp_path: Path
) -> None:
    journal = tmp_path / "journal.sqlite"
    before = v1(asyncio.run(state_of(net)))
    assert (before["StateV1"][0], before["AddressV1"][0]) == (3, 2)
    with forester(net, journal) as process:
        state = wait_for(net, process, lambda state: drained(state) and work(state, reported=True) > 0)
        moved = sum(item.head.next_index for item in state.trees if item.kind.is_batched)
        assert moved >= 40 + 20, "what 25 accounts, 12 spent ones and 22 addresses come to"
        assert work(state, reported=False) >= 40 + 10 + 20 + 5, "each element is counted, nullified ones and V1, too"
        after = v1(state)
        assert after["StateV1"] == (0, before["StateV1"][1] + 3)
        assert after["AddressV1"] == (0, before["AddressV1"][1] + 2 * 2), "an address changes its predecessor, too"
        found = CliRunner().invoke(cli, ["status", "--queue"], env=net.environment)
        assert found.exit_code == 0, found.output
        processed = check_queue_blocks(net, found.output)
        assert processed["APPEND"] >= 40, "25 and 12 accounts, the batches that are full"
        assert (processed["NULLIFY"], processed["ADDRESS"]) == (10, 20)
        with forester(net, journal) as second:
            assert second.wait(DEADLINE_S) == 78
        assert "another forester uses the journal" in journal.with_name("log").read_text()
        assert stop(process, signal.SIGTERM) == 0
    lines = [json.loads(line) for line in journal.with_name("log").read_text().splitlines() if line.startswith("{")]
    assert [line["complete"] for line in lines if line["event"] == "drained"] == [True]
    assert not [line for line in lines if line["event"] in ("task_crashed", "unexpected_error")]
    net.call("localnet_seed", SEED)
    asyncio.run(go_on(net, journal))


async def go_on(net: Localnet, journal: Path) -> None:
    """Continue with the same daemon, its first node gone, one connection for all trees: drain once more, stop."""
    odd = environment(net, journal) | FIRST_NODE_GONE | {"FALLBACK_RPC_URL": net.url, "RPC_POOL_SIZE": "1"}
    settings = load_settings({}, environment=odd, dotenv=journal.with_name("none")).settings
    metrics, board, shutdown = Metrics(), HealthBoard(), Shutdown()
    async with (
        open_services(settings, metrics) as services,
        watching(settings, metrics, board, services.rpc) as watcher,
        asyncio.timeout(DEADLINE_S),
    ):
        daemon = Daemon(services, board, watcher.worked)
        watcher.choose(lambda tree: tree.address in daemon.trees)
        running = asyncio.create_task(daemon.run(shutdown))
        while not drained(await read_network(services.rpc)):
            assert not running.done()
            await asyncio.sleep(0.5)
        assert len(daemon.trees) == 10
        shutdown.request()
        await running
    assert b"forester_transactions_processed_total{" in metrics.exposition()
    assert b"forester_task_restarts_total{" not in metrics.exposition()


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("--tree-id", str(UNKNOWN)), "chosen_trees: none of the trees of --tree-id exists"),
        (("--derivation", str(UNKNOWN)), f"admission: no forester is known by the derivation key {UNKNOWN}"),
    ],
)
def test_start__settings_that_can_never_work__ends_at_once_with_the_remedy(
    net: Localnet, tmp_path: Path, options: tuple[str, ...], found: str
) -> None:
    done = CliRunner().invoke(cli, ["start", *options], env=environment(net, tmp_path / "journal.sqlite"))
    assert done.exit_code == 78, done.output
    assert found in done.output


def test_dry_run__nothing_registered__reports_the_plan_and_writes_nothing(net: Localnet, tmp_path: Path) -> None:
    journal = tmp_path / "none" / "journal.sqlite"
    done = subprocess.run(
        [sys.executable, "-m", "forester", "start", "--dry-run", "--output", "json"],
        env=environment(net, journal),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert len(plan["trees"]) == 10
    assert all(item["success"] for item in plan["checks"])
    assert {item["name"] for item in plan["checks"]} >= {"rpc", "admission", "trees", "indexer", "prover", "websocket"}
    assert plan["epochs"][-1]["action"] in ("register", "wait", "finalize", "work")
    assert plan["journal"] == str(journal)
    assert not journal.parent.exists()
