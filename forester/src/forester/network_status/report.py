"""The status as an object, in the shape of the reference's monitoring API; no I/O.

Source: forester/docs/reference/behaviour.md, "Status object".
"""

from typing import Any

from solders.pubkey import Pubkey

from forester.chain.batched_accounts import QueueBatches
from forester.chain.tree_metadata import TreeKind
from forester.network_status.epochs import hours
from forester.network_status.state import NetworkState, TreeState
from forester.units import sol


def status_object(state: NetworkState) -> dict[str, Any]:
    """Return the status with the names and units of the reference."""
    view = state.epochs
    length = view.times.active_phase_length
    light_slot = view.light_slot
    into_light_slot = view.active_progress % view.times.slot_length
    trees = [_tree(state, item) for item in state.trees]
    totals = _totals(state)
    return {
        "slot": state.slot,
        "current_active_epoch": view.active or 0,
        "current_registration_epoch": view.registering,
        "active_epoch_progress": view.active_progress,
        "active_phase_length": length,
        "active_epoch_progress_percentage": view.active_progress / length * 100,
        "hours_until_next_epoch": hours(view.slots_until_next_epoch),
        "registration_is_open": view.registration_is_open,
        "slots_until_next_registration": view.slots_until_next_registration,
        "hours_until_next_registration": hours(view.slots_until_next_registration),
        "active_epoch_foresters": _foresters(state, view.active),
        "registration_epoch_foresters": _foresters(state, view.registering),
        "trees": trees,
        "current_light_slot": light_slot,
        "light_slot_length": view.times.slot_length,
        "slots_until_next_light_slot": None if light_slot is None else view.times.slot_length - into_light_slot,
        "total_light_slots": view.light_slots,
        "total_trees": len(trees),
        "active_trees": sum(not item["is_rolledover"] for item in trees),
        "rolled_over_trees": sum(item["is_rolledover"] for item in trees),
        "total_pending_batches": sum(queue.ready_zkp_batches for item in state.trees for queue in item.queues.values()),
        "total_pending_items": sum(count for item in state.trees for count in item.pending.values()),
        "aggregate_queue_stats": totals,
    }


def _foresters(state: NetworkState, epoch: int | None) -> list[dict[str, Any]]:
    if epoch is None:
        return []
    return [
        {"authority": str(item.authority), "balance_sol": _balance(state, item.authority)}
        for item in state.registrations.get(epoch, ())
    ]


def _balance(state: NetworkState, authority: Pubkey) -> float | None:
    return sol(state.balances[authority]) if authority in state.balances else None


def _totals(state: NetworkState) -> dict[str, int]:
    pending = {"StateV1": 0, "AddressV1": 0, "StateV2.Append": 0, "StateV2.Nullify": 0, "AddressV2": 0}
    batches = dict.fromkeys(pending, 0)
    for item in state.trees:
        for label, count in item.pending.items():
            pending[label] += count
        for label, queue in item.queues.items():
            batches[label] += queue.ready_zkp_batches
    return {
        "state_v1_total_pending": pending["StateV1"],
        "address_v1_total_pending": pending["AddressV1"],
        "state_v2_input_pending": pending["StateV2.Nullify"],
        "state_v2_output_pending": pending["StateV2.Append"],
        "address_v2_input_pending": pending["AddressV2"],
        "state_v2_input_pending_batches": batches["StateV2.Nullify"],
        "state_v2_output_pending_batches": batches["StateV2.Append"],
        "address_v2_input_pending_batches": batches["AddressV2"],
    }


def _tree(state: NetworkState, item: TreeState) -> dict[str, Any]:
    return {
        "tree_type": item.kind.label,
        "merkle_tree": str(item.tree.address),
        "queue": str(item.tree.queue),
        "fullness_percentage": item.fullness_percentage,
        "next_index": item.head.next_index,
        "capacity": item.capacity,
        "height": item.head.height,
        "threshold": item.threshold,
        "is_rolledover": item.tree.metadata.is_rolled_over,
        "queue_length": None if item.batched else item.pending_cells,
        "queue_capacity": None if item.batched else item.cells,
        "v2_queue_info": _batched(item) if item.batched else None,
        "assigned_forester": state.owner(item.tree),
        "schedule": list(state.schedule(item.tree)),
        "owner": str(item.tree.metadata.owner),
    }


def _batched(item: TreeState) -> dict[str, Any]:
    """Return the counters of both queues of a V2 tree; the batches are the output queue's, if there is one."""
    assert item.batched is not None  # noqa: S101 - called for V2 trees only
    into = item.batched.queue
    out = item.output_queue.queue if item.output_queue is not None else None
    shown = out if item.kind is TreeKind.STATE_V2 and out is not None else into
    return {
        "next_index": shown.next_index,
        "pending_batch_index": shown.pending_batch_index,
        "batch_size": shown.batch_size,
        "zkp_batch_size": shown.zkp_batch_size,
        "batches": _batches(shown),
        "input_pending_batches": into.ready_zkp_batches,
        "output_pending_batches": 0 if out is None else out.ready_zkp_batches,
        "input_total_zkp_batches": _total_zkp_batches(into),
        "output_total_zkp_batches": 0 if out is None else _total_zkp_batches(out),
        "input_items_in_current_zkp_batch": _open_elements(into),
        "output_items_in_current_zkp_batch": 0 if out is None else _open_elements(out),
    }


def _batches(queue: QueueBatches) -> list[dict[str, int]]:
    return [
        {
            "batch_index": index,
            "batch_state": batch.state.value,
            "num_inserted": batch.inserted_zkp_batches,
            "current_index": batch.full_zkp_batches,
            "pending": batch.ready_zkp_batches,
            "items_in_current_zkp_batch": batch.open_elements,
        }
        for index, batch in enumerate(queue.batches)
    ]


def _total_zkp_batches(queue: QueueBatches) -> int:
    return sum(batch.zkp_batches for batch in queue.batches)


def _open_elements(queue: QueueBatches) -> int:
    return queue.batches[queue.filling_batch_index].open_elements
