"""Published accounts, written back by the offsets of forester/docs/reference/accounts.md: no byte changes."""

from __future__ import annotations

import struct

import pytest
from onchain_vectors import published_account, recorded

from forester.chain import batched_accounts, concurrent_accounts, registry_accounts
from forester.chain.batched_accounts import QueueBatches
from forester.chain.registry_accounts import ForesterEpochAccount, ProtocolConfig
from forester.chain.tree_metadata import Metadata

NEVER = 2**64 - 1
CONFIG_BYTES = 152
Written = dict[int, bytes]
"""Bytes by the offset at which they begin."""


def numbers(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def metadata(item: Metadata) -> bytes:
    keys = bytes(item.owner) + bytes(item.program_owner) + bytes(item.forester)
    rolled = NEVER if item.rolledover_slot is None else item.rolledover_slot
    rollover = (item.rollover_index, item.rollover_fee, item.rollover_threshold, item.network_fee, rolled)
    rest = numbers(*rollover, item.close_threshold, item.additional_bytes)
    return keys + rest + bytes(item.associated) + bytes(item.successor)


def queue(item: QueueBatches) -> bytes:
    header = numbers(2, item.batch_size, item.zkp_batch_size, item.bloom_capacity, item.filling_batch_index)
    header += numbers(item.pending_batch_index, item.next_index)
    for batch in item.batches:
        header += numbers(batch.open_elements, batch.state.value, batch.full_zkp_batches, batch.inserted_zkp_batches)
        header += numbers(batch.bloom_iterations, batch.bloom_capacity, batch.batch_size, batch.zkp_batch_size)
        header += numbers(batch.sequence_number, batch.start_index, batch.start_slot or 0)
        header += struct.pack("<IBB2x", batch.root_index, batch.start_slot is not None, batch.bloom_is_zeroed)
    return header


def config(item: ProtocolConfig) -> bytes:
    """Return the block without its placeholder key and its spare numbers, which nobody reads."""
    lengths = (item.slot_length, item.registration_phase_length, item.active_phase_length)
    first = numbers(item.genesis_slot, item.min_weight, *lengths, item.report_work_phase_length)
    return first + numbers(item.network_fee, item.cpi_context_size, item.finalize_counter_limit)


def batched_tree(data: bytes) -> Written:
    tree = batched_accounts.decode_batched_tree(data)
    counters = struct.pack("<QQII", tree.sequence_number, tree.next_index, tree.height, tree.root_history_capacity)
    root = (tree.root_index + 1) % tree.root_history_capacity
    return {
        0: b"BatchMta" + numbers(tree.kind.value) + metadata(tree.metadata),
        232: counters + numbers(tree.capacity) + queue(tree.queue),
        544: numbers(tree.nullifier_next_index),
        680: numbers(root),
        696: numbers(tree.root_history_capacity),
    }


def output_queue(data: bytes) -> Written:
    item = batched_accounts.decode_output_queue(data)
    return {8: metadata(item.metadata), 224: numbers(5), 232: queue(item.queue) + numbers(item.tree_capacity)}


def concurrent_tree(data: bytes) -> Written:
    tree = concurrent_accounts.decode_tree(data)
    return {
        8: metadata(tree.metadata),
        224: numbers(tree.height, tree.canopy_depth, tree.next_index, tree.sequence_number),
        304: numbers(tree.changelog_capacity),
        328: numbers(tree.changelog_index),
        336: numbers(tree.root_history_capacity),
        360: numbers(tree.root_index),
    }


def hash_set(data: bytes) -> Written:
    item = concurrent_accounts.decode_queue(data)
    return {8: metadata(item.metadata), 232: numbers(item.capacity, item.sequence_threshold)}


def forester(data: bytes) -> Written:
    item = registry_accounts.decode_forester(data)
    weights = numbers(item.fee, item.active_weight, item.pending_weight, item.current_epoch)
    return {8: bytes(item.authority) + weights, 104: numbers(item.last_registered_epoch)}


def epoch(data: bytes) -> Written:
    item = registry_accounts.decode_epoch(data)
    return {8: numbers(item.epoch) + config(item.config), 168: numbers(item.total_work, item.registered_weight)}


def registration(item: ForesterEpochAccount) -> Written:
    first = bytes(item.authority) + numbers(item.fee, item.epoch, item.weight, item.work_counter)
    first += struct.pack("<B", item.has_reported_work) + numbers(item.forester_index, item.active_phase_start)
    total = b"\0" if item.total_epoch_weight is None else b"\1" + numbers(item.total_epoch_weight)
    begin = 89 + len(total)
    return {8: first + total + config(item.config), begin + CONFIG_BYTES: numbers(item.finalize_counter)}


def registered_program(data: bytes) -> Written:
    item = registry_accounts.decode_registered_program(data)
    return {8: bytes(item.program) + bytes(item.group) + bytes(item.signer)}


def protocol(data: bytes) -> Written:
    item = registry_accounts.decode_protocol_config(data)
    return {8: bytes(item.authority), 41: config(item.config)}


KINDS = {
    "V2 state tree": batched_tree,
    "V2 address tree": batched_tree,
    "V2 output queue": output_queue,
    "V1 state tree": concurrent_tree,
    "V1 address tree": concurrent_tree,
    "V1 nullifier queue": hash_set,
    "V1 address queue": hash_set,
    "registry protocol config": protocol,
    "epoch 0": epoch,
    "registered forester": forester,
    "forester epoch 0 (finalized)": lambda data: registration(registry_accounts.decode_forester_epoch(data)),
    "registered program": registered_program,
}
PUBLISHED = [item for item in recorded("fixtures_0.28.3") if item["kind"] in KINDS]


@pytest.mark.parametrize("item", PUBLISHED, ids=lambda item: f"{item['kind']} {item['pubkey'][:6]}")
def test_published_account__decoded_and_written_back__is_as_it_was(item: dict[str, str]) -> None:
    data = published_account(item["file"])
    written = KINDS[item["kind"]](data)
    assert {at: data[at : at + len(part)].hex() for at, part in written.items()} == {
        at: part.hex() for at, part in written.items()
    }


def test_table__of_layouts__covers_every_kind_that_was_published() -> None:
    assert {item["kind"] for item in PUBLISHED} == KINDS.keys()


@pytest.mark.parametrize("when", ["register_forester_epoch", "finalize_registration"])
def test_recorded_registration__before_and_after_it_is_finalised__is_written_back_as_it_was(when: str) -> None:
    entry = recorded("registry_epoch_txs")[when]["forester_epoch_pda"]
    data = bytes.fromhex(entry["data"] if isinstance(entry, dict) else entry)
    item = registry_accounts.decode_forester_epoch(data)
    assert (item.total_epoch_weight is None) is (when == "register_forester_epoch")
    for at, part in registration(item).items():
        assert data[at : at + len(part)] == part, at
