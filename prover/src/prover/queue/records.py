"""Between what scripts read and write and what the rest of the program sees."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any, Final

from prover.queue.jobs import Claim, JobState, JobStatus, LaneStats, QueueStats, Submission
from prover.queue.lanes import Lane
from prover.queue.scripts import Counts, LaneCounts, Taken
from shared.circuit_id import CircuitKind

UNKNOWN_TYPE: Final = "unknown"
LONGEST_TYPE: Final = 64
LONGEST_TREE: Final = 128
LONGEST_ERROR: Final = 4096
NO_TREE: Final = "-"
LAST: Final = "~"
"""Sorts behind every batch index."""
LARGEST_INDEX: Final = 10**20 - 1

CIRCUIT_NAME: Final = re.compile(r"[A-Za-z0-9_-]*")
"""The scripts separate names with other characters."""

STATUS_FIELDS: Final = (
    "state",
    "lane",
    "type",
    "created",
    "started",
    "ended",
    "error",
    "proof",
    "duration",
    "attempt",
    "cancel",
)


def placement(submission: Submission) -> dict[str, Any]:
    """What decides where a job waits. Texts of clients are cut to a bounded length."""
    if not CIRCUIT_NAME.fullmatch(submission.circuit):
        raise ValueError(f"{submission.circuit!r} is no name of a circuit")
    index = submission.batch_index
    tree = submission.tree_id
    group = hashlib.sha256(tree.encode(errors="surrogatepass")).hexdigest()[:32] if tree else NO_TREE
    known = submission.circuit_type in set(CircuitKind)
    return {
        "type": _cut(submission.circuit_type, LONGEST_TYPE),
        "label": submission.circuit_type if known else UNKNOWN_TYPE,
        "circuit": submission.circuit,
        "tree": _cut(tree, LONGEST_TREE),
        "index": str(index),
        "group": group,
        "order": f"{min(index, LARGEST_INDEX):020d}" if index >= 0 else LAST,
    }


def bounded(error: str) -> str:
    """A text that is kept with a job."""
    return _cut(error, LONGEST_ERROR)


def status(job_id: str, values: Sequence[bytes | None]) -> JobStatus | None:
    """The status from the values of STATUS_FIELDS; None when there is no job."""
    raw = dict(zip(STATUS_FIELDS, values, strict=True))
    texts = {name: value.decode() for name, value in raw.items() if value is not None and name != "proof"}
    if "state" not in texts:
        return None
    state = JobState(texts["state"])
    ended = _seconds(texts.get("ended"))
    return JobStatus(
        job_id=job_id,
        state=state,
        circuit_type=texts["type"],
        lane=Lane(texts["lane"]),
        created_at=int(texts["created"]) / 1000,
        started_at=_seconds(texts.get("started")),
        error=texts.get("error"),
        failed_at=ended if state is JobState.FAILED else None,
        proof=raw["proof"],
        duration_ms=int(texts["duration"]) if "duration" in texts else None,
        attempt=int(texts["attempt"]),
        completed_at=ended if state is JobState.COMPLETED else None,
        cancelling=state is JobState.PROCESSING and "cancel" in texts,
    )


def claim(taken: Taken, lane: Lane, body: bytes) -> Claim:
    """The claim that a script granted."""
    return Claim(
        job_id=taken.id,
        fence=taken.fence,
        lane=lane,
        circuit_type=taken.type,
        circuit=taken.circuit,
        body=body,
        tree_id=taken.tree,
        batch_index=int(taken.index),
        attempt=taken.attempt,
        submitted_at=taken.created / 1000,
        waited_s=taken.waited / 1000,
    )


def stats(counts: Counts) -> QueueStats:
    """The statistics from the script's counts."""
    return QueueStats(
        lanes={Lane(lane.lane): _lane_stats(lane) for lane in counts.lanes},
        failed=counts.failed,
        results=counts.results,
        timestamp=counts.now / 1000,
    )


def _lane_stats(counts: LaneCounts) -> LaneStats:
    names, numbers = counts.types[::2], counts.types[1::2]
    return LaneStats(
        waiting=counts.waiting,
        waiting_without_tree=counts.without_tree,
        waiting_with_tree=counts.waiting - counts.without_tree,
        trees=counts.trees,
        processing=counts.processing,
        stuck=counts.stuck,
        oldest_waiting_s=counts.oldest / 1000,
        waiting_by_type={name: int(number) for name, number in zip(names, numbers, strict=True)},
        payload_bytes=counts.bytes,
        wake_ups=counts.wake_ups,
    )


def _cut(text: str, longest: int) -> str:
    text = text.encode(errors="replace").decode()
    return text if len(text) <= longest else text[: longest - 3] + "..."


def _seconds(milliseconds: str | None) -> float | None:
    return None if milliseconds is None else int(milliseconds) / 1000
