"""The prover client against a prover of this file: real sockets, scripted answers."""

import asyncio
import hashlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer
from shared_vectors import shared_vectors

from forester.errors import EndpointError, EndpointUnreachable, ProofTimedOut
from forester.prover_client import client as client_module
from forester.prover_client.client import PROOF_OBSOLETE, FinishedProof, ProverClient, ProverTimes, idempotency_key
from forester.prover_client.endpoints import ProverEndpoints
from forester.prover_client.failures import AnswerUnusable, JobNotFound, ProofFailed, ProverRefused
from shared.process.retries import Backoff
from shared.requests.circuit_id import CircuitKind
from shared.requests.proof_wire import BatchAppendRequest, BatchRequest, BatchUpdateRequest

CASE = shared_vectors("indexer/proof_compression")["cases"][0]
PROOF = CASE["proof"]
QUICK = ProverTimes(
    polling_interval_s=0.001, max_wait_s=30, first_poll_s=0.001, backoff=Backoff(first_s=0.001, longest_s=0.002)
)
APPEND = BatchAppendRequest(height=32, batch_size=10)
JOB = "0b6a1f6e-7a4e-4f0c-9a39-0e6b7b6f2a11"
DEEP = '{"more": ' + "[" * 100_000 + "]" * 100_000 + "}"

Answer = tuple[int, Any] | tuple[int, Any, dict[str, str]]


@dataclass
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class ScriptedProver:
    """Answers submissions and polls from two scripts; the last answer of a script is repeated."""

    submissions: list[Answer]
    polls: list[Answer] = field(default_factory=list)
    deletions: list[Answer] = field(default_factory=lambda: [(202, {})])
    asked: list[Asked] = field(default_factory=list)
    hold: asyncio.Event | None = None
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    server: TestServer = field(init=False)

    async def start(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{anything:.*}", self._answer)
        self.server = TestServer(app)
        await self.server.start_server()

    @property
    def url(self) -> str:
        return str(self.server.make_url("/"))

    def count(self, method: str) -> int:
        return sum(asked.method == method for asked in self.asked)

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.asked.append(Asked(request.method, request.path_qs, dict(request.headers), body))
        self.reached.set()
        if self.hold is not None:
            await self.hold.wait()
        script = {"POST": self.submissions, "DELETE": self.deletions}.get(request.method, self.polls)
        status, content, *rest = script.pop(0) if len(script) > 1 else script[0]
        text = content if isinstance(content, str) else json.dumps(content)
        return web.Response(status=status, text=text, headers=rest[0] if rest else None)


Start = Callable[..., Any]


@pytest_asyncio.fixture
async def start() -> AsyncIterator[Start]:
    provers: list[ScriptedProver] = []

    async def begin(submissions: list[Answer], polls: list[Answer] | None = None, **more: Any) -> ScriptedProver:
        prover = ScriptedProver(submissions, polls or [], **more)
        await prover.start()
        provers.append(prover)
        return prover

    yield begin
    for prover in provers:
        await prover.server.close()


async def prove(
    url: str, request: BatchRequest = APPEND, *, times: ProverTimes = QUICK, key: str | None = None, **ids: Any
) -> FinishedProof:
    async with aiohttp.ClientSession() as session:
        return await ProverClient(
            session, ProverEndpoints(dict.fromkeys(CircuitKind, url)), api_key=key, times=times
        ).prove(request, **ids)


def accepted(**more: Any) -> Answer:
    return 202, {"job_id": JOB, "status": "queued", "status_url": f"/prove/status?job_id={JOB}", **more}


def state(status: str, **more: Any) -> Answer:
    return (200 if status == "completed" else 202), {"job_id": JOB, "status": status, **more}


def error(status: int, code: str, message: str = "no", **more: Any) -> Answer:
    headers = more.pop("headers", {})
    return status, {"code": code, "message": message, **more}, headers


@pytest.mark.parametrize(
    ("result", "milliseconds"),
    [({"proof": PROOF, "proof_duration_ms": 1234}, 1234), ({"proof": PROOF}, 0), (PROOF, 0)],
    ids=["with duration", "without duration", "bare"],
)
async def test_prove__both_forms_of_results__are_understood(start: Start, result: Any, milliseconds: int) -> None:
    at_once = await start([(200, result)])
    later = await start([accepted()], [state("queued"), state("processing"), state("completed", result=result)])
    for prover in (at_once, later):
        finished = await prove(prover.url)
        assert (finished.proof.a.hex(), finished.duration_ms) == (CASE["a"], milliseconds)
    assert later.count("GET") == 3
    assert later.asked[-1].path == f"/prove/status?job_id={JOB}&wait=0.001"


async def test_prove__request__carries_key_and_queue_members(start: Start) -> None:
    prover = await start([(200, PROOF)])
    await prove(prover.url, key="sekret", tree_id="tree", batch_index=7)
    asked = prover.asked[0]
    body = json.loads(asked.body)
    assert (asked.method, asked.path) == ("POST", "/prove")
    assert (body["circuitType"], body["treeId"], body["batchIndex"], body["batchSize"]) == ("append", "tree", 7, 10)
    assert asked.headers["X-API-Key"] == "sekret"
    await prove(prover.url)
    assert "X-API-Key" not in prover.asked[1].headers
    assert "treeId" not in json.loads(prover.asked[1].body)


async def test_prove__on_a_network__names_it_where_the_job_is_made_and_waits_while_its_queue_is_full(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    sleep = asyncio.sleep

    async def without_waiting(seconds: float) -> None:
        slept.append(seconds)
        await sleep(0)

    async def network() -> str:
        return "devnet"

    monkeypatch.setattr(asyncio, "sleep", without_waiting)
    full = error(429, "queue_full", retryable=True, headers={"Retry-After": "5"})
    prover = await start([full] * 7 + [accepted()], [state("completed", result=PROOF)])
    async with aiohttp.ClientSession() as session:
        client = ProverClient(
            session, ProverEndpoints(dict.fromkeys(CircuitKind, prover.url)), network=network, times=QUICK
        )
        finished = await client.prove(APPEND)
    assert finished.outage_s == 0, "a full queue is no outage"
    assert sum(seconds >= 5 for seconds in slept) == 7
    assert [asked.headers.get("X-Light-Network") for asked in prover.asked] == ["devnet"] * 8 + [None]


async def test_idempotency_key__of_a_batch__is_kept_by_retries_and_no_digest_of_the_body(
    start: Start,
) -> None:
    prover = await start([(503, "busy"), (502, ""), (200, PROOF), (200, PROOF)])
    for batch_index in (1, 1, 2):
        await prove(prover.url, batch_index=batch_index)
    first, *retries, other = [asked.headers["Idempotency-Key"] for asked in prover.asked]
    assert retries == [first] * 3
    assert other != first
    digests = {hashlib.sha256(asked.body).hexdigest() for asked in prover.asked}
    assert not digests & {first, other}


def test_idempotency_key__of_the_same_batch_in_another_process__is_another() -> None:
    script = "from forester.prover_client.client import idempotency_key; print(idempotency_key(b'batch'))"
    found = {
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()
        for _ in range(2)
    }
    assert len(found | {idempotency_key(b"batch")}) == 3
    assert idempotency_key(b"batch") == idempotency_key(b"batch")


async def test_prove__url_for_one_circuit__is_asked_for_that_one_alone(start: Start) -> None:
    base, update = await start([(200, PROOF)]), await start([(200, PROOF)])
    endpoints = ProverEndpoints(
        {CircuitKind.BATCH_APPEND: base.url + "v1?api-key=1", CircuitKind.BATCH_UPDATE: update.url}
    )
    async with aiohttp.ClientSession() as session:
        client = ProverClient(session, endpoints, times=QUICK)
        await client.prove(APPEND)
        await client.prove(BatchUpdateRequest(height=32, batch_size=10))
    assert [asked.path for asked in base.asked] == ["/v1/prove?api-key=1"]
    assert [json.loads(asked.body)["circuitType"] for asked in update.asked] == ["update"]


async def test_prove__deduplicated_job__is_polled_like_a_new_one(start: Start) -> None:
    prover = await start([accepted(status="already_queued", deduplicated=True)], [state("completed", result=PROOF)])
    await prove(prover.url)
    assert prover.count("GET") == 1


async def test_prove__job_failed__is_raised_with_the_message(start: Start) -> None:
    message = "Job processing failed: constraint #5 is not satisfied: a timeout is no excuse"
    prover = await start([accepted()], [state("failed", message=message, error="constraint #5 is not satisfied")])
    with pytest.raises(ProofFailed, match="constraint #5 is not satisfied") as raised:
        await prove(prover.url)
    assert raised.value.retryable is False
    assert prover.count("POST") == 1


@pytest.mark.parametrize(
    ("more", "retryable"),
    [
        ({"message": "Job processing failed: timed out"}, True),
        ({"error": "out of paper"}, False),
        ({"error": "out of memory", "retryable": True}, True),
        ({"error": "timeout", "retryable": False}, False),
    ],
)
async def test_prove__job_failed__says_whether_another_try_may_help(
    start: Start, more: dict[str, Any], retryable: bool
) -> None:
    prover = await start([accepted()], [state("failed", **more)])
    with pytest.raises(ProofFailed) as raised:
        await prove(prover.url)
    assert raised.value.retryable is retryable


@pytest.mark.parametrize("result", [{}, {"result": None}])
async def test_prove__completed_without_a_proof__names_the_member(start: Start, result: dict[str, None]) -> None:
    prover = await start([accepted()], [state("completed", **result)])
    with pytest.raises(AnswerUnusable, match=r"completed without a result at \$\.result"):
        await prove(prover.url)


@pytest.mark.parametrize(
    ("answer", "place"),
    [
        ((200, {"proof": {**PROOF, "ar": ["0x1"]}}), r"\$\.proof\.ar"),
        ((200, {"ar": 5}), r"\$\.ar"),
        ((200, {"proof": {**PROOF, "krs": ["0x1", "0x1"]}}), r"\$\.krs"),
        ((200, {"proof": None}), r"\$\.proof"),
        ((200, "<html>"), r"\$"),
        ((200, "\x00" * (1 << 20) + "x"), r"longer than 1048576 bytes"),
        ((202, {}), r"job_id"),
        ((202, {"job_id": ""}), r"\$\.job_id"),
        ((202, {"job_id": 5}), r"\$\.job_id"),
        ((202, {"job_id": "j" * 201}), r"\$\.job_id"),
        ((200, DEEP), "nested too deeply"),
        ((200, f'{{"proof": {DEEP}}}'), "nested too deeply"),
        ((202, DEEP), "nested too deeply"),
    ],
)
async def test_prove__unusable_answer__is_refused_with_the_place(start: Start, answer: Answer, place: str) -> None:
    prover = await start([answer])
    with pytest.raises(AnswerUnusable, match=place):
        await prove(prover.url)
    assert prover.count("POST") == 1


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (error(400, "malformed_body"), "malformed_body"),
        (error(401, "unauthorized"), "unauthorized"),
        (error(500, "unexpected_error", retryable=False), "unexpected_error"),
        (error(408, "proof_timeout", "constraint #1 is not satisfied"), "proof_timeout"),
        ((404, "404 page not found\n"), "unknown"),
        ((400, DEEP), "unknown"),
        (error(400, "c" * 1000), "c" * 500 + "…"),
    ],
)
async def test_submission__refused_permanently__is_not_repeated(start: Start, answer: Answer, code: str) -> None:
    prover = await start([answer])
    with pytest.raises(ProverRefused) as raised:
        await prove(prover.url)
    assert (raised.value.code, raised.value.retryable) == (code, False)
    assert prover.count("POST") == 1


async def test_submission__prover_without_the_key__ends_after_three_tries_and_frees_its_permit(start: Start) -> None:
    prover = await start([error(503, "key_not_found", "proving key file not found", retryable=True)])
    async with asyncio.timeout(10):
        with pytest.raises(ProverRefused, match="key_not_found") as raised:
            await prove(prover.url)
    assert raised.value.retryable
    assert prover.count("POST") == 3


async def test_submission__faults_that_may_pass__are_tried_three_times(start: Start) -> None:
    prover = await start([error(500, "unexpected_error"), (502, "bad gateway"), (200, PROOF)])
    await prove(prover.url)
    assert prover.count("POST") == 3
    failing = await start([(502, "bad gateway")])
    with pytest.raises(ProverRefused, match="502 unknown: bad gateway"):
        await prove(failing.url)
    assert failing.count("POST") == 3


@pytest.mark.parametrize("status", [429, 503])
async def test_submission__busy_prover__is_waited_for_as_long_as_it_says(start: Start, status: int) -> None:
    answers = [error(status, "overloaded", headers={"Retry-After": "0"}) for _ in range(20)]
    prover = await start([*answers, (200, PROOF)])
    await prove(prover.url)
    assert prover.count("POST") == 21
    patient = await start([error(status, "overloaded", headers={"Retry-After": "50"})])
    with pytest.raises(ProofTimedOut):
        await prove(patient.url, times=ProverTimes(max_wait_s=0.5))
    assert patient.count("POST") <= 1, "it did not come back before the time"


async def test_submission__prover_is_busy_for_long__is_warned_of_once(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    warned: list[str] = []
    monkeypatch.setattr(client_module._log, "warning", lambda event, **_: warned.append(event), raising=False)
    prover = await start([*[error(503, "overloaded")] * 20, (200, PROOF)])
    await prove(prover.url)
    assert warned == ["proof_submission_failed"]


@pytest.mark.parametrize(("status", "is_outage"), [(429, False), (503, True)])
async def test_proof__after_an_outage_of_the_prover__reports_how_long_that_was(
    start: Start, status: int, is_outage: bool
) -> None:
    prover = await start([error(status, "no"), error(status, "no", headers={"Retry-After": "1"}), (200, PROOF)])
    outage_s = (await prove(prover.url)).outage_s
    assert (outage_s >= 1) if is_outage else (outage_s == 0)


async def test_prove__no_prover__is_unreachable_after_three_tries(unused_tcp_port: int) -> None:
    with pytest.raises(
        EndpointUnreachable, match=f"prover http://127.0.0.1:{unused_tcp_port}/ is unreachable"
    ) as raised:
        await prove(f"http://user:word@127.0.0.1:{unused_tcp_port}/?api-key=hidden-value")
    assert raised.value.retryable
    assert "word" not in str(raised.value)
    assert "hidden-value" not in str(raised.value)


async def test_poll__series_of_faults__is_waited_out_up_to_a_limit(start: Start) -> None:
    faults: list[Answer] = [(503, "busy"), (502, ""), error(500, "unexpected_error")]
    prover = await start(
        [accepted()], [*faults * 3, state("processing"), *faults * 3, state("completed", result=PROOF)]
    )
    await prove(prover.url)
    assert prover.count("GET") == 20
    failing = await start([accepted()], [(503, "busy")])
    with pytest.raises(ProverRefused, match="503"):
        await prove(failing.url)
    assert failing.count("GET") == QUICK.poll_attempts


async def test_poll__job_not_found__is_submitted_once_more(start: Start) -> None:
    lost = error(404, "job_not_found", "job 1 is not known")
    prover = await start([accepted()], [lost, state("completed", result=PROOF)])
    await prove(prover.url)
    assert prover.count("POST") == 2
    forgetful = await start([accepted()], [lost])
    with pytest.raises(JobNotFound):
        await prove(forgetful.url)
    assert forgetful.count("POST") == 2


async def test_poll__refused__ends_at_once(start: Start) -> None:
    prover = await start([accepted()], [error(401, "unauthorized")])
    with pytest.raises(ProverRefused, match="401 unauthorized"):
        await prove(prover.url)
    assert prover.count("GET") == 1


@pytest.mark.parametrize("queued", [True, False])
async def test_prove__no_proof_before_the_deadline__says_what_to_do(start: Start, queued: bool) -> None:
    hold = None if queued else asyncio.Event()
    prover = await start([accepted()], [state("processing")], hold=hold)
    with pytest.raises(ProofTimedOut, match="proof generation timed out") as raised:
        await prove(prover.url, times=ProverTimes(polling_interval_s=0.01, max_wait_s=0.3, first_poll_s=0.01))
    assert "--prover-max-wait-time-secs" in str(raised.value)
    assert raised.value.retryable
    if hold is not None:
        hold.set()


async def test_prove__cancelled__leaves_nothing_running(start: Start) -> None:
    hold = asyncio.Event()
    prover = await start([(200, PROOF)], hold=hold)
    task = asyncio.create_task(prove(prover.url))
    async with asyncio.timeout(60):
        await prover.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    hold.set()


def test_failures__of_the_prover__are_errors_of_endpoints() -> None:
    assert issubclass(ProverRefused, EndpointError)
    assert issubclass(ProofFailed, EndpointError)


async def cancelled_while_polling(prover: ScriptedProver, *message: str, hang: bool = False) -> None:
    """Cancel a call that polls a job, and wait until it has ended."""
    call = asyncio.create_task(prove(prover.url))
    async with asyncio.timeout(30):
        while not prover.count("GET"):
            prover.reached.clear()
            await prover.reached.wait()
    prover.hold = asyncio.Event() if hang else None
    call.cancel(*message)
    await asyncio.wait([call], timeout=30)
    assert call.cancelled()
    if prover.hold is not None:
        prover.hold.set()


async def test_prove__cancelled_as_obsolete__cancels_the_job_once(start: Start) -> None:
    prover = await start([accepted()], [state("processing")])
    await cancelled_while_polling(prover, PROOF_OBSOLETE)
    assert [asked.path for asked in prover.asked if asked.method == "DELETE"] == [f"/prove/status?job_id={JOB}"]


async def test_prove__cancelled_at_a_shutdown__leaves_the_job(start: Start) -> None:
    prover = await start([accepted()], [state("processing")])
    await cancelled_while_polling(prover)
    assert prover.count("DELETE") == 0


@pytest.mark.parametrize("answer", [error(404, "job_not_found"), error(405, "method"), (200, "no JSON")])
async def test_prove__prover_does_not_cancel_the_job__still_ends(start: Start, answer: Answer) -> None:
    prover = await start([accepted()], [state("processing")], deletions=[answer])
    await cancelled_while_polling(prover, PROOF_OBSOLETE)
    assert prover.count("DELETE") == 1


async def test_prove__prover_hangs_when_a_job_is_cancelled__ends_soon(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_CANCEL_S", 0.1)
    prover = await start([accepted()], [state("processing")])
    await cancelled_while_polling(prover, PROOF_OBSOLETE, hang=True)
    assert prover.count("DELETE") == 1
