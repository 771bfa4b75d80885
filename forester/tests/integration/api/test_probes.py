"""The probes of an orchestrator: alive with a free loop and living tasks, ready after a start that has succeeded."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from network_states import network
from pydantic import SecretStr
from scripted_node import serving
from solders.keypair import Keypair
from start_options import Network, until

from forester.api.app import serving_api
from forester.api.routes import Monitoring
from forester.checks.result import CheckResult
from forester.cli import start as start_module
from forester.daemon.daemon import Daemon
from forester.daemon.services import open_services
from forester.daemon.supervisor import Supervisor
from forester.errors import EndpointTimedOut
from forester.network_status.snapshot import SnapshotKeeper
from forester.network_status.state import NetworkState
from forester.observability.health import HealthBoard
from forester.observability.metrics import Metrics
from forester.observability.probes import Probes
from forester.settings import Settings, SigningKey
from shared.process.retries import Backoff
from shared.process.shutdown import Shutdown

KEY = SigningKey(Keypair.from_seed(bytes([5]) * 32))
QUICK = Backoff(0.001, 0.002)


def ask_at(port: int, path: str, timeout_s: float = 30.0) -> tuple[int, Any]:
    """Return status and body, as a probe of an orchestrator sees them."""
    url = f"http://127.0.0.1:{port}{path}"
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


@contextlib.asynccontextmanager
async def api(probes: Probes) -> AsyncIterator[int]:
    async def read() -> NetworkState:
        return network()

    metrics, board = Metrics(), HealthBoard()
    state = Monitoring(metrics, board, SnapshotKeeper(read, metrics, board), probes)
    async with serving_api(Settings(api_server_port=0), state) as address:
        assert address is not None
        yield address[1]


async def asked(port: int, path: str) -> tuple[int, Any]:
    return await asyncio.to_thread(ask_at, port, path)


async def test_startupz__of_a_forester_that_waits_for_its_services__is_well() -> None:
    async with api(Probes()) as port:
        assert (await asked(port, "/readyz"))[0] == 503
        assert await asked(port, "/startupz") == (200, {"status": "started"})


async def test_livez__event_loop_is_blocked__does_not_answer_until_it_is_free() -> None:
    async with api(Probes()) as port:
        assert await asked(port, "/livez") == (200, {"status": "alive"})
        found: list[object] = []

        def probe() -> None:
            try:
                found.append(ask_at(port, "/livez", timeout_s=0.3))
            except (TimeoutError, urllib.error.URLError) as error:
                found.append(error)

        thread = threading.Thread(target=probe)
        thread.start()
        time.sleep(1.0)  # noqa: ASYNC251 - the fault
        await asyncio.to_thread(thread.join)
        assert isinstance(found[0], TimeoutError | urllib.error.URLError)
        assert await asked(port, "/livez") == (200, {"status": "alive"})


async def test_livez__supervised_task_dies__fails_and_names_it() -> None:
    supervisor, probes = Supervisor(), Probes()
    probes.watch(lambda: supervisor.dead)

    async def cancelled_by_a_bug() -> None:
        raise asyncio.CancelledError

    async with api(probes) as port:
        supervisor.start("calm", supervisor.stopping.wait, drains=True)
        supervisor.start("tree", cancelled_by_a_bug, name="tree 1")
        await until(lambda: supervisor.names == {"calm"})
        assert await asked(port, "/livez") == (503, {"status": "dead", "tasks": ["tree 1"]})
        assert await asked(port, "/health") == (200, {"status": "ok"})
        probes.draining = True
        assert await asked(port, "/livez") == (200, {"status": "alive"})
        await supervisor.stop(10)


async def test_livez__tasks_fail_again_and_again_or_have_done_their_work__stays_well() -> None:
    supervisor, probes = Supervisor(backoff=QUICK), Probes()
    probes.watch(lambda: supervisor.dead)

    async def failing() -> None:
        raise EndpointTimedOut("slow node")

    async def short() -> None:
        pass

    supervisor.start("node", failing)
    supervisor.start("short", short)
    await until(lambda: supervisor.restarts.labels("node")._value.get() > 3)
    assert probes.dead_tasks == ()
    await supervisor.stop(10)
    assert probes.dead_tasks == ()


async def test_readyz__steps_of_a_start__are_named_until_all_have_succeeded_and_again_while_draining() -> None:
    probes = Probes()
    async with api(probes) as port:
        expected = ["node", "indexer", "tasks"]
        for step in tuple(expected):
            assert await asked(port, "/readyz") == (503, {"status": "starting", "waiting_for": expected})
            probes.reach(step)
            expected.remove(step)
        assert await asked(port, "/readyz") == (200, {"status": "ready"})
        probes.draining = True
        assert await asked(port, "/readyz") == (503, {"status": "draining"})


def test_probes__indexer_that_is_well_on_the_board__counts_as_answered() -> None:
    board, probes = HealthBoard(), Probes()
    probes.follow(board)
    board.clear("prover")
    board.report("indexer", "away")
    assert "indexer" in probes.missing
    board.clear("indexer")
    assert "indexer" not in probes.missing


@pytest.mark.parametrize("answers", [True, False])
async def test_start_checks__indexer__counts_once_it_answers(answers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def results(_: Settings) -> list[CheckResult]:
        return [CheckResult("rpc", True, "fine", 1), CheckResult("indexer", answers, "reported", 1)]

    monkeypatch.setattr(start_module, "run_start_checks", results)
    probes = Probes()
    await start_module._checked(Settings(), probes)
    assert ("indexer" in probes.missing) != answers


async def test_daemon__from_its_start_to_its_end__reaches_node_and_tasks_and_drains(tmp_path: Path) -> None:
    nowhere = SecretStr("http://127.0.0.1:1")
    shutdown, probes, node = Shutdown(), Probes(), Network(answers={"getSignaturesForAddress": []})
    async with asyncio.timeout(60), serving(node):
        settings = Settings(
            rpc_url=SecretStr(node.url),
            indexer_url=nowhere,
            payer=KEY,
            derivation=KEY.pubkey,
            journal_path=str(tmp_path / "journal.sqlite"),
        )
        async with open_services(settings, Metrics()) as services:
            daemon = Daemon(services, HealthBoard(), probes=probes)
            assert probes.missing == ("node", "indexer", "tasks")
            running = asyncio.create_task(daemon.run(shutdown))
            await until(lambda: probes.missing == ("indexer",))
            assert not probes.draining
            daemon._supervisor._tasks["heartbeat"].cancel()
            await until(lambda: probes.dead_tasks == ("heartbeat",))
            shutdown.request()
            await running
            assert probes.draining
            assert probes.dead_tasks == ()
