"""Metrics: the names that dashboards know, labels that stay bounded, the push gateway."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from prometheus_client import Counter, Histogram
from prometheus_client.metrics import MetricWrapperBase

from forester.daemon.supervisor import Supervisor
from forester.errors import EndpointTimedOut, EndpointUnreachable, RequestRefused
from forester.observability import push_gateway
from forester.observability.metrics import EPOCHS_KEPT, CheckMetrics, Metrics
from forester.transactions.confirm import Fate

FORESTER = Path(__file__).resolve().parents[3]
CONTRACTS = FORESTER / "contracts"
CONTRACT = json.loads((CONTRACTS / "metrics.json").read_text())
OWN = json.loads((CONTRACTS / "own-metrics.json").read_text())


def test_metrics__declared__are_those_of_the_contracts() -> None:
    holders = (metrics := Metrics(), Supervisor(metrics.registry), CheckMetrics({}))
    values = [value for holder in holders for value in vars(holder).values()]
    declared = [value for value in values if isinstance(value, MetricWrapperBase)]
    found = {}
    for metric in declared:
        name = metric._name + ("_total" if isinstance(metric, Counter) else "")
        # Exposed metrics count; the next test checks them.
        kind = "counter" if name == "forester_indexer_proof_count" else metric._type
        entry = {"type": kind, "labels": list(metric._labelnames)}
        if isinstance(metric, Histogram):
            entry["buckets"] = [bound for bound in metric._upper_bounds if bound != float("inf")]
        found[name] = entry
    assert found == CONTRACT | OWN
    assert len(CONTRACT) == 13


def test_metrics__exposed__have_the_types_of_the_contracts() -> None:
    metrics = Metrics()
    Supervisor(metrics.registry)
    lines = (metrics.exposition() + CheckMetrics({}).exposition()).decode().splitlines()
    types = {line.split()[2]: line.split()[3] for line in lines if line.startswith("# TYPE ")}
    assert types == {name: entry["type"] for name, entry in (CONTRACT | OWN).items()}


def test_metrics__set__are_exposed_under_the_names_of_the_contract() -> None:
    metrics = Metrics()
    metrics.count_processed(3, 20, 2.0)
    metrics.indexer_proofs.labels("StateV1", "tree", "requested").inc(4)
    metrics.failed.labels("expired").inc()
    text = metrics.exposition().decode()
    assert 'forester_transactions_processed_total{epoch="3"} 20.0' in text
    assert 'forester_transaction_rate{epoch="3"} 10.0' in text
    assert 'forester_indexer_proof_count{metric="requested",tree_pubkey="tree",tree_type="StateV1"} 4.0' in text
    assert 'forester_transactions_failed_total{reason="expired"} 1.0' in text
    assert "_created" not in text
    assert metrics.failures("expired", "other") == 1


def test_reasons__of_failed_transactions__are_those_of_the_pages() -> None:
    source = (FORESTER / "src/forester/transactions/sender.py").read_text()
    reasons = {fate.value for fate in Fate if fate is not Fate.CONFIRMED}
    reasons |= set(re.findall(r'(?:failed\.labels\(|reason = )"(\w+)"', source))
    page = (FORESTER / "docs/reference/behaviour.md").read_text()
    table = page.split("| Label of `forester_transactions_failed_total` |")[1].split("\n\n")[0]
    assert set(re.findall(r"\| `(\w+)` \|$", table, re.MULTILINE)) == reasons
    runbook = (FORESTER / "docs/runbooks/transactions-fail.md").read_text().split("| Reason | Cause |")[1]
    cells = re.findall(r"^\| (`.*?`) \|", runbook, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(cells))) == reasons


def test_tree_labels__trees_that_are_gone__vanish() -> None:
    metrics = Metrics()
    for number in range(5):
        metrics.indexer_proofs.labels("StateV1", f"tree {number}", "received").inc()
        metrics.progress_age.labels("StateV1", f"tree {number}").set(1)
        metrics.unprovable.labels("StateV1", f"tree {number}").set(1)
    metrics.keep_trees({"tree 3"})
    text = metrics.exposition().decode()
    assert text.count('tree_pubkey="') == text.count('tree_pubkey="tree 3"') == 3


def test_epoch_labels__many_epochs__are_the_last_few_only() -> None:
    metrics = Metrics()
    for epoch in range(50):
        metrics.count_processed(epoch, 1, 1)
    text = metrics.exposition().decode()
    assert text.count("forester_transactions_processed_total{") == EPOCHS_KEPT
    assert 'epoch="49"' in text
    metrics.set_foresters({1: ["a", "b"]})
    metrics.set_foresters({2: ["c"]})
    assert metrics.exposition().decode().count("registered_foresters{") == 1


async def pushed(status: int, text: str = "", silent: bool = False) -> bytes:
    got = b""

    async def handle(request: web.Request) -> web.Response:
        nonlocal got
        if silent:
            await asyncio.Event().wait()
        got = await request.read()
        return web.Response(status=status, text=text)

    app = web.Application()
    app.router.add_post("/metrics/job/forester", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://user:passw0rd@127.0.0.1:{runner.addresses[0][1]}/metrics/job/forester"
        async with aiohttp.ClientSession() as session:
            await push_gateway.push(session, url, Metrics())
    finally:
        await runner.cleanup()
    return got


async def test_push__gateway_takes_it__gets_the_exposition() -> None:
    assert b"forester_last_run_timestamp 1" in await pushed(202)


async def test_push__gateway_refuses__error_has_status_and_body_and_no_password() -> None:
    with pytest.raises(RequestRefused) as raised:
        await pushed(400, "text format parsing error")
    assert raised.value.code == 400
    assert "text format parsing error" in raised.value.detail
    assert "passw0rd" not in raised.value.detail


async def test_push__gateway_silent_or_gone__ends_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push_gateway, "TIMEOUT_S", 0.2)
    with pytest.raises(EndpointTimedOut):
        await pushed(200, silent=True)
    async with aiohttp.ClientSession() as session:
        with pytest.raises(EndpointUnreachable):
            await push_gateway.push(session, "http://127.0.0.1:1/", Metrics())


async def test_push_periodically__gateway_away_and_back__logs_each_change_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines: list[str] = []

    class Log:
        def warning(self, event: str, **fields: object) -> None:
            lines.append(f"{event} {fields}")
            if len(lines) == 4:
                all_told.set()

        info = warning

    answers = [500, 500, 500, 202, 202, 404]
    all_told = asyncio.Event()

    async def handle(request: web.Request) -> web.Response:
        await request.read()
        status = answers.pop(0) if answers else 202
        return web.Response(status=status, text="no")

    monkeypatch.setattr(push_gateway, "_log", Log())
    app = web.Application()
    app.router.add_post("/", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://user:passw0rd@127.0.0.1:{runner.addresses[0][1]}/"
        task = asyncio.create_task(push_gateway.push_periodically(url, Metrics(), every_s=0.001, longest_pause_s=0.002))
        await asyncio.wait_for(all_told.wait(), 60)
        task.cancel()
        await asyncio.wait([task])
    finally:
        await runner.cleanup()
    assert [line.split()[0] for line in lines] == ["push_failed", "push_recovered", "push_failed", "push_recovered"]
    assert "answered 500: no" in lines[0]
    assert "'failures': 3" in lines[1]
    assert "passw0rd" not in "".join(lines)
