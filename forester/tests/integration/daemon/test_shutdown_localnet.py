"""SIGTERM while a proof and a transaction are in flight: both end well, and the next process continues from there."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sqlite3
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import web
from localnet_process import Localnet, running_localnet

from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RpcPool
from forester.daemon.trees.dispatch import CLOSE_S, DRAIN_S
from forester.network_status.reader import read_network

SLOTS = ("--slot-ms", "150", "--first-slot", "600")
"""The registration phase of epoch 3 begins; its active phase, from slot 700 to 899, outlasts all that happens in it."""

DEADLINE_S = 240


@dataclass
class Gate:
    """Proxy of a prover that holds back proofs, except ``passing`` of them, and counts requests for each."""

    prover_url: str
    passing: int = 0
    open: bool = False
    held: int = 0
    asked: Counter[str] = field(default_factory=Counter)
    url: str = ""
    moved: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def let(self, number: int = 0, *, all_: bool = False) -> None:
        async with self.moved:
            self.passing, self.open = self.passing + number, self.open or all_
            self.moved.notify_all()

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        if request.method == "POST":
            self.asked[json.loads(body)["publicInputHash"]] += 1
            self.held += 1
            async with self.moved:
                await self.moved.wait_for(lambda: self.open or self.passing > 0)
                self.passing -= not self.open
            self.held -= 1
        async with (
            aiohttp.ClientSession() as session,
            session.request(
                request.method,
                self.prover_url + request.path_qs,
                data=body,
                headers={"Content-Type": request.content_type},
            ) as answer,
        ):
            return web.Response(status=answer.status, body=await answer.read())


@contextlib.asynccontextmanager
async def gated(prover_url: str) -> AsyncIterator[Gate]:
    gate = Gate(prover_url)
    app = web.Application(client_max_size=1 << 26)
    app.router.add_route("*", "/{tail:.*}", gate.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        gate.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield gate
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def forester(net: Localnet, gate: Gate, folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    own = {"PROVER_URL": gate.url, "JOURNAL_PATH": str(folder / "journal"), "CONFIRMATION_POLL_INTERVAL_MS": "100"}
    log = folder / "log"
    with log.open("a") as reported:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "forester", "start", "--processor-mode", "v2"),
            env=inherited | net.environment | own,
            cwd=folder,
            stderr=reported,
        )
    try:
        yield process
    except BaseException:
        sys.stderr.write(log.read_text()[-20_000:])
        raise
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def lines(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "log").read_text().splitlines() if line.startswith("{")]


def reported(folder: Path, event: str, **facts: object) -> bool:
    return any(line["event"] == event and facts.items() <= line.items() for line in lines(folder))


def rows(folder: Path, query: str) -> int:
    """Return the count of a query in the journal of a running process."""
    with contextlib.closing(sqlite3.connect(f"file:{folder / 'journal'}?mode=ro", uri=True)) as journal:
        return int(journal.execute(query).fetchone()[0])


async def until(process: asyncio.subprocess.Process, true: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not true():
            assert process.returncode is None, "the forester has ended"
            await asyncio.sleep(0.05)


async def test_sigterm__proof_and_transaction_in_flight__end_well_and_nothing_is_made_twice(tmp_path: Path) -> None:
    with running_localnet(*SLOTS) as net:
        await asyncio.to_thread(net.call, "localnet_seed", {"compress": 40})
        async with gated(net.environment["PROVER_URL"]) as gate:
            async with forester(net, gate, tmp_path) as process:
                await until(process, lambda: reported(tmp_path, "epoch_action", action="register", done=True))
                if await asyncio.to_thread(net.call, "getSlot") < 690:
                    await asyncio.to_thread(net.call, "localnet_warp", 699)
                await until(process, lambda: reported(tmp_path, "epoch_action", action="finalize", done=True))
                await until(process, lambda: gate.held >= 4)
                await asyncio.to_thread(net.call, "localnet_faults", {"dropEvery": 1})
                await gate.let(1)
                in_flight = "SELECT count(*) FROM signatures WHERE purpose = 'v2_batches'"
                await until(process, lambda: rows(tmp_path, in_flight) > 0)
                process.terminate()
                await until(process, lambda: reported(tmp_path, "draining", signal="SIGTERM"))
                await asyncio.to_thread(net.call, "localnet_faults", {"dropEvery": 0})
                await gate.let(all_=True)
                assert await asyncio.wait_for(process.wait(), DEADLINE_S + DRAIN_S + CLOSE_S) == 0
            assert reported(tmp_path, "drained", complete=True)
            after = lines(tmp_path)[[line["event"] for line in lines(tmp_path)].index("draining") :]
            fates = [line["event"] for line in after if line.get("purpose") == "v2_batches"]
            assert fates == ["transaction_confirmed"], "what was sent is waited for, and nothing else is sent"
            assert rows(tmp_path, in_flight) == 0
            assert rows(tmp_path, "SELECT count(*) FROM proofs") >= 3, "what was under way is kept"
            async with forester(net, gate, tmp_path) as process:
                await continues_working(net, process)
                process.terminate()
                assert await asyncio.wait_for(process.wait(), DEADLINE_S) == 0
    assert set(gate.asked.values()) == {1}, "no proof was asked for twice"
    assert len(gate.asked) == 4


async def continues_working(net: Localnet, process: asyncio.subprocess.Process) -> None:
    """Wait until nothing is left to prove."""
    async with RpcPool([net.url]) as pool, asyncio.timeout(DEADLINE_S):
        while True:
            assert process.returncode is None, "the forester has ended"
            state = await read_network(RpcClient(pool))
            if not any(queue.ready_zkp_batches for item in state.trees for queue in item.queues.values()):
                return
            await asyncio.sleep(0.3)
