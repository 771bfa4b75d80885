"""States of a made-up network: three foresters, a V1 state tree, a V2 state tree and a V2 address tree."""

from __future__ import annotations

from dataclasses import replace

from solders.pubkey import Pubkey

from forester.chain.batched_accounts import Batch, BatchedTree, BatchState, OutputQueue, QueueBatches
from forester.chain.concurrent_accounts import ConcurrentTree
from forester.chain.registry_accounts import ForesterEpochAccount, ProtocolConfig, ProtocolConfigAccount
from forester.chain.tree_metadata import Metadata, TreeKind, TreeMetadata
from forester.network_status.state import NetworkState, TreeState

CONFIG = ProtocolConfig(
    genesis_slot=0,
    min_weight=1,
    slot_length=10,
    registration_phase_length=100,
    active_phase_length=200,
    report_work_phase_length=100,
    network_fee=5000,
    cpi_context_size=20_488,
    finalize_counter_limit=100,
    address_network_fee=10_000,
)
"""Of the fixtures: epoch e is active from slot 100 + 200 e on."""


def key(number: int) -> Pubkey:
    return Pubkey(number.to_bytes(32, "big"))


FORESTERS = (key(1), key(2), key(3))
STATE_V1, STATE_V2, ADDRESS_V2 = key(11), key(12), key(13)


def registration(epoch: int, index: int, *, weight: int = 1, total: int | None = 3) -> ForesterEpochAccount:
    return ForesterEpochAccount(
        authority=FORESTERS[index],
        fee=0,
        epoch=epoch,
        weight=weight,
        work_counter=0,
        has_reported_work=False,
        forester_index=index,
        active_phase_start=100 + 200 * epoch,
        total_epoch_weight=total,
        config=CONFIG,
        finalize_counter=0,
    )


def queue(full: int, inserted: int = 0, open_elements: int = 0) -> QueueBatches:
    """Return a queue of batches of 50 elements, zkp batches of 10."""
    first = Batch(
        open_elements=open_elements,
        state=BatchState.FILL,
        full_zkp_batches=full,
        inserted_zkp_batches=inserted,
        bloom_iterations=3,
        bloom_capacity=160_000,
        batch_size=50,
        zkp_batch_size=10,
        sequence_number=0,
        start_index=0,
        start_slot=None,
        root_index=0,
        bloom_is_zeroed=False,
    )
    other = replace(first, full_zkp_batches=0, inserted_zkp_batches=0, open_elements=0)
    return QueueBatches(50, 10, 160_000, 0, 0, full * 10 + open_elements, (first, other))


def network(
    slot: int = 550,
    *,
    registered: dict[int, tuple[int, ...]] | None = None,
    balances: dict[Pubkey, int] | None = None,
    appends: QueueBatches | None = None,
    sequence_number: int = 7,
    pending_cells: int = 4,
) -> NetworkState:
    """Return the network at a slot; 550 is in the active phase of epoch 2, after its registration phase."""
    found = {2: (0, 1, 2)} if registered is None else registered
    return NetworkState(
        slot=slot,
        protocol=ProtocolConfigAccount(key(99), CONFIG),
        registrations={
            epoch: tuple(registration(epoch, index) for index in indexes) for epoch, indexes in found.items()
        },
        registered_weights={epoch: len(indexes) for epoch, indexes in found.items() if indexes},
        balances=dict.fromkeys(FORESTERS, 10**9) if balances is None else balances,
        trees=(
            TreeState(
                _tree(STATE_V1, TreeKind.STATE_V1, key(21)),
                concurrent=ConcurrentTree(TreeKind.STATE_V1, _metadata(key(21)), 26, 10, 30, 40, 1400, 0, 2400, 0),
                pending_cells=pending_cells,
                cells=28_807,
            ),
            TreeState(
                _tree(STATE_V2, TreeKind.STATE_V2, key(22)),
                batched=_batched(TreeKind.STATE_V2, sequence_number, queue(1, open_elements=5)),
                output_queue=OutputQueue(_metadata(STATE_V2), appends or queue(3, 1, 2), 2**32),
            ),
            TreeState(
                _tree(ADDRESS_V2, TreeKind.ADDRESS_V2, ADDRESS_V2),
                batched=_batched(TreeKind.ADDRESS_V2, 3, queue(0, open_elements=9)),
            ),
        ),
    )


def _metadata(associated: Pubkey) -> Metadata:
    return Metadata(
        owner=key(98),
        program_owner=key(0),
        forester=key(0),
        rollover_index=0,
        rollover_fee=1,
        rollover_threshold=95,
        network_fee=5000,
        rolledover_slot=None,
        close_threshold=2**64 - 1,
        additional_bytes=0,
        associated=associated,
        successor=key(0),
    )


def _tree(address: Pubkey, kind: TreeKind, associated: Pubkey) -> TreeMetadata:
    return TreeMetadata(address, kind, _metadata(associated))


def _batched(kind: TreeKind, sequence_number: int, into: QueueBatches) -> BatchedTree:
    return BatchedTree(
        kind=kind,
        metadata=_metadata(key(22)),
        sequence_number=sequence_number,
        next_index=10,
        height=32 if kind is TreeKind.STATE_V2 else 40,
        root_history_capacity=200,
        capacity=2**32,
        queue=into,
        nullifier_next_index=0,
        root_index=1,
    )
