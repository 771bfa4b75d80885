"""Snapshots of the queues of state and address trees: reads from the indexer, and staging."""

from collections.abc import Sequence

from forester.chain.tree_metadata import TreeKind
from forester.indexer.client import IndexerClient
from forester.indexer.queue_pages import read_address_queue, read_state_queue
from forester.indexer.types import AddressQueue, Hash32, StateQueue
from forester.pipeline_v2.staging.staged_batches import Staging, stage_addresses, stage_state
from forester.pipeline_v2.staging.tree_head import TreeHead
from shared.requests.circuit_id import CircuitKind

Snapshot = StateQueue | AddressQueue


async def read_snapshot(
    indexer: IndexerClient, kind: TreeKind, tree: Hash32, head: TreeHead, max_batches: int
) -> Snapshot | None:
    """Read the elements of that many provable batches at most; None if the indexer has no complete batch.

    Of a state tree both queues are read in one snapshot, of an address tree its queue with the low elements.
    """
    appends, inputs = min(len(head.append_chains), max_batches), min(len(head.input_chains), max_batches)
    size = head.zkp_batch_size
    if kind is TreeKind.STATE_V2:
        return await read_state_queue(indexer, tree, appends=appends, nullifies=inputs, zkp_batch_size=size)
    queue = await read_address_queue(indexer, tree, batches=inputs, zkp_batch_size=size)
    return queue if len(queue.addresses) >= size else None


def staging_of(
    snapshot: Snapshot, head: TreeHead, max_batches: int, first: Sequence[CircuitKind] = ()
) -> Staging | None:
    """Prepare batches of a snapshot (blocks: hashing), those of a state tree in order of ``first`` while it lasts.

    Raises StagingRefused.
    """
    if isinstance(snapshot, StateQueue):
        return stage_state(snapshot, head, max_batches, first)
    return stage_addresses(snapshot, head, max_batches)
