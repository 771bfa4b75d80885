"""Decoding of the answers of a prover; no I/O.

Source: forester/docs/reference/behaviour.md, "Proof requests". Both kinds of provers are understood: results with
and without their duration, problems of RFC 9457 and errors of two members, text that is no JSON at all.
"""

from dataclasses import dataclass
from typing import Annotated, TypeVar

import msgspec

from forester.limits.untrusted_json import decode_untrusted
from forester.prover_client.failures import AnswerUnusable, JobNotFound, ProofFailed, ProverRefused
from forester.redaction import shortened
from shared.requests.proof_wire import ProofJson

_T = TypeVar("_T")
_LONGEST_JOB_ID = 200
_RETRYABLE_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
_UNPROVABLE = ("constraint", "is not satisfied")
"""Words of failures that no retry changes, whatever else an answer contains."""
_TRANSIENT_WORDS = ("timeout", "timed out", "500", "502", "503", "connection")


@dataclass(frozen=True)
class Proved:
    """A proof and the milliseconds it took, 0 if the prover does not report them."""

    proof: ProofJson
    duration_ms: int


@dataclass(frozen=True)
class Accepted:
    """A job was created, or an equal one was found (``deduplicated``)."""

    job_id: str
    deduplicated: bool


@dataclass(frozen=True)
class Pending:
    """A job is not finished; ``status`` as the prover names it."""

    status: str


class _Error(msgspec.Struct):
    code: str = ""
    message: str = ""
    retryable: bool | None = None


class _Accepted(msgspec.Struct):
    job_id: Annotated[str, msgspec.Meta(min_length=1, max_length=_LONGEST_JOB_ID)]
    deduplicated: bool = False


class _Timed(msgspec.Struct):
    proof: ProofJson
    proof_duration_ms: float = 0


class _Job(msgspec.Struct):
    status: str
    result: msgspec.Raw = msgspec.Raw(b"null")
    message: str = ""
    error: str = ""
    retryable: bool | None = None


_ERROR_DECODER = msgspec.json.Decoder(_Error)
_ACCEPTED_DECODER = msgspec.json.Decoder(_Accepted)
_TIMED_DECODER = msgspec.json.Decoder(_Timed)
_PROOF_DECODER = msgspec.json.Decoder(ProofJson)
_JOB_DECODER = msgspec.json.Decoder(_Job)


def read_submission(status: int, body: bytes, retry_after_s: float | None = None) -> Proved | Accepted:
    """Read the answer to a proof request; raises ProverRefused and AnswerUnusable."""
    if status == 200:
        return _read_result(body, "answer to a proof request")
    if status == 202:
        accepted = _decode(_ACCEPTED_DECODER, body, "acceptance of a proof request")
        return Accepted(accepted.job_id, accepted.deduplicated)
    raise _refusal(status, body, retry_after_s)


def read_job(job_id: str, status: int, body: bytes, retry_after_s: float | None = None) -> Proved | Pending:
    """Read the state of a job; raises ProofFailed, JobNotFound, ProverRefused and AnswerUnusable.

    Unknown states mean that the job continues.
    """
    if not 200 <= status < 300:
        raise _refusal(status, body, retry_after_s)
    what = f"state of proof job {job_id}"
    job = _decode(_JOB_DECODER, body, what)
    if job.status == "completed":
        if bytes(job.result) == b"null":
            raise AnswerUnusable(what, "$.result", "completed without a result")
        return _read_result(bytes(job.result), what, "$.result")
    if job.status == "failed":
        message = job.message or job.error or "no reason given"
        retryable = _may_pass(f"{message} {job.error}", default=False) if job.retryable is None else job.retryable
        raise ProofFailed(job_id, shortened(message), retryable=retryable)
    return Pending(job.status)


def _read_result(body: bytes, what: str, json_path: str = "$") -> Proved:
    try:
        timed = decode_untrusted(_TIMED_DECODER, body)
    except ValueError as error:
        try:
            proof = decode_untrusted(_PROOF_DECODER, body)
        except ValueError as bare:
            named = bare if b'"ar"' in body and b'"proof"' not in body else error
            raise _unusable(named, what, json_path) from bare
        return Proved(proof, 0)
    return Proved(timed.proof, max(0, int(min(timed.proof_duration_ms, 1e15))))


def _refusal(status: int, body: bytes, retry_after_s: float | None) -> ProverRefused:
    try:
        error = decode_untrusted(_ERROR_DECODER, body)
    except ValueError:
        error = _Error(message=body.decode("utf-8", "replace").strip())
    message = shortened(error.message or "no reason given")
    code = shortened(error.code or "unknown")
    if error.retryable is None:
        retryable = status in _RETRYABLE_STATUSES and not _unprovable(message)
    else:
        retryable = error.retryable
    kind = JobNotFound if code == "job_not_found" else ProverRefused
    return kind(status, code, message, retryable=retryable, retry_after_s=retry_after_s)


def _may_pass(text: str, *, default: bool) -> bool:
    lowered = text.lower()
    if _unprovable(lowered):
        return False
    return default or any(word in lowered for word in _TRANSIENT_WORDS)


def _unprovable(text: str) -> bool:
    return any(word in text for word in _UNPROVABLE)


def _decode(decoder: msgspec.json.Decoder[_T], body: bytes, what: str) -> _T:
    try:
        return decode_untrusted(decoder, body)
    except ValueError as error:
        raise _unusable(error, what, "$") from error


def _unusable(error: ValueError, what: str, json_path: str) -> AnswerUnusable:
    reason, found, path = str(error).partition(" - at `$")
    return AnswerUnusable(what, json_path + path.rstrip("`") if found else json_path, reason)
