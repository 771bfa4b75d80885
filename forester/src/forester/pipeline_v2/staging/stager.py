"""Stager of batches from the chain and the indexer; it spends no prover time on doubtful data."""

import asyncio
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from forester.chain.tree_metadata import TreeMetadata
from forester.indexer.client import IndexerClient
from forester.indexer.types import AddressQueue, Hash32
from forester.observability.metrics import Metrics
from forester.pipeline_v2.failures import SnapshotOutdated, StagingRefused
from forester.pipeline_v2.staging.head_reader import HeadReader
from forester.pipeline_v2.staging.snapshots import Snapshot, read_snapshot, staging_of
from forester.pipeline_v2.staging.staged_batches import Staging
from forester.pipeline_v2.staging.tree_head import TreeHead
from shared.process.logs import get_logger
from shared.requests.circuit_id import CircuitKind

_log = get_logger(__name__)

INDEXER_WAIT_S = 10.0
_LOOKS = 3
"""Maximum reads of head and snapshot until both have one root: another forester may move the tree in between."""


@dataclass(frozen=True)
class Staged:
    """The batches that may be proved now, and the tree that they begin with; no batches if the chain has none."""

    head: TreeHead
    staging: Staging | None


class Stager:
    """Stager of the batches of one tree."""

    def __init__(self, tree: TreeMetadata, heads: HeadReader, indexer: IndexerClient, metrics: Metrics) -> None:
        if not tree.kind.is_batched:
            raise ValueError(f"{tree.kind.label} trees are not batched")
        self._tree = tree
        self._key = Hash32(bytes(tree.address))
        self._heads = heads
        self._indexer = indexer
        self._metrics = metrics

    async def stage(self, max_batches: int, first: Callable[[TreeHead], Sequence[CircuitKind]]) -> Staged:
        """Prepare at most ``max_batches`` batches; ``first`` gives the kinds with which their order begins.

        Raises EndpointError, StagingRefused, AccountMissing and MalformedAccount.
        """
        began = time.monotonic()
        head, snapshot = await self._read(max_batches)
        if snapshot is None:
            return Staged(head, None)
        read_s = time.monotonic() - began
        staging = await asyncio.to_thread(staging_of, snapshot, head, max_batches, first(head))
        if staging is None:
            raise _without_batches(head)
        _log.info(
            "v2_snapshot_read",
            tree=str(self._tree.address),
            sequence=head.sequence,
            batches=staging.waiting,
            read_seconds=round(read_s, 3),
            stage_seconds=round(time.monotonic() - began - read_s, 3),
        )
        return Staged(head, staging)

    async def _read(self, max_batches: int) -> tuple[TreeHead, Snapshot | None]:
        """Read the chain, then the indexer, until both have the same root; no snapshot if the chain has no batch.

        The program refuses a proof from any other root. Nothing stays staged from one call to the next, so there is no
        third root to compare.
        """
        for look in itertools.count(1):
            head = await self._heads.head()
            if not head.provable:
                return head, None
            snapshot = await self._snapshot(head, max_batches)
            if snapshot is not None and snapshot.initial_root == head.root:
                return head, snapshot
            if look == _LOOKS:
                if snapshot is None:
                    raise _without_batches(head)
                raise SnapshotOutdated(
                    f"the indexer has the root 0x{snapshot.initial_root.hex()} at sequence number "
                    f"{snapshot.root_seq}, the chain 0x{head.root.hex()} at {head.sequence}"
                )
        raise AssertionError("unreachable: the loop returns or raises")

    async def _snapshot(self, head: TreeHead, max_batches: int) -> Snapshot | None:
        await self._indexer.wait_for_slot(await self._heads.slot(), INDEXER_WAIT_S)
        kind, wanted = self._tree.kind.label, min(head.provable, max_batches) * head.zkp_batch_size
        with self._metrics.indexer_seconds.labels("getQueueElements", kind).time():
            snapshot = await read_snapshot(self._indexer, self._tree.kind, self._key, head, max_batches)
        for metric, count in (("requested", wanted), ("received", _elements(snapshot))):
            self._metrics.indexer_proofs.labels(kind, str(self._tree.address), metric).inc(count)
        return snapshot


def _without_batches(head: TreeHead) -> StagingRefused:
    return StagingRefused(
        f"the indexer returns no complete batch, the chain has {head.provable} at sequence number {head.sequence}; "
        "compare the indexer with another one"
    )


def _elements(snapshot: Snapshot | None) -> int:
    if snapshot is None:
        return 0
    if isinstance(snapshot, AddressQueue):
        return len(snapshot.addresses)
    return sum(len(queue.leaf_indices) for queue in (snapshot.output_queue, snapshot.input_queue) if queue is not None)
