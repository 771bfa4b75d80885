"""``forester dashboard`` as a process: over a localnet and the APIs of foresters that work, fail and stall."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from local_processes import free_port
from localnet_process import Localnet, running_localnet

from forester.api.app import create_app
from forester.api.routes import Monitoring
from forester.network_status.snapshot import SnapshotKeeper
from forester.observability.health import HealthBoard
from forester.observability.metrics import Metrics

DEADLINE_S = 240


@pytest.fixture(scope="module")
def net() -> Iterator[Localnet]:
    with running_localnet() as localnet:
        yield localnet


def get(port: int, path: str, host: str = "127.0.0.1") -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=10) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
    except OSError:
        return 0, None


def wait_for(port: int, path: str, true: Callable[[int, Any], bool]) -> Any:
    ends = time.monotonic() + DEADLINE_S
    while True:
        code, answer = get(port, path)
        if true(code, answer):
            return answer
        assert time.monotonic() < ends, (code, answer)
        time.sleep(0.2)


@contextlib.contextmanager
def dashboard(folder: Path, *options: str, **variables: str) -> Iterator[int]:
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")} | variables
    words = [sys.executable, "-m", "forester", "dashboard", *options]
    if "API_SERVER_PORT" not in variables:
        words += ["--port", str(port)]
    else:
        port = int(variables["API_SERVER_PORT"])
    with (folder / "log").open("a") as log:
        process = subprocess.Popen(words, env=environment, stderr=log, cwd=folder)
        try:
            yield port
            process.terminate()
            assert process.wait(30) == 0, (folder / "log").read_text()[-5000:]
        finally:
            process.kill()
            process.wait(30)


@contextlib.asynccontextmanager
async def forester_api(processed: int, problem: str | None = None) -> Any:
    """The API of a forester that has processed some elements; yields its URL."""
    metrics, board = Metrics(), HealthBoard()
    metrics.count_processed(7, processed, 1.0)
    if problem is not None:
        board.report("funds", problem)

    async def read() -> Any:
        raise AssertionError

    runner = web.AppRunner(create_app(Monitoring(metrics, board, SnapshotKeeper(read, metrics, board))))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_dashboard__of_several_foresters__merges_them_and_hides_none(net: Localnet, tmp_path: Path) -> None:
    missing = f"http://127.0.0.1:{free_port()}"
    async with forester_api(5) as fit, forester_api(8, "no funds: top it up") as unfit:

        def check() -> None:
            urls = [word for url in (fit, unfit, missing) for word in ("--forester-api-url", url)]
            with dashboard(tmp_path, "--rpc-url", net.url, *urls) as port:
                wait_for(port, "/readyz", lambda code, _: code == 200)
                metrics = wait_for(
                    port, "/metrics/json", lambda _, found: found and found["transactions_processed_total"] == {"7": 13}
                )
                assert [item["ok"] for item in metrics["upstreams"]] == [True, True, False]
                code, health = get(port, "/health")
                assert (code, health["status"]) == (503, "unhealthy")
                assert [item["ok"] for item in health["foresters"]] == [True, False, False]
                assert health["reasons"][0] == f"{unfit}: no funds: top it up"
                assert health["reasons"][1].startswith(f"{missing}: ")
                code, status = get(port, "/status")
                assert (code, len(status["trees"])) == (200, status["total_trees"])
                assert status["total_trees"] > 5
                assert get(port, "/compressible")[1]["source"] == "forester-apis"
                assert get(port, "/livez")[0] == 200

        await asyncio.to_thread(check)


async def test_dashboard__by_variables__serves_the_same(net: Localnet, tmp_path: Path) -> None:
    async with forester_api(5) as first, forester_api(6) as second:

        def check() -> None:
            variables = {
                "RPC_URL": net.url,
                "API_SERVER_PORT": str(free_port()),
                "API_SERVER_PUBLIC_BIND": "true",
                "FORESTER_API_URLS": f"{first}, {second}",
                "RPC_RATE_LIMIT": "100",
            }
            with dashboard(tmp_path, **variables) as port:
                answer = wait_for(port, "/health", lambda code, _: code == 200)
                assert [item["base_url"] for item in answer["foresters"]] == [first, second]
                assert wait_for(port, "/readyz", lambda code, _: code == 200) == {"status": "ready"}

        await asyncio.to_thread(check)


async def test_dashboard__forester_that_never_answers__delays_nobody(net: Localnet, tmp_path: Path) -> None:
    released = asyncio.Event()

    async def stall(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await released.wait()
        writer.close()

    server = await asyncio.start_server(stall, "127.0.0.1", 0)
    stalled = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with forester_api(5) as fit:

        def check() -> None:
            urls = ("--forester-api-url", stalled, "--forester-api-url", fit)
            with dashboard(tmp_path, "--rpc-url", net.url, *urls) as port:
                wait_for(port, "/metrics/json", lambda _, found: found and found["last_run_timestamp"] >= 0)
                began = time.monotonic()
                metrics = wait_for(port, "/metrics/json", lambda _, found: found["upstreams"][1]["ok"])
                assert metrics["transactions_processed_total"] == {"7": 5}
                assert get(port, "/health")[0] == 503
                assert time.monotonic() - began < 60

        await asyncio.to_thread(check)
    released.set()
    server.close()
    await server.wait_closed()


def test_dashboard__without_foresters__shows_the_network(net: Localnet, tmp_path: Path) -> None:
    with dashboard(tmp_path, "--rpc-url", "http://127.0.0.1:1", "--fallback-rpc-url", net.url) as port:
        status = wait_for(port, "/status", lambda code, _: code == 200)
        assert status["total_trees"] > 5
        assert get(port, "/health") == (200, {"status": "ok"})
        assert get(port, "/compressible")[1]["enabled"] is False


def test_dashboard__wrong_options__name_themselves(tmp_path: Path) -> None:
    for words, code, text in (
        ((), 78, "rpc_url"),
        (("--rpc-url", "ftp://x"), 2, "--rpc-url"),
        (("--rpc-url", "http://x", "--port", "99999999"), 2, "--api-server-port"),
        (("--rpc-url", "http://x", "--forester-api-url", "x"), 2, "--forester-api-url"),
        (("--rpc-url", "http://x", "--payer", "x"), 2, "--payer"),
    ):
        environment = {"PATH": os.environ["PATH"]}
        done = subprocess.run(
            [sys.executable, "-m", "forester", "dashboard", *words],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == code, done.stderr
        assert text in done.stderr
