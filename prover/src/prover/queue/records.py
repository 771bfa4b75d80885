"""Conversion between the records of scripts and the types of the program.

Any client that reaches Redis can write anything there: a record is untrusted input, and one that no instance can have
written raises RecordMalformed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any, Final

from prover.observability.metrics import UNKNOWN_CIRCUIT
from prover.proving.statement import Statement
from prover.queue.circuit_queues import CircuitQueue
from prover.queue.job_ids import NONCE_BYTES, job_id_of
from prover.queue.jobs import NUMBER, Claim, JobState, JobStatus, Submission
from prover.queue.scripts import ClaimReply, SubmitReply
from shared.requests.circuit_id import CircuitKind

LONGEST_TYPE: Final = 64
LONGEST_TREE: Final = 128
LONGEST_ERROR: Final = 4096
LONGEST_VALUE: Final = 2**15
"""Bytes of one field of a record; an error has at most four per character."""
NO_TREE: Final = "-"
LAST: Final = "~"
"""Sorts behind every batch index."""
LARGEST_INDEX: Final = 10**20 - 1

CIRCUIT_NAME: Final = re.compile(r"[A-Za-z0-9_-]*")
"""The scripts separate names with other characters."""

STATUS_FIELDS: Final = (
    "state",
    "lane",
    "queue",
    "type",
    "created",
    "started",
    "ended",
    "error",
    "proof",
    "duration",
    "attempt",
    "cancel",
    "nonce",
    "proves",
    "inputs",
)

_INDEX: Final = re.compile(r"-?[0-9]{1,40}", re.ASCII)
_HEX: Final = re.compile(r"([0-9a-f]{2})*", re.ASCII)


class RecordMalformed(ValueError):
    """A record in Redis that no instance can have written; the message repeats none of it."""


def placement(submission: Submission) -> dict[str, Any]:
    """Return the members that decide the position of a job. Texts of clients are cut to a bounded length."""
    if not CIRCUIT_NAME.fullmatch(submission.circuit):
        raise ValueError(f"{submission.circuit!r} is not a name of a circuit")
    index = submission.batch_index
    tree = submission.tree_id
    group = hashlib.sha256(tree.encode(errors="surrogatepass")).hexdigest()[:32] if tree else NO_TREE
    known = submission.circuit_type in set(CircuitKind)
    queue = submission.queue
    return {
        "queue": queue.value,
        "lane": queue.without_network.value,
        "digest": _digest(submission),
        "type": _cut(submission.circuit_type, LONGEST_TYPE),
        "label": submission.circuit_type if known else UNKNOWN_CIRCUIT,
        "circuit": submission.circuit,
        "tree": _cut(tree, LONGEST_TREE),
        "index": str(index),
        "group": group,
        "order": f"{min(index, LARGEST_INDEX):020d}" if index >= 0 else LAST,
    }


def _digest(submission: Submission) -> str:
    """Return the digest by which equal requests are found; no body begins with the name of a network."""
    network = f"{submission.network}\0" if submission.network else ""
    return hashlib.sha256(network.encode() + submission.body).hexdigest()


def bounded(error: str) -> str:
    """Return an error text cut to the length that is stored with a job."""
    return _cut(error, LONGEST_ERROR)


def status(job_id: str, values: Sequence[bytes | None]) -> JobStatus | None:
    """Return the status from the values of STATUS_FIELDS; None when there is no job. Raises RecordMalformed."""
    if any(value is not None and len(value) > LONGEST_VALUE for value in values):
        raise RecordMalformed("a value is longer than any that is stored")
    raw = dict(zip(STATUS_FIELDS, values, strict=True))
    if raw["state"] is None:
        return None
    try:
        return _status(job_id, raw)
    except RecordMalformed:
        raise
    except (KeyError, ValueError) as error:  # a member is missing, not text, or not of its enumeration
        raise RecordMalformed(f"a member is missing or malformed ({type(error).__name__})") from None


def _status(job_id: str, raw: dict[str, bytes | None]) -> JobStatus:
    texts = {name: value.decode() for name, value in raw.items() if value is not None and name != "proof"}
    state = JobState(texts["state"])
    proof = raw["proof"] if state is JobState.COMPLETED else None
    if state is JobState.COMPLETED and proof is None:
        raise RecordMalformed("a completed job has no proof")
    ended = _seconds(texts.get("ended"))
    return JobStatus(
        job_id=job_id,
        state=state,
        circuit_type=_cut(texts["type"], LONGEST_TYPE),
        queue=CircuitQueue(texts.get("queue", texts["lane"])),
        created_at=_number(texts["created"]) / 1000,
        started_at=_seconds(texts.get("started")),
        error=bounded(texts["error"]) if "error" in texts else None,
        failed_at=ended if state is JobState.FAILED else None,
        proof=proof,
        duration_ms=_number(texts["duration"]) if "duration" in texts else None,
        attempt=_number(texts["attempt"]),
        completed_at=ended if state is JobState.COMPLETED else None,
        cancelling=state is JobState.PROCESSING and "cancel" in texts,
        statement=_statement(job_id, texts.get("nonce", ""), texts.get("proves", ""), texts.get("inputs", "")),
    )


def is_job_of(reply: SubmitReply, submission: Submission) -> bool:
    """Return whether the id of an existing job is bound to the statement of a submission, if that has one."""
    return not submission.public_inputs or _is_bound_to(reply.id, reply.nonce, submission.statement)


def claim(reply: ClaimReply, queue: CircuitQueue, body: bytes) -> Claim:
    """Return the claim that a script granted; raises RecordMalformed."""
    if not _INDEX.fullmatch(reply.index) or not CIRCUIT_NAME.fullmatch(reply.circuit):
        raise RecordMalformed("its position in the queue is malformed")
    return Claim(
        job_id=reply.id,
        fence=reply.fence,
        queue=queue,
        circuit_type=_cut(reply.type, LONGEST_TYPE),
        circuit=reply.circuit,
        body=body,
        tree_id=_cut(reply.tree, LONGEST_TREE),
        batch_index=int(reply.index),
        attempt=reply.attempt,
        submitted_at=reply.created / 1000,
        waited_s=reply.waited / 1000,
    )


def _cut(text: str, longest: int) -> str:
    text = text.encode(errors="replace").decode()
    return text if len(text) <= longest else text[: longest - 3] + "..."


def _seconds(milliseconds: str | None) -> float | None:
    return None if milliseconds is None else _number(milliseconds) / 1000


def _number(text: str) -> int:
    if not NUMBER.fullmatch(text):
        raise RecordMalformed("a number is malformed")
    return int(text)


def _statement(job_id: str, nonce: str, circuit: str, inputs: str) -> Statement | None:
    """Return the statement in a record if the id of the job is bound to it."""
    if not circuit or not inputs or not CIRCUIT_NAME.fullmatch(circuit) or not _HEX.fullmatch(inputs):
        return None
    statement = Statement(circuit, bytes.fromhex(inputs))
    return statement if _is_bound_to(job_id, nonce, statement) else None


def _is_bound_to(job_id: str, nonce: str, statement: Statement) -> bool:
    if len(nonce) != 2 * NONCE_BYTES or not _HEX.fullmatch(nonce):
        return False
    return job_id_of(bytes.fromhex(nonce), statement) == job_id
