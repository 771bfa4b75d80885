"""The activity of one forester as a document: what it did lately, and what it knows that the chain does not; no I/O.

Source: forester/docs/reference/dashboard.md, "Activity object". A document may be another process's: sizes and numbers
are bounded, and a member of the wrong type makes it unusable.
"""

from typing import Annotated, Any

import msgspec

from forester.errors import MalformedAnswer
from forester.observability.health import Problem
from forester.observability.progress import TreeProgress
from forester.observability.work_records import BatchRecord, Count, Short, Text, TransactionRecord

_MANY = 2000


class MoneyFacts(msgspec.Struct, frozen=True):
    """Lamports: balance, signed for within the hour by purpose, and the budget; failed transactions by reason."""

    lamports: Count | None
    spent: Count
    budget: Count
    by_purpose: dict[Short, Count]
    failed: dict[Short, Count]


class ServiceFacts(msgspec.Struct, frozen=True):
    """A service that the forester calls, without path and query of its address. ``failures`` are consecutive."""

    role: Short
    host: Short
    fallback: bool
    in_use: bool
    failures: Count
    latency_ms: float | None = None
    answered_at: float | None = None
    failed_at: float | None = None
    failing_since: float | None = None
    error: Text | None = None
    lag_slots: Count | None = None
    queued: Count | None = None


class HistoryFacts(msgspec.Struct, frozen=True):
    """Columns of samples, oldest first. ``began`` is the Unix time of the first, None a time without a sample."""

    began: float
    step_s: float
    backlog: Annotated[list[Count | None], msgspec.Meta(max_length=_MANY)]
    proofs: Annotated[list[Count | None], msgspec.Meta(max_length=_MANY)]
    elements: Annotated[list[Count | None], msgspec.Meta(max_length=_MANY)]
    lamports: Annotated[list[Count | None], msgspec.Meta(max_length=_MANY)]


class ActivityDocument(msgspec.Struct, frozen=True):
    """The document. ``waiting_for`` are steps of the start that are left; ``compressed_lamports`` were recovered."""

    payer: Short
    release: Short
    began: float
    waiting_for: Annotated[list[Short], msgspec.Meta(max_length=16)]
    draining: bool
    problems: Annotated[list[Problem], msgspec.Meta(max_length=128)]
    trees: Annotated[list[TreeProgress], msgspec.Meta(max_length=_MANY)]
    batches: Annotated[list[BatchRecord], msgspec.Meta(max_length=_MANY)]
    transactions: Annotated[list[TransactionRecord], msgspec.Meta(max_length=_MANY)]
    money: MoneyFacts
    services: Annotated[list[ServiceFacts], msgspec.Meta(max_length=32)]
    compressed_lamports: Count = 0
    history: HistoryFacts | None = None


def read_activity(content: dict[str, Any]) -> ActivityDocument:
    """Return another forester's document; MalformedAnswer names the member that is wrong."""
    try:
        return msgspec.convert(content, ActivityDocument)
    except msgspec.ValidationError as error:
        raise MalformedAnswer(f"/activity is unusable: {error}") from None
