"""Options of `forester start` about indexers, provers, metrics and alerts: which service is asked, how, how often."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from shared_vectors import shared_vectors
from start_options import KEY, NEEDED, NOWHERE, Pauses, chosen, until

from forester.api.monitoring import watching
from forester.chain.rpc_client import RpcClient
from forester.chain.rpc_pool import RpcPool
from forester.daemon.services import indexer_of, open_services
from forester.errors import ProofTimedOut
from forester.observability.health import HealthBoard
from forester.observability.metrics import Metrics
from forester.prover_client.client import ProverClient
from shared.requests.proof_wire import BatchAddressAppendRequest, BatchAppendRequest, BatchRequest, BatchUpdateRequest

PROOF = shared_vectors("indexer/proof_compression")["cases"][0]["proof"]
JOB = "0b6a1f6e-7a4e-4f0c-9a39-0e6b7b6f2a11"
REQUESTS: dict[str, BatchRequest] = {
    "append": BatchAppendRequest(height=32, batch_size=10),
    "update": BatchUpdateRequest(height=32, batch_size=10),
    "address-append": BatchAddressAppendRequest(tree_height=40, batch_size=10),
}


@dataclass
class Service:
    """Remembers requests; a prover that queues, or answers at once, or never; an indexer at ``slot``."""

    slot: int = 1
    broken: bool = False
    queued: int = 0
    """How often a job is still queued when its state is asked for."""
    hangs: bool = False
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    url: str = ""

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.text()
        self.paths.append(request.path_qs)
        self.headers.append(dict(request.headers))
        self.bodies.append(json.loads(body) if body.startswith("{") else body)
        if self.hangs:
            await asyncio.Event().wait()
        if self.broken:
            return web.Response(status=503)
        if request.path == "/prove/status":
            self.queued -= 1
            return self._job("queued") if self.queued > 0 else self._job("completed", result=PROOF)
        if request.path == "/prove":
            return self._job("queued") if self.queued else web.json_response(PROOF)
        if body.startswith("{") and "jsonrpc" in body:
            return web.json_response({"jsonrpc": "2.0", "id": "test-account", "result": self.slot})
        return web.Response(status=202)

    def _job(self, state: str, **more: Any) -> web.Response:
        return web.json_response({"job_id": JOB, "status": state, **more}, status=200 if more else 202)


@contextlib.asynccontextmanager
async def serving(*services: Service) -> AsyncIterator[None]:
    async with contextlib.AsyncExitStack() as stack:
        for service in services:
            app = web.Application()
            app.router.add_route("*", "/{tail:.*}", service.handle)
            runner = web.AppRunner(app, shutdown_timeout=0.1)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            service.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield


async def indexed_slot(*words: str) -> int:
    async with aiohttp.ClientSession() as session:
        return await indexer_of(chosen(*words), session).slot()


async def test_indexer_urls__first_and_fallback__are_asked_in_this_order(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Service(slot=1), Service(slot=2)
    async with serving(first, second):
        assert await indexed_slot("--indexer-url", first.url) == 1
        assert await indexed_slot("--indexer-url", second.url) == 2
        both = ("--indexer-url", first.url, "--fallback-indexer-url", second.url)
        assert await indexed_slot(*both) == 1
        first.broken = True
        Pauses.kept(monkeypatch)
        assert await indexed_slot(*both) == 2


@pytest.mark.parametrize(("words", "spaced"), [((), 0), (("--photon-rate-limit", "4"), 5)])
async def test_photon_rate_limit__of_calls_to_the_indexer__spaces_them(
    words: tuple[str, ...], spaced: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexer = Service()
    async with serving(indexer), aiohttp.ClientSession() as session:
        client = indexer_of(chosen("--indexer-url", indexer.url, *words), session)
        pauses = Pauses.kept(monkeypatch)
        await asyncio.gather(*(client.slot() for _ in range(6)))
    assert len(pauses.slept) == spaced
    assert max(pauses.slept, default=0) <= 1.25, "five quarters of a second for the last of six"


@contextlib.asynccontextmanager
async def prover_of(folder: Path, *words: str) -> AsyncIterator[ProverClient]:
    """The prover client of a forester that was started with some words."""
    fixed = ("--rpc-url", NOWHERE, "--indexer-url", NOWHERE, "--journal", str(folder / "journal"), *NEEDED)
    named = () if "--network" in words else ("--network", "none")  # otherwise the node is asked
    async with open_services(chosen(*fixed, *named, *words), Metrics()) as services:
        yield services.prover


async def test_proofs__more_than_a_session_has_connections__leave_the_indexer_reachable(tmp_path: Path) -> None:
    prover, indexer = Service(hangs=True), Service(slot=7)
    async with serving(prover, indexer):
        words = ("--rpc-url", NOWHERE, "--indexer-url", indexer.url, "--prover-url", prover.url, "--network", "none")
        settings = chosen(*words, "--journal", str(tmp_path / "journal"), *NEEDED)
        async with open_services(settings, Metrics()) as services:
            proofs = [asyncio.create_task(services.prover.prove(REQUESTS["append"])) for _ in range(101)]
            async with asyncio.timeout(30):
                await until(lambda: len(prover.paths) == len(proofs))
                assert await services.indexer.slot() == 7
            for proof in proofs:
                proof.cancel()
            await asyncio.wait(proofs)


@pytest.mark.parametrize("own", [None, *REQUESTS])
async def test_prover_urls__of_all_circuits_and_of_one__get_the_requests_that_are_theirs(
    own: str | None, tmp_path: Path
) -> None:
    common, special = Service(), Service()
    async with serving(common, special):
        words = ("--prover-url", common.url, *((f"--prover-{own}-url", special.url) if own else ()))
        async with prover_of(tmp_path, *words) as prover:
            for request in REQUESTS.values():
                await prover.prove(request)
    asked = [body["circuitType"] for body in special.bodies]
    assert asked == ([own] if own else [])
    assert [body["circuitType"] for body in common.bodies] == [kind for kind in REQUESTS if kind != own]


@pytest.mark.parametrize("key", [None, "first-key", "second-key"])
async def test_prover_api_key__with_a_request__is_its_header(key: str | None, tmp_path: Path) -> None:
    service = Service()
    async with serving(service):
        words = ("--prover-url", service.url, *(("--prover-api-key", key) if key else ()))
        async with prover_of(tmp_path, *words) as prover:
            await prover.prove(REQUESTS["append"])
    assert [headers.get("X-API-Key") for headers in service.headers] == [key]


@pytest.mark.parametrize("network", ["mainnet", "devnet", "none"])
async def test_network__of_a_request__is_its_header(network: str, tmp_path: Path) -> None:
    service = Service()
    async with serving(service), prover_of(tmp_path, "--prover-url", service.url, "--network", network) as prover:
        await prover.prove(REQUESTS["append"])
    assert [headers.get("X-Light-Network") for headers in service.headers] == [None if network == "none" else network]


@pytest.mark.parametrize("interval_ms", [250, 4000])
async def test_prover_polling_interval__of_a_queued_proof__is_the_time_between_two_looks(
    interval_ms: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service(queued=4)
    async with serving(service):
        words = ("--prover-url", service.url, "--prover-polling-interval-ms", str(interval_ms))
        async with prover_of(tmp_path, *words) as prover:
            pauses = Pauses.kept(monkeypatch)
            await prover.prove(REQUESTS["append"])
    assert service.paths[1:] == [f"/prove/status?job_id={JOB}&wait={interval_ms / 1000:.3f}"] * 4
    between = pauses.slept[1:]
    assert len(between) <= 3, "what an answer took counts"
    assert all(seconds <= interval_ms / 1000 for seconds in between)
    if interval_ms == 4000:
        assert max(between) > 0.25


async def test_prover_max_wait_time__of_a_proof_that_is_never_made__ends_the_wait_with_the_remedy(
    tmp_path: Path,
) -> None:
    service = Service(hangs=True)
    async with serving(service):
        words = ("--prover-url", service.url, "--prover-max-wait-time-secs")
        async with (
            prover_of(tmp_path / "a", *words, "1") as hasty,
            prover_of(tmp_path / "b", *words, "3600") as patient,
        ):
            waiting = asyncio.create_task(patient.prove(REQUESTS["append"]))
            with pytest.raises(
                ProofTimedOut, match=r"proof generation timed out: .* within 1 s; raise --prover-max-wait"
            ):
                await hasty.prove(REQUESTS["append"])
            assert not waiting.done()
            waiting.cancel()
            await asyncio.wait([waiting])


@pytest.mark.parametrize("given", [True, False])
async def test_push_gateway_and_routing_key__given_or_not__are_used_or_not(given: bool) -> None:
    service = Service()
    async with serving(service), RpcPool([NOWHERE]) as pool:
        words = ("--push-gateway-url", f"{service.url}/push/7", "--pagerduty-routing-key", "routing-7") if given else ()
        settings, board = chosen(*NEEDED, *words), HealthBoard()
        events = f"{service.url}/events"
        async with watching(settings, Metrics(), board, RpcClient(pool), events_url=events) as watcher:
            board.report("funds", "insufficient funds")
            if given:
                await until(lambda: "/push/7" in service.paths and "/events" in service.paths)
            else:
                await until(lambda: watcher.tasks.keys() == {"snapshot", "progress"})
    reported = [body for path, body in zip(service.paths, service.bodies, strict=True) if path == "/events"]
    assert {event["routing_key"] for event in reported} == ({"routing-7"} if given else set())
    assert not given or str(KEY.pubkey()) in json.dumps(reported)
