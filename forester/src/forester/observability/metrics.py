"""Every metric of the forester, declared once; names, types and labels are the reference's (forester.md 8.1).

Labels are bounded: trees and foresters are as many as the chain has, epochs only the last three that were touched.
"""

import time
from collections import OrderedDict
from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

EPOCHS_KEPT = 3


class Metrics:
    """The metrics, in a registry of their own."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the reference has none, and nobody plots them
        self.registry = registry or CollectorRegistry(auto_describe=True)
        tree = ("tree_type", "tree_pubkey")
        self.queue_length = Gauge("queue_length", "Elements that wait in a queue", tree, registry=self.registry)
        self.queue_capacity = Gauge("queue_capacity", "Elements that a queue can hold", tree, registry=self.registry)
        self.last_run = Gauge(
            "forester_last_run_timestamp",
            "When the forester last told its metrics, Unix seconds",
            registry=self.registry,
        )
        self.processed = Counter(
            "forester_transactions_processed_total", "Elements processed", ("epoch",), registry=self.registry
        )
        self.processed_at = Gauge(
            "forester_transaction_timestamp", "When elements were last processed", ("epoch",), registry=self.registry
        )
        self.rate = Gauge(
            "forester_transaction_rate", "Elements per second of the last dispatch", ("epoch",), registry=self.registry
        )
        self.balance = Gauge("forester_sol_balance", "Balance of a forester, SOL", ("pubkey",), registry=self.registry)
        self.registered_foresters = Gauge(
            "registered_foresters", "1 for each forester of an epoch", ("epoch", "authority"), registry=self.registry
        )
        self.failed = Counter(
            "forester_transactions_failed_total", "Transactions that failed", ("reason",), registry=self.registry
        )
        self.epoch_detected = Gauge("forester_epoch_detected", "Latest epoch seen", registry=self.registry)
        self.epoch_registered = Gauge(
            "forester_epoch_registered", "Latest epoch registered for", registry=self.registry
        )
        self.indexer_seconds = Histogram(
            "forester_indexer_response_time_seconds",
            "Time of calls for proofs",
            ("operation", "tree_type"),
            buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 10),
            registry=self.registry,
        )
        # A counter in the reference; the library would add _total to its name, which queries do not expect.
        self.indexer_proofs = Gauge(
            "forester_indexer_proof_count", "Proofs asked for and got", (*tree, "metric"), registry=self.registry
        )
        self._epochs: OrderedDict[str, None] = OrderedDict()

    def count_processed(self, epoch: int, elements: int, seconds: float) -> None:
        """Count the elements of a dispatch that took so long."""
        label = str(epoch)
        self._touch(label)
        self.processed.labels(label).inc(elements)
        self.processed_at.labels(label).set(time.time())
        self.rate.labels(label).set(elements / seconds if seconds > 0 else 0)

    def set_foresters(self, foresters: Mapping[int, list[str]]) -> None:
        """Replace the foresters of all epochs: those that left vanish."""
        self.registered_foresters.clear()
        for epoch, authorities in foresters.items():
            for authority in authorities:
                self.registered_foresters.labels(str(epoch), authority).set(1)

    def _touch(self, epoch: str) -> None:
        self._epochs[epoch] = None
        self._epochs.move_to_end(epoch)
        while len(self._epochs) > EPOCHS_KEPT:
            oldest, _ = self._epochs.popitem(last=False)
            for metric in (self.processed, self.processed_at, self.rate):
                metric.remove(oldest)
