"""The status as metrics (forester.md 7.2)."""

from forester.network_status.state import NetworkState
from forester.observability.metrics import Metrics
from forester.units import sol


def set_gauges(metrics: Metrics, state: NetworkState) -> None:
    """Set the gauges that only a look at the whole network can set."""
    for item in state.trees:
        address = str(item.tree.address)
        for label, length in item.pending.items():
            metrics.queue_length.labels(label, address).set(length)
        capacities = {label: queue.batch_size * len(queue.batches) for label, queue in item.queues.items()}
        for label, capacity in (capacities or {item.kind.label: item.cells}).items():
            metrics.queue_capacity.labels(label, address).set(capacity)
    for authority, lamports in state.balances.items():
        metrics.balance.labels(str(authority)).set(sol(lamports))
    shown = {state.epochs.registering, state.epochs.active}
    metrics.set_foresters(
        {
            epoch: [str(item.authority) for item in registrations]
            for epoch, registrations in state.registrations.items()
            if epoch in shown
        }
    )
