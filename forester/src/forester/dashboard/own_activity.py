"""The activity document of this process, from its metrics, records and problems; no I/O."""

from collections.abc import Sequence
from importlib.metadata import version

from forester.dashboard.activity import (
    ActivityDocument,
    HistoryFacts,
    MoneyFacts,
    ServiceFacts,
)
from forester.observability.health import HealthBoard
from forester.observability.metrics import Metrics, total
from forester.observability.probes import Probes
from forester.observability.progress import TreeProgress
from forester.observability.service_records import ServiceRecord
from forester.transactions.spending import SpendingBudget
from forester.units import lamports_of

_RELEASE = version("zkc-forester")


def own_activity(
    payer: str,
    metrics: Metrics,
    board: HealthBoard,
    probes: Probes,
    *,
    trees: Sequence[TreeProgress],
    budget: SpendingBudget | None,
    history: HistoryFacts | None,
) -> ActivityDocument:
    """Return the document at this moment."""
    return ActivityDocument(
        payer=payer,
        release=_RELEASE,
        began=metrics.work.began,
        waiting_for=list(probes.missing),
        draining=probes.draining,
        problems=list(board.problems),
        trees=list(trees),
        batches=list(metrics.work.batches),
        transactions=list(metrics.work.transactions),
        money=_money(payer, metrics, budget),
        services=[_service(record) for record in metrics.services.records],
        compressed_lamports=total(metrics.compression_lamports),
        history=history,
    )


def balance_of(metrics: Metrics, payer: str) -> int | None:
    """Return the last known balance of a forester in lamports."""
    samples = (sample for family in metrics.balance.collect() for sample in family.samples)
    return next((lamports_of(sample.value) for sample in samples if sample.labels["pubkey"] == payer), None)


def _money(payer: str, metrics: Metrics, budget: SpendingBudget | None) -> MoneyFacts:
    by_purpose = {} if budget is None else dict(budget.by_purpose)
    return MoneyFacts(
        lamports=balance_of(metrics, payer),
        spent=sum(by_purpose.values()),
        budget=0 if budget is None else budget.maximum,
        by_purpose=by_purpose,
        failed=metrics.failures_by_reason,
    )


def _service(record: ServiceRecord) -> ServiceFacts:
    latency_s = record.latency_s
    return ServiceFacts(
        role=record.role,
        host=record.host,
        fallback=record.fallback,
        in_use=record.in_use(),
        failures=record.failures,
        latency_ms=None if latency_s is None else round(latency_s * 1000, 1),
        answered_at=None if record.answered_at is None else round(record.answered_at),
        failed_at=None if record.failed_at is None else round(record.failed_at),
        failing_since=None if record.failing_since is None else round(record.failing_since),
        error=record.error,
        lag_slots=record.lag_slots,
        queued=record.queued,
    )
