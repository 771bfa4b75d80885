"""The status as metrics (forester/docs/reference/behaviour.md, "Status text")."""

from forester.network_status.state import NetworkState
from forester.observability.metrics import Metrics, replace_series
from forester.units import sol


def set_gauges(metrics: Metrics, state: NetworkState) -> None:
    """Set the gauges that depend on the whole network; series without a value any more vanish."""
    lengths: dict[tuple[str, ...], float] = {}
    capacities: dict[tuple[str, ...], float] = {}
    for item in state.trees:
        address = str(item.tree.address)
        lengths |= {(label, address): length for label, length in item.pending.items()}
        batched = {label: queue.batch_size * len(queue.batches) for label, queue in item.queues.items()}
        found = batched or {item.kind.label: item.cells}
        capacities |= {(label, address): capacity for label, capacity in found.items()}
    replace_series(metrics.queue_length, lengths)
    replace_series(metrics.queue_capacity, capacities)
    replace_series(metrics.balance, {(str(owner),): sol(lamports) for owner, lamports in state.balances.items()})
    metrics.keep_trees({str(item.tree.address) for item in state.trees})
    shown = {state.epochs.registering, state.epochs.active}
    metrics.set_foresters(
        {
            epoch: [str(item.authority) for item in registrations]
            for epoch, registrations in state.registrations.items()
            if epoch in shown
        }
    )
