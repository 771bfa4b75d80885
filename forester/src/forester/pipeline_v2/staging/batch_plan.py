"""Numbers and order of the batches to stage; no I/O.

Source: forester/docs/reference/behaviour.md, "Batch order".
"""

from collections.abc import Sequence
from dataclasses import dataclass

from forester.chain.batched_accounts import BatchState, QueueBatches
from shared.requests.circuit_id import CircuitKind


@dataclass(frozen=True)
class PlannedCounts:
    """Batches of each kind."""

    appends: int
    nullifies: int


def provable_batches(queue: QueueBatches) -> int:
    """Return the number of filled zkp batches that can be inserted now, one after another.

    Those of the other batch follow only when all of the pending one are filled. A batch that is still being filled may
    hold filled zkp batches already: their hash chains are final.
    """
    pending = queue.pending_batch
    ready = 0 if pending.state is BatchState.INSERTED else pending.ready_zkp_batches
    other = queue.batches[1 - queue.pending_batch_index]
    if pending.full_zkp_batches < pending.zkp_batches or other.state is BatchState.INSERTED:
        return ready
    return ready + other.ready_zkp_batches


def plan_counts(appends: int, nullifies: int, maximum: int) -> PlannedCounts:
    """Choose at most ``maximum`` of the complete batches of a state tree.

    If both kinds wait, appends get half, at least one, and the part that nullifications do not use.
    """
    if not appends or not nullifies:
        return PlannedCounts(min(appends, maximum), min(nullifies, maximum))
    total = min(appends + nullifies, maximum)
    half = min(maximum, max(1, min(appends, maximum // 2)))
    chosen = min(nullifies, total - half)
    return PlannedCounts(min(appends, total - chosen), chosen)


def plan_order(
    first: Sequence[CircuitKind],
    appends: int,
    nullify_greatest_indices: Sequence[int],
    *,
    next_index: int,
    zkp_batch_size: int,
    maximum: int,
) -> list[CircuitKind]:
    """Return the order of at most ``maximum`` of the complete batches of a state tree, beginning with ``first``.

    ``first`` are the kinds of batches that are proved or were requested, as far as the order is still wanted.
    """
    order: list[CircuitKind] = []
    available = {CircuitKind.BATCH_APPEND: appends, CircuitKind.BATCH_UPDATE: len(nullify_greatest_indices)}
    for kind in first[:maximum]:
        if not available.get(kind):
            break
        available[kind] -= 1
        order.append(kind)
    counts = plan_counts(available[CircuitKind.BATCH_APPEND], available[CircuitKind.BATCH_UPDATE], maximum - len(order))
    done = order.count(CircuitKind.BATCH_UPDATE)
    greatest = nullify_greatest_indices[done : done + counts.nullifies]
    begun = next_index + order.count(CircuitKind.BATCH_APPEND) * zkp_batch_size
    return order + interleave(counts.appends, greatest, begun, zkp_batch_size)


def interleave(
    appends: int, nullify_greatest_indices: Sequence[int], next_index: int, zkp_batch_size: int
) -> list[CircuitKind]:
    """Return the order of batches: a nullification follows the append that covers its greatest leaf index.

    This saves work, correctness does not depend on it: appends keep the value of an earlier nullification. Batches of
    one kind keep their order, so a nullification also waits for those before it; the rest comes last.
    """
    order: list[CircuitKind] = []
    waiting = list(nullify_greatest_indices)
    for done in range(1, appends + 1):
        order.append(CircuitKind.BATCH_APPEND)
        while waiting and waiting[0] < next_index + done * zkp_batch_size:
            order.append(CircuitKind.BATCH_UPDATE)
            del waiting[0]
    return order + [CircuitKind.BATCH_UPDATE] * len(waiting)
