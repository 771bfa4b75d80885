"""Everything that watches, with secrets in all of its settings and services that repeat all that they receive."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest
from echo_service import Echo, echoing
from network_states import STATE_V2, network
from solders.keypair import Keypair

from forester.api.monitoring import Watcher, watching
from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RetryPolicy, RpcPool
from forester.chain.tree_metadata import TreeMetadata
from forester.errors import EndpointUnreachable
from forester.observability.health import HealthBoard
from forester.observability.logs import configure_logs
from forester.observability.metrics import Metrics
from forester.scheduling.eligibility_window import ProcessingResult
from forester.settings import Settings, load_settings
from shared.process.logs import get_logger
from shared.process.retries import Backoff

PATIENCE_S = 60
PAYER = Keypair.from_seed(bytes([9]) * 32)
ROUTING_KEY = "R0UT1NGKEYR0UT1NGKEY"
RPC_KEY, GATEWAY_KEY, PROMETHEUS_KEY, PROVER_KEY = (
    "rpcs3cr3t%2Bkey",
    "g4tewaysecret",
    "pr0mkeysecret",
    "pr0verkeysecret",
)
PASSWORD, TOKEN = "passw0rd!", "t0kenasuser"
SECRETS = (
    *(ROUTING_KEY, RPC_KEY, "rpcs3cr3t+key", "rpcs3cr3t key", GATEWAY_KEY, PROMETHEUS_KEY, PROVER_KEY),
    *(PASSWORD, TOKEN, str(PAYER), bytes(PAYER).hex(), base64.b64encode(f"user:{PASSWORD}".encode()).decode()),
    *(base64.b64encode(f"{TOKEN}:".encode()).decode(), base64.b64encode(bytes(PAYER)).decode()),
    *(json.dumps(list(bytes(PAYER)))[1:80], json.dumps(list(bytes(PAYER)), separators=(",", ":"))[1:80]),
)


@pytest.fixture(params=[True, False], ids=["json", "text"])
def log(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """All log lines of all levels, of libraries too."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    configure_logs(as_json=request.param, level="debug")
    yield stream
    root.handlers = handlers
    root.setLevel(level)


def settings_of(echo: Echo) -> Settings:
    environment = {
        "RPC_URL": echo.url("/rpc", f"user:{PASSWORD}@", f"?api-key={RPC_KEY}"),
        "INDEXER_URL": echo.url("/indexer", query=f"?api-key={RPC_KEY}"),
        "PUSH_GATEWAY_URL": echo.url("/push", f"{TOKEN}@", f"?token={GATEWAY_KEY}"),
        "PROMETHEUS_URL": echo.url("/prometheus", query=f"?key={PROMETHEUS_KEY}"),
        "PROVER_API_KEY": PROVER_KEY,
        "PAGERDUTY_ROUTING_KEY": ROUTING_KEY,
        "PAYER": json.dumps(list(bytes(PAYER))),
        "DERIVATION_PUBKEY": str(PAYER.pubkey()),
        "API_SERVER_PORT": "0",
    }
    return load_settings(environment=environment).settings


def send_everything(watcher: Watcher, board: HealthBoard, settings: Settings) -> None:
    """Report all that the daemon may report: failures, reasons and traces full of settings."""
    assert settings.rpc_url is not None
    dump = f"{settings.model_dump()} {PAYER} {list(bytes(PAYER))} {settings.rpc_url.get_secret_value()}"
    tree: TreeMetadata = next(item.tree for item in network().trees if item.tree.address == STATE_V2)
    watcher.worked(tree, ProcessingResult(failure=EndpointUnreachable(dump)))
    board.report("funds", f"insufficient funds: {dump}")
    board.task_failed("discovery", 3, dump)
    try:
        raise ValueError(dump)
    except ValueError:
        get_logger("forester.test").exception("task_crashed", settings=settings, seen=dump)


async def test_sinks__secrets_everywhere__hold_none(log: io.StringIO) -> None:
    answers: list[str] = []
    async with echoing() as echo:
        settings = settings_of(echo)
        metrics, board = Metrics(), HealthBoard()
        assert settings.rpc_url is not None
        async with (
            RpcPool([settings.rpc_url.get_secret_value()], retry=RetryPolicy(1, Backoff(0.01, 0.01))) as pool,
            watching(settings, metrics, board, RpcClient(pool), events_url=echo.url("/events")) as watcher,
            aiohttp.ClientSession() as session,
        ):
            assert watcher.address is not None
            send_everything(watcher, board, settings)
            async with asyncio.timeout(PATIENCE_S):
                while not _all_failed(log.getvalue()):  # noqa: ASYNC110 - the log has no event
                    await asyncio.sleep(0.01)
            for path in ("/", "/health", "/status", "/metrics", "/metrics/json", f"/nowhere?key={ROUTING_KEY}"):
                async with session.get(f"http://127.0.0.1:{watcher.address[1]}{path}") as response:
                    answers.append(f"{path[:9]} {response.status} {dict(response.headers)} {await response.text()}")
    assert {"rpc", "push", "events", "prometheus"} <= set(echo.asked)
    events = [json.loads(body) for body in echo.bodies if '"routing_key"' in body]
    assert events
    assert all(event.pop("routing_key") == ROUTING_KEY for event in events)
    pushed = [body for body in echo.bodies if "# TYPE" in body]
    assert pushed
    assert 'forester_payer{pubkey="' in pushed[0]
    sinks: dict[str, Any] = {
        "log": log.getvalue(),
        "answers": "\n".join(answers),
        "events": json.dumps(events),
        "metrics": "\n".join(pushed),
        "board": repr(board.problems),
        "error": repr(watcher.state.snapshots.error),
    }
    assert "Traceback" in sinks["log"] or '"exception"' in sinks["log"]
    assert "insufficient funds" in sinks["answers"]
    assert "insufficient funds" in sinks["events"]
    leaks = [(name, secret) for name, text in sinks.items() for secret in SECRETS if secret in text]
    assert not leaks


def _all_failed(text: str) -> bool:
    events = ("snapshot_failed", "push_failed", "prometheus_failed", "alert_refused", "task_crashed")
    return all(event in text for event in events)
