"""Proofs from a prover: submit, wait, read; every wait ends with the deadline of the call.

Source: forester/docs/reference/behaviour.md, "Proof requests". Submissions are retried by HTTP status, and Retry-After
is honoured. Requests carry an Idempotency-Key, so that a retry after a lost connection finds the proof that is
being made. It is a digest of the body under a secret of the process: another client that knows the batch cannot occupy
it. A restart does not depend on it: the journal stores finished proofs, and a prover with a queue finds a running job
by its body.
"""

import asyncio
import contextlib
import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import aiohttp
import msgspec
from yarl import URL

from forester.errors import EndpointError, EndpointUnreachable, ProofTimedOut
from forester.limits.answer_memory import AnswerMemory
from forester.prover_client.answers import Accepted, Pending, Proved, read_job, read_submission
from forester.prover_client.endpoints import ProverEndpoints
from forester.prover_client.failures import AnswerUnusable, JobNotFound, ProverRefused, lacks_key
from forester.urls import connection_fault
from shared.process.logs import get_logger
from shared.process.retries import Backoff, read_retry_after
from shared.requests.circuit_id import CircuitKind
from shared.requests.proof_compression import CompressedProof, ProofUnusable, compress_proof
from shared.requests.proof_wire import ProofRequest, encode_request

_ANSWERS = AnswerMemory(each=2**20, total=64 * 2**20)
_BUSY = (429, 503)
_TOO_MANY_REQUESTS = 429
_CONNECT_S = 5.0
_POLL_S = 10.0
_CANCEL_S = 2.0
_PROCESS_SECRET = secrets.token_bytes(32)
_log = get_logger(__name__)

PROOF_OBSOLETE = "the proof is obsolete"
"""Message of ``Task.cancel`` with which ``ProverClient.prove`` also cancels the prover's job."""


@dataclass(frozen=True)
class ProverTimes:
    """Time limits in seconds, and numbers of attempts.

    ``max_wait_s`` is the time for one proof, including waits for a busy prover. Submissions that fail are made
    ``submit_attempts`` times; answers 429 and 503 do not count. ``poll_attempts`` faulty answers
    in a row end the polling.
    """

    polling_interval_s: float = 1.0
    max_wait_s: float = 600.0
    first_poll_s: float = 0.2
    submit_attempts: int = 3
    poll_attempts: int = 10
    backoff: Backoff = field(default_factory=Backoff)


@dataclass(frozen=True)
class FinishedProof:
    """A proof as instructions carry it; ``duration_ms`` is the prover's figure, 0 if it gave none.

    ``outage_s`` is the part of its time in which the prover could not be reached or was out of order.
    """

    proof: CompressedProof
    duration_ms: int
    outage_s: float = 0.0


class ProverClient:
    """Client of provers over a session that belongs to the caller."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        endpoints: ProverEndpoints,
        *,
        api_key: str | None = None,
        network: Callable[[], Awaitable[str | None]] | None = None,
        times: ProverTimes | None = None,
    ) -> None:
        """``network`` returns the network whose queues jobs enter, None for none; its EndpointError fails the call."""
        self._session = session
        self._endpoints = endpoints
        self._times = times or ProverTimes()
        self._headers = {"X-API-Key": api_key} if api_key else {}
        self._network = network

    async def prove(
        self, request: ProofRequest, *, tree_id: str | None = None, batch_index: int | None = None
    ) -> FinishedProof:
        """Return the proof of a request; ``tree_id`` and ``batch_index`` order the work of the prover.

        Raises ProofTimedOut at the deadline, and EndpointError of which ``retryable`` says whether another call may
        succeed. A task that is cancelled with PROOF_OBSOLETE ends up to 2 s later, after the job is cancelled. Any
        other cancellation leaves the job to a later call.
        """
        limit = asyncio.timeout(self._times.max_wait_s)
        body = encode_body(request, tree_id, batch_index)
        call = _Call(self, CircuitKind(request.circuit_type), body, limit.expired)
        try:
            async with limit:
                proved = await call.result()
        except asyncio.CancelledError as error:
            if PROOF_OBSOLETE in error.args:
                await call.cancel_job()
            raise
        except TimeoutError as error:
            raise ProofTimedOut(
                f"proof generation timed out: no {call.kind} proof from {call.shown} within {self._times.max_wait_s:g} "
                "s; raise --prover-max-wait-time-secs, and check the health and the capacity of the prover"
            ) from error
        try:
            return FinishedProof(compress_proof(proved.proof), proved.duration_ms, call.outage_s)
        except ProofUnusable as error:
            raise AnswerUnusable(f"a proof of {call.shown}", error.field, str(error)) from error


def encode_body(request: ProofRequest, tree_id: str | None, batch_index: int | None) -> bytes:
    """Return the body of a request, with the two members for fair queues."""
    body = encode_request(request)
    members = {"treeId": tree_id, "batchIndex": batch_index}
    extra = {name: value for name, value in members.items() if value is not None}
    return body[:-1] + b"," + msgspec.json.encode(extra)[1:] if extra else body


def idempotency_key(body: bytes) -> str:
    """Return the Idempotency-Key of a body, which is the same for each repetition by this process alone."""
    return hmac.new(_PROCESS_SECRET, body, "sha256").hexdigest()


class _Call:
    """One request under way."""

    def __init__(self, client: ProverClient, kind: CircuitKind, body: bytes, has_expired: Callable[[], bool]) -> None:
        self.kind = kind
        self.shown = client._endpoints.shown(kind)
        self.outage_s = 0.0
        self._job_id: str | None = None
        self._endpoints = client._endpoints
        self._session = client._session
        self._times = client._times
        self._network = client._network
        self._has_expired = has_expired
        self._body = body
        self._headers = {**client._headers, "Idempotency-Key": idempotency_key(body)}

    async def result(self) -> Proved:
        """Submit, and poll if necessary; submit a job that the prover has lost once more."""
        answer = await self._submit()
        if isinstance(answer, Proved):
            return answer
        try:
            return await self._poll(answer.job_id)
        except JobNotFound:
            _log.warning("proof_job_lost", prover=self.shown, circuit=self.kind.value, job_id=answer.job_id)
        await asyncio.sleep(self._times.first_poll_s)
        answer = await self._submit()
        return answer if isinstance(answer, Proved) else await self._poll(answer.job_id)

    async def cancel_job(self) -> None:
        """Cancel the job of the request, if it has one; a failure costs only the prover's time."""
        if self._job_id is not None:
            url = self._endpoints.status_url(self.kind, self._job_id)
            with contextlib.suppress(EndpointError):
                await self._exchange("DELETE", url, self._headers, _CANCEL_S)

    async def _submit(self) -> Proved | Accepted:
        url, failures, faults = self._endpoints.prove_url(self.kind), 0, 0
        headers, clock = {**self._headers, "Content-Type": "application/json"}, asyncio.get_running_loop().time
        if self._network is not None and (network := await self._network()) is not None:
            headers["X-Light-Network"] = network
        while True:
            began = clock()
            try:
                # A prover without a queue answers when the proof is made: only the deadline of the call ends this.
                status, body, wait_s = await self._exchange("POST", url, headers, None)
                return read_submission(status, body, wait_s)
            except (ProverRefused, EndpointUnreachable) as error:
                failures += 1
                is_busy = isinstance(error, ProverRefused) and error.status in _BUSY
                faults += not is_busy or lacks_key(error)  # a key may never come, and other proofs wait for the permit
                if not error.retryable or faults >= self._times.submit_attempts:
                    raise
                await self._pause(error, failures, "proof_submission_failed")
                if not (isinstance(error, ProverRefused) and error.status == _TOO_MANY_REQUESTS):
                    self.outage_s += clock() - began

    async def _poll(self, job_id: str) -> Proved:
        interval_s, clock = self._times.polling_interval_s, asyncio.get_running_loop().time
        url, failures = self._endpoints.status_url(self.kind, job_id, interval_s), 0
        self._job_id = job_id
        await asyncio.sleep(self._times.first_poll_s)
        while True:
            began = clock()
            try:
                status, body, wait_s = await self._exchange("GET", url, self._headers, interval_s + _POLL_S)
                answer = read_job(job_id, status, body, wait_s)
            except (ProverRefused, EndpointUnreachable) as error:
                failures += 1
                if not error.retryable or isinstance(error, JobNotFound) or failures >= self._times.poll_attempts:
                    raise
                await self._pause(error, failures, "proof_poll_failed")
                continue
            if not isinstance(answer, Pending):
                return answer
            failures = 0
            # A prover that waited for a change is queried again at once.
            await asyncio.sleep(max(0.0, interval_s - (clock() - began)))

    async def _pause(self, error: ProverRefused | EndpointUnreachable, failures: int, event: str) -> None:
        requested_s = error.retry_after_s if isinstance(error, ProverRefused) else None
        wait_s = self._times.backoff.pause_s(failures, requested_s)
        # Many proofs may wait for minutes, each trying again every few seconds.
        log = _log.warning if failures == 1 else _log.debug
        log(event, prover=self.shown, circuit=self.kind.value, error=error.detail, again_in_s=round(wait_s, 3))
        await asyncio.sleep(wait_s)

    async def _exchange(
        self, method: str, url: URL, headers: Mapping[str, str], limit_s: float | None
    ) -> tuple[int, bytes, float | None]:
        """Return status, body, and the seconds of a Retry-After of one exchange."""
        timeout = aiohttp.ClientTimeout(total=limit_s, sock_connect=_CONNECT_S)
        data = self._body if method == "POST" else None
        try:
            async with self._session.request(
                method,
                url,
                data=data,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
                trace_request_ctx=self._has_expired,
            ) as response:
                wait_s = read_retry_after(response.headers.get("Retry-After"))
                async with _ANSWERS.body(
                    response, f"prover {self.shown}", partial(AnswerUnusable, "an answer of the prover", "$")
                ) as body:
                    return response.status, body, wait_s
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise EndpointUnreachable(f"prover {self.shown} is unreachable: {connection_fault(error)}") from error
