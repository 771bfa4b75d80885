"""The status as a terminal shows it (forester/docs/reference/behaviour.md, "Status text"); no I/O."""

from collections.abc import Iterator
from dataclasses import asdict

from forester.chain.batched_accounts import QueueBatches
from forester.chain.registry_accounts import ForesterEpochAccount
from forester.network_status.epochs import duration, hours
from forester.network_status.state import NetworkState, TreeState
from forester.units import SLOT_SECONDS

UPCOMING_LIGHT_SLOTS = 10


def overview(state: NetworkState, *, all_epochs: bool = False) -> Iterator[str]:
    """Yield the lines of slot, epochs and foresters."""
    view = state.epochs
    length = view.times.active_phase_length
    yield f"Current Solana slot: {state.slot}"
    yield f"Current active epoch: {'none yet' if view.active is None else view.active}"
    yield f"Current registration epoch: {view.registering}"
    shown = sorted({view.registering if view.active is None else view.active, view.registering})
    for epoch in sorted(state.registrations) if all_epochs else shown:
        yield f"Foresters of epoch {epoch}:"
        yield from _foresters(state.registrations.get(epoch, ()))
    count = len(state.active_registrations)
    yield f"Foresters registered for the active epoch: {'yes' if count else 'NO'} ({count})"
    percent = view.active_progress / length * 100
    yield f"Active epoch progress: {view.active_progress} / {length} ({percent:.2f} %)"
    ahead, slots = view.slots_until_next_epoch, view.slots_until_next_registration
    yield f"Hours until next epoch: {hours(ahead)}{'' if hours(ahead) else f' ({duration(ahead)})'}"
    yield f"Next registration opens in: {slots} slots ({duration(slots)})"


def _foresters(registrations: tuple[ForesterEpochAccount, ...]) -> Iterator[str]:
    if not registrations:
        yield "  none"
    for index, item in enumerate(registrations):
        finalized = "" if item.total_epoch_weight is not None else ", not finalised"
        yield f"  {index}: {item.authority} (weight {item.weight}{finalized})"


def protocol_config(state: NetworkState) -> Iterator[str]:
    """Yield the lines of the protocol configuration."""
    yield "Protocol config:"
    yield f"  authority: {state.protocol.authority}"
    for name, value in asdict(state.protocol.config).items():
        yield f"  {name}: {value}"


def queues(state: NetworkState, kinds: frozenset[str]) -> Iterator[str]:
    """Yield the lines of every tree with a queue of one of ``kinds``, which are labels of the metrics."""
    for item in state.trees:
        if kinds & set(item.pending):
            yield from _block(item, kinds)
            yield ""


def _block(item: TreeState, kinds: frozenset[str]) -> Iterator[str]:
    yield f"{item.kind.label} {item.tree.address}{' (rolled over)' if item.tree.metadata.is_rolled_over else ''}"
    if item.batched is None:
        yield f"  next_index: {item.head.next_index}"
        yield f"  total_unprocessed_items: {item.pending_cells}"
        yield f"  queue_capacity: {item.cells}"
        return
    for label, queue in item.queues.items():
        if label not in kinds:
            continue
        pending = queue.pending_elements
        if label == "AddressV2":
            yield from _counters("  ", queue, completed=None)
            yield f"  Total pending ADDRESS operations: {pending}"
            continue
        completed = max(0, queue.next_index - pending)
        yield f"  {label.rpartition('.')[2].upper()}"
        yield from _counters("    ", queue, completed=completed)
        yield f"    SUMMARY: {queue.next_index} items added, {completed} items processed, {pending} items pending"


def _counters(indent: str, queue: QueueBatches, completed: int | None) -> Iterator[str]:
    yield f"{indent}next_index: {queue.next_index}"
    if completed is not None:
        yield f"{indent}total_completed_operations: {completed}"
    yield f"{indent}total_unprocessed_items: {queue.pending_elements}"
    yield f"{indent}pending_batch_index: {queue.pending_batch_index}"
    yield f"{indent}zkp_batch_size: {queue.zkp_batch_size}"
    yield f"{indent}queue_capacity: {queue.batch_size * len(queue.batches)}"
    for index, batch in enumerate(queue.batches):
        yield (
            f"{indent}batch {index}: {batch.state.name.lower()}, {batch.inserted_zkp_batches} of "
            f"{batch.full_zkp_batches} full zkp batches inserted ({batch.zkp_batches} in all), "
            f"{batch.open_elements} items in the open one"
        )


def trees(state: NetworkState, *, full: bool = False) -> Iterator[str]:
    """Yield a line for each tree, then the current light slot and the owner of each tree in it."""
    yield "Trees:"
    for item in state.trees:
        metadata = item.tree.metadata
        yield (
            f"  {item.kind.label} {item.tree.address}: {item.fullness_percentage:.4f} % full, next index "
            f"{item.head.next_index}, threshold {item.threshold}{', rolled over' if metadata.is_rolled_over else ''}"
        )
        if full and not metadata.is_rolled_over:
            yield from _schedule(state, item)
    yield from _light_slot(state)


def _schedule(state: NetworkState, item: TreeState) -> Iterator[str]:
    view = state.epochs
    owners = state.schedule(item.tree)
    unowned = sum(owner is None for owner in owners)
    yield f"    light slots without owner: {unowned} of {len(owners)}"
    if view.light_slot is not None:
        coming = owners[view.light_slot : view.light_slot + UPCOMING_LIGHT_SLOTS + 1]
        words = " ".join("-" if owner is None else str(owner) for owner in coming)
        yield f"    owners from light slot {view.light_slot} on: {words}"


def _light_slot(state: NetworkState) -> Iterator[str]:
    view = state.epochs
    light_slot = view.light_slot
    if light_slot is None:
        yield "Current light slot: none before the first active phase"
        return
    length = view.times.slot_length
    first = view.phases.active.first + light_slot * length
    last = min(first + length - 1, view.phases.active.last)
    left = (last + 1 - state.slot) * SLOT_SECONDS
    yield f"Current light slot: {light_slot} (slots {first} to {last}, {left:.1f} s left)"
    for item in state.trees:
        if not item.tree.metadata.is_rolled_over:
            name = state.owner(item.tree) or f"UNASSIGNED (light slot {light_slot})"
            yield f"  {item.kind.label:9} {item.tree.address!s:44} {name}"
