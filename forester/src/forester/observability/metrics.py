"""The metrics of the forester: those of the reference, under its names, types and labels, and ours.

Source: forester/docs/reference/behaviour.md, "Metrics".

Labels are bounded: trees and foresters are those that the chain has now, epochs the last three that were touched, the
rest words of this program. Restarts of tasks are counted by their supervisor, in the same registry.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

from forester.observability.service_records import ServiceRecords
from forester.observability.work_records import WorkRecords

EPOCHS_KEPT = 3

_PROOFS = "forester_indexer_proof_count"


class Metrics:
    """The metrics, in a registry of their own, and the records of recent work and services behind the dashboard."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the reference has none; unused
        self.registry = CollectorRegistry(auto_describe=True)
        self.work = WorkRecords()
        self.services = ServiceRecords()
        counter, gauge = partial(Counter, registry=self.registry), partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        tree = ("tree_type", "tree_pubkey")
        self.queue_length = gauge("queue_length", "Elements that wait in a queue", tree)
        self.queue_capacity = gauge("queue_capacity", "Elements that a queue can hold", tree)
        self.last_run = gauge("forester_last_run_timestamp", "Time of the last update of the metrics, Unix seconds")
        self.processed = counter("forester_transactions_processed_total", "Elements processed", ("epoch",))
        self.processed_at = gauge(
            "forester_transaction_timestamp", "Time at which elements were last processed, Unix seconds", ("epoch",)
        )
        self.rate = gauge("forester_transaction_rate", "Elements per second in the last round", ("epoch",))
        self.balance = gauge("forester_sol_balance", "Balance of a forester, SOL", ("pubkey",))
        self.payer = gauge("forester_payer", "1 for the payer of this process", ("pubkey",))
        self.registered_foresters = gauge(
            "registered_foresters", "1 for each forester of an epoch", ("epoch", "authority")
        )
        self.failed = counter("forester_transactions_failed_total", "Transactions that failed", ("reason",))
        self.epoch_detected = gauge("forester_epoch_detected", "Latest known epoch")
        self.epoch_registered = gauge("forester_epoch_registered", "Latest epoch registered for")
        self.epoch_reported = gauge(
            "forester_epoch_reported", "Latest epoch whose work was reported, 0 for none since the start"
        )
        self.indexer_seconds = histogram(
            "forester_indexer_response_time_seconds",
            "Seconds of proof requests to the indexer",
            ("operation", "tree_type"),
            buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 10),
        )
        # A counter in the reference, and in what we expose; the library would add _total to the name of one.
        self.indexer_proofs = gauge(_PROOFS, "Proofs requested and received", (*tree, "metric"))
        self.progress_age = gauge(
            "forester_seconds_since_progress",
            "Seconds that work of a tree has waited since the tree last moved, 0 while nothing waits",
            tree,
        )
        self.unprovable = gauge(
            "forester_tree_unprovable", "1 for a tree for whose batches the prover has no key, otherwise 0", tree
        )
        self.proofs_made = counter("forester_proofs_made_total", "Proofs that the prover made for us", ("circuit",))
        self.proofs_reused = counter(
            "forester_proofs_reused_total", "Stored proofs that a later window used", ("circuit",)
        )
        self.in_flight = gauge("forester_transactions_in_flight", "Transactions sent with unknown outcome")
        self.spent = gauge("forester_spent_lamports", "Cost of the transactions signed in the last hour, lamports")
        self.spending_budget = gauge(
            "forester_spending_budget_lamports", "Maximum cost of the transactions signed within an hour, lamports"
        )
        self.key_used_elsewhere = counter(
            "forester_key_used_elsewhere_total", "Reads of the chain that found another process that works with our key"
        )
        self.snapshot_age = gauge(
            "forester_snapshot_age_seconds", "Seconds since the snapshot that /status returns, -1 before the first"
        )
        self.compressible_tracked = gauge(
            "forester_compressible_accounts", "Compressible accounts that are tracked", ["kind"]
        )
        self.compressible_ready = gauge(
            "forester_compressible_accounts_ready", "Tracked accounts whose rent has run out", ["kind"]
        )
        self.accounts_compressed = counter(
            "forester_accounts_compressed_total", "Accounts compressed and closed", ["kind"]
        )
        self.compression_lamports = counter(
            "forester_compression_lamports_total", "Lamports received for compressed accounts, before fees"
        )
        self.rent_recovered = counter(
            "forester_rent_recovered_lamports_total",
            "Lamports of closed accounts that went back to rent sponsors and owners",
            ["kind"],
        )
        self.rent_claimed = counter(
            "forester_rent_claimed_lamports_total", "Rent of completed rent epochs that was claimed for rent sponsors"
        )
        self._epochs: OrderedDict[str, None] = OrderedDict()

    def count_processed(self, epoch: int, elements: int, seconds: float) -> None:
        """Count the elements of a dispatch and its seconds."""
        label = str(epoch)
        self._touch(label)
        self.processed.labels(label).inc(elements)
        self.processed_at.labels(label).set(time.time())
        self.rate.labels(label).set(elements / seconds if seconds > 0 else 0)

    def set_foresters(self, foresters: Mapping[int, list[str]]) -> None:
        """Replace the foresters of all epochs: those that left vanish."""
        replace_series(
            self.registered_foresters,
            {(str(epoch), authority): 1 for epoch, names in foresters.items() for authority in names},
        )

    def keep_trees(self, trees: Collection[str]) -> None:
        """Forget the series of trees that are not in ``trees``."""
        for metric in (self.indexer_proofs, self.progress_age, self.unprovable):
            for kind, tree, *more in _series(metric):
                if tree not in trees:
                    metric.remove(kind, tree, *more)

    def failures(self, *reasons: str) -> int:
        """Return how many transactions have failed for one of the reasons."""
        counted = self.failures_by_reason
        return sum(counted.get(reason, 0) for reason in reasons)

    @property
    def failures_by_reason(self) -> dict[str, int]:
        """Failed transactions by reason, since the start of the process."""
        samples = (sample for family in self.failed.collect() for sample in family.samples)
        return {sample.labels["reason"]: int(sample.value) for sample in samples}

    def accounts_compressed_count(self, *kinds: str) -> int:
        """Return the number of accounts of kinds that this process has compressed."""
        return total(self.accounts_compressed, lambda labels: labels["kind"] in kinds)

    def exposition(self, families: Collection[str] | None = None) -> bytes:
        """Return all metrics, or those of ``families``, in the text format of Prometheus, version 0.0.4."""
        chosen = self.registry if families is None else self.registry.restricted_registry(families)
        text = generate_latest(chosen)
        return text.replace(f"# TYPE {_PROOFS} gauge\n".encode(), f"# TYPE {_PROOFS} counter\n".encode())

    def _touch(self, epoch: str) -> None:
        self._epochs[epoch] = None
        self._epochs.move_to_end(epoch)
        while len(self._epochs) > EPOCHS_KEPT:
            oldest, _ = self._epochs.popitem(last=False)
            for metric in (self.processed, self.processed_at, self.rate):
                metric.remove(oldest)


class CheckMetrics:
    """The findings of one run of ``forester health``, apart from the metrics of a daemon that pushes to one group."""

    def __init__(self, healthy: Mapping[str, bool]) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # as above
        self.registry = CollectorRegistry(auto_describe=True)
        self.last_run = Gauge(
            "forester_health_timestamp", "Time of the last run of forester health, Unix seconds", registry=self.registry
        )
        self.healthy = Gauge(
            "forester_health_check",
            "1 if a check of forester health passed, 0 if it failed",
            ("check",),
            registry=self.registry,
        )
        for name, success in healthy.items():
            self.healthy.labels(name).set(success)

    def exposition(self) -> bytes:
        """Return the findings in the text format of Prometheus, version 0.0.4."""
        return generate_latest(self.registry)


def total(metric: Counter, chosen: Callable[[dict[str, str]], bool] = lambda _: True) -> int:
    """Return the sum of the series of a counter whose labels are chosen."""
    samples = (sample for family in metric.collect() for sample in family.samples)
    return int(sum(item.value for item in samples if item.name.endswith("_total") and chosen(item.labels)))


def replace_series(metric: Gauge, values: Mapping[tuple[str, ...], float]) -> None:
    """Set a gauge for exactly these labels; other series vanish."""
    for labels in _series(metric) - values.keys():
        metric.remove(*labels)
    for labels, value in values.items():
        metric.labels(*labels).set(value)


def _series(metric: Gauge) -> set[tuple[str, ...]]:
    return {tuple(sample.labels.values()) for family in metric.collect() for sample in family.samples}
