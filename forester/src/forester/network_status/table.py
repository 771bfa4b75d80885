"""The status as a table with one line per tree; no I/O."""

from collections.abc import Iterable, Iterator

from forester.network_status.epochs import duration
from forester.network_status.state import NetworkState, TreeState

_HEADINGS = ("KIND", "TREE", "APPEND", "NULLIFY", "PENDING", "BATCHES", "FULL", "FORESTER")
_LEFT = (True, True, False, False, False, False, False, True)


def table(state: NetworkState) -> Iterator[str]:
    """Yield a line on the epoch, the headings, and a line for each tree that is not rolled over.

    APPEND and NULLIFY are the waiting elements of both queues of a V2 state tree, PENDING those of all queues, BATCHES
    their full batches without a proof on the chain, FORESTER the owner of the current light slot.
    """
    view = state.epochs
    active = "none" if view.active is None else view.active
    yield f"slot {state.slot}, epoch {active}, next epoch in {duration(view.slots_until_next_epoch)}"
    rows = [_row(state, item) for item in state.trees if not item.tree.metadata.is_rolled_over]
    yield from _aligned([_HEADINGS, *rows])


def _row(state: NetworkState, item: TreeState) -> tuple[str, ...]:
    pending = item.pending
    return (
        item.kind.label,
        str(item.tree.address),
        str(pending.get("StateV2.Append", "-")),
        str(pending.get("StateV2.Nullify", "-")),
        str(sum(pending.values())),
        str(sum(queue.ready_zkp_batches for queue in item.queues.values())) if item.batched else "-",
        f"{item.fullness_percentage:.2f} %",
        state.owner(item.tree) or "-",
    )


def _aligned(rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, widths, _LEFT, strict=True)
        yield "  ".join(f"{text:<{width}}" if left else f"{text:>{width}}" for text, width, left in cells).rstrip()
