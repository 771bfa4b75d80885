"""Decoders against recorded and published accounts, and against damaged ones."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onchain_vectors import published_account, recorded
from solders.pubkey import Pubkey

from forester.chain import batched_accounts, concurrent_accounts, registry_accounts
from forester.chain.program_errors import error_name, innermost_failure, transaction_refused
from forester.chain.programs.addresses import ACCOUNT_COMPRESSION, REGISTRY
from forester.chain.tree_metadata import METADATA_BYTES, TreeKind, decode_tree_metadata
from forester.errors import AlreadyProcessed, InsufficientFunds, MalformedAccount, TransactionRefused

STATE_TREE = "batch_state_merkle_tree_bmt1LryLZUMmF7ZtqESaw7wifBXLfXHQYoE4GAmrahU.json"
EMPTY_STATE_ROOT = recorded("batch_append_tx")["old_root"]
EMPTY_ADDRESS_ROOT = recorded("batch_update_address_tree_tx")["old_root"]


def published(pubkey: str) -> bytes:
    (entry,) = [item for item in recorded("fixtures_0.28.3") if item["pubkey"] == pubkey and not item["stale"]]
    data = published_account(entry["file"])
    assert len(data) == entry["size"]
    return data


def addresses_of(kind: str) -> list[str]:
    return [item["pubkey"] for item in recorded("fixtures_0.28.3") if item["kind"] == kind and not item["stale"]]


def test_registry_accounts__recorded__are_decoded_field_by_field() -> None:
    entry = recorded("registry_epoch_txs")["finalize_registration"]["forester_epoch_pda"]
    decoded = registry_accounts.decode_forester_epoch(bytes.fromhex(entry["data"]))
    expected = entry["decoded"]
    assert str(decoded.authority) == expected["authority"]
    assert decoded.active_phase_start == expected["epoch_active_phase_start_slot"]
    assert decoded.has_reported_work is bool(expected["has_reported_work"])
    for name in ("fee", "epoch", "weight", "work_counter", "forester_index", "total_epoch_weight", "finalize_counter"):
        assert getattr(decoded, name) == expected[name]
    for name in registry_accounts.ProtocolConfig.__dataclass_fields__:
        assert getattr(decoded.config, name) == expected["config"][name]


def test_forester_epoch__not_finalised__has_no_total_weight() -> None:
    entry = recorded("registry_epoch_txs")["register_forester_epoch"]["forester_epoch_pda"]
    data = bytes.fromhex(entry["data"] if isinstance(entry, dict) else entry)
    decoded = registry_accounts.decode_forester_epoch(data)
    assert decoded.total_epoch_weight is None
    assert decoded.config.active_phase_length == 200


def test_published_registry_accounts__decoded__have_the_documented_values() -> None:
    config = registry_accounts.decode_protocol_config(published("CuEtcKkkbTn6qy2qxqDswq5U2ADsqoipYDAYfRvxPjcp"))
    assert config.config.slot_length == 10
    assert config.config.cpi_context_size == 20488
    forester = registry_accounts.decode_forester(published("2KNqEh23Se8AHecuzR1UkxL26euq2qXSpQPTH1jH7VqU"))
    assert forester.active_weight == 1
    epoch = registry_accounts.decode_epoch(published("34w7KcLBXabMkHuXE2fY368vFe6kP3v5EJn8nPvQ8SKn"))
    assert (epoch.epoch, epoch.registered_weight) == (0, 1)
    registration = registry_accounts.decode_forester_epoch(published("3FBt1BPQHCQkS8k3wrUXMfB6JBhtMhEqQXueHRw2ojZV"))
    assert (registration.total_epoch_weight, registration.active_phase_start) == (1, 100)
    program = registry_accounts.decode_registered_program(published("DumMsyvkaGJG4QnQ1BhTgvoRMXsgGxfpKDUCr22Xqu4w"))
    assert program.program == REGISTRY
    assert str(program.group) == recorded("pdas")["group_authority"]


@pytest.mark.parametrize(
    ("address", "kind", "height", "fee", "root"),
    [
        ("bmt1LryLZUMmF7ZtqESaw7wifBXLfXHQYoE4GAmrahU", TreeKind.STATE_V2, 32, 5000, EMPTY_STATE_ROOT),
        ("amt2kaJA14v3urZbZvnc5v2np8jqvc4Z8zDep5wbtzx", TreeKind.ADDRESS_V2, 40, 10000, EMPTY_ADDRESS_ROOT),
    ],
)
def test_batched_tree__published_and_empty__has_its_first_root(
    address: str, kind: TreeKind, height: int, fee: int, root: str
) -> None:
    data = published(address)
    tree = batched_accounts.decode_batched_tree(data[: batched_accounts.TREE_HEAD_BYTES])
    assert (tree.kind, tree.height, tree.metadata.network_fee) == (kind, height, fee)
    assert (tree.queue.batch_size, tree.queue.zkp_batch_size, tree.root_history_capacity) == (50, 10, 200)
    assert batched_accounts.latest_root(tree, data).hex() == root
    assert batched_accounts.tree_hash_chains(tree, data) == ((), ())
    assert not tree.metadata.is_rolled_over
    found = decode_tree_metadata(Pubkey.from_string(address), data[:METADATA_BYTES])
    assert (found.kind, found.metadata) == (kind, tree.metadata)
    assert found.eligibility_key == found.address


def test_output_queue__published_and_empty__belongs_to_its_tree() -> None:
    data = published("oq1na8gojfdUhsfCpyjNt6h4JaDWtHf1yQj4koBWfto")
    queue = batched_accounts.decode_output_queue(data)
    assert str(queue.metadata.associated) == "bmt1LryLZUMmF7ZtqESaw7wifBXLfXHQYoE4GAmrahU"
    assert queue.queue.pending_elements == 0
    assert batched_accounts.queue_hash_chains(queue, data) == ((), ())


@pytest.mark.parametrize(
    ("tree", "queue", "kind", "next_index"),
    [
        ("smt1NamzXdq4AMqS2fS2F1i5KTYPZRhoHgWx38d8WsT", "nfq1NvQDJ2GEgnS8zt9prAe8rjjpAW1zFkrvZoBR148", "STATE_V1", 0),
        ("amt1Ayt45jfbdw5YSo7iz6WZxUmnZsQTYXy82hVwyC2", "aq1S9z4reTSQAdgWHGD2zDaS39sjGrAxbR31vxJ2F4F", "ADDRESS_V1", 2),
    ],
)
def test_v1_accounts__published__have_counters_root_and_no_pending_cell(
    tree: str, queue: str, kind: str, next_index: int
) -> None:
    data = published(tree)
    decoded = concurrent_accounts.decode_tree(data)
    assert decoded.kind is TreeKind[kind]
    assert (decoded.height, decoded.canopy_depth, decoded.next_index) == (26, 10, next_index)
    assert concurrent_accounts.root_offset(decoded) == 1_222_016 + 32 * decoded.root_index
    assert any(concurrent_accounts.latest_root(decoded, data))
    assert str(decode_tree_metadata(Pubkey.from_string(tree), data[:METADATA_BYTES]).eligibility_key) == queue
    cells = published(queue)
    assert concurrent_accounts.decode_queue(cells).capacity == 28_807
    assert list(concurrent_accounts.pending_cells(cells)) == []
    waiting = bytearray(cells)
    waiting[256 + 48 * 7 : 256 + 48 * 8] = bytes(16) + bytes(range(32))
    assert list(concurrent_accounts.pending_cells(bytes(waiting))) == [
        concurrent_accounts.QueueCell(7, bytes(range(32)))
    ]
    assert list(concurrent_accounts.pending_cells(bytes(waiting), start=8)) == []


def test_every_published_tree__as_discovery_slices_it__is_recognised() -> None:
    found = {}
    for item in recorded("fixtures_0.28.3"):
        if "tree" in item["kind"] and not item["stale"]:
            data = published_account(item["file"])[:METADATA_BYTES]
            found[item["pubkey"]] = decode_tree_metadata(Pubkey.from_string(item["pubkey"]), data).kind.label
    assert sorted(found.values()) == ["AddressV1", *["AddressV2"] * 2, *["StateV1"] * 2, *["StateV2"] * 5]


DECODERS = {
    "tree": batched_accounts.decode_batched_tree,
    "queue": batched_accounts.decode_output_queue,
    "v1_tree": concurrent_accounts.decode_tree,
    "v1_queue": concurrent_accounts.decode_queue,
    "config": registry_accounts.decode_protocol_config,
    "forester_epoch": registry_accounts.decode_forester_epoch,
    "program": registry_accounts.decode_registered_program,
}
DISCRIMINATORS = {
    "tree": "BatchedMerkleTreeAccount",
    "queue": "BatchedQueueAccount",
    "v1_tree": "StateMerkleTreeAccount",
    "v1_queue": "QueueAccount",
    "config": "ProtocolConfigPda",
    "forester_epoch": "ForesterEpochPda",
    "program": "RegisteredProgram",
}


@pytest.mark.parametrize("name", DECODERS)
@settings(max_examples=60, deadline=None)
@given(body=st.binary(max_size=800))
def test_decoders__arbitrary_bytes__answer_or_raise_malformed_account(name: str, body: bytes) -> None:
    discriminator = bytes.fromhex(recorded("discriminators")["accounts"][DISCRIMINATORS[name]])
    for data in (body, discriminator + body):
        with contextlib.suppress(MalformedAccount):
            DECODERS[name](data)


def test_hash_chains__account_cut_short__are_refused() -> None:
    data = published("bmt1LryLZUMmF7ZtqESaw7wifBXLfXHQYoE4GAmrahU")
    tree = batched_accounts.decode_batched_tree(data)
    with pytest.raises(MalformedAccount, match="end before"):
        batched_accounts.tree_hash_chains(tree, data[:40_000])
    with pytest.raises(MalformedAccount, match="end before"):
        batched_accounts.latest_root(tree, data[:704])


def test_error_names__in_our_tables__are_those_of_the_programs() -> None:
    published_codes = recorded("error_codes")
    shared_codes = {
        int(code): name
        for group, codes in published_codes.items()
        if isinstance(codes, dict) and group not in ("registry", "account_compression", "light_system")
        for code, name in codes.items()
        if code.isdigit()
    }
    for code in range(6000, 15000):
        ours = error_name(str(REGISTRY), code)
        if ours is not None:
            assert ours == published_codes["registry"].get(str(code), shared_codes.get(code)), code
    for text, name in published_codes["registry"].items():
        assert error_name(str(REGISTRY), int(text)) == name, "a refusal of the registry is always named"
    assert error_name(str(ACCOUNT_COMPRESSION), 6015) == published_codes["account_compression"]["6015"]
    assert error_name(str(ACCOUNT_COMPRESSION), 6004) is None


def test_refused_transaction__program_inside_program__names_the_inner_one() -> None:
    logs = [
        f"Program {REGISTRY} invoke [1]",
        f"Program {ACCOUNT_COMPRESSION} invoke [2]",
        f"Program {ACCOUNT_COMPRESSION} failed: custom program error: 0x32ce",
        f"Program {REGISTRY} failed: custom program error: 0x32ce",
    ]
    assert innermost_failure(logs) == (str(ACCOUNT_COMPRESSION), 13006)
    refused = transaction_refused({"InstructionError": [1, {"Custom": 13006}]}, logs)
    assert (refused.code, refused.instruction, refused.program) == (13006, 1, str(ACCOUNT_COMPRESSION))
    assert refused.detail == "account-compression refused instruction 1: error 13006 (ProofVerificationFailed)"


@pytest.mark.parametrize(
    ("error", "logs"),
    [
        ("InsufficientFundsForFee", []),
        ("AccountNotFound", []),
        ({"InsufficientFundsForRent": {"account_index": 0}}, []),
        ({"InstructionError": [0, {"Custom": 1}]}, ["Transfer: insufficient lamports 5, need 10"]),
    ],
)
def test_refused_transaction__no_money__is_insufficient_funds(error: object, logs: list[str]) -> None:
    refused = transaction_refused(error, logs)
    assert isinstance(refused, InsufficientFunds)
    assert refused.detail.startswith("insufficient funds")


@pytest.mark.parametrize("reported", [{"account_index": 3}, {"account_index": 255}, {}, None, [0]])
def test_refused_transaction__rent_of_an_account_that_is_not_the_payers__is_no_lack_of_funds(reported: object) -> None:
    refused = transaction_refused({"InsufficientFundsForRent": reported})
    assert type(refused) is TransactionRefused
    assert (refused.code, refused.program, refused.instruction) == (None, None, None)
    assert "would keep too little for its rent" in refused.detail
    if reported == {"account_index": 3}:
        assert "account 3, not the payer's," in refused.detail


def test_refused_transaction__processed_before__is_distinguished() -> None:
    assert type(transaction_refused("AlreadyProcessed")) is AlreadyProcessed


def nested(depth: int) -> list[object]:
    found: list[object] = []
    for _ in range(depth):
        found = [found]
    return found


@pytest.mark.parametrize(
    "error",
    [
        *(None, 5, "BlockhashNotFound", {}, []),
        {"InstructionError": [0, "InvalidArgument"]},
        {"InstructionError": [0, {"BorshIoError": "Unknown"}]},
        {"InstructionError": [0, nested(100_000)]},
        {"InstructionError": [0, {"Custom": 10**5000}]},
        {"InstructionError": [10**5000, "InvalidArgument"]},
        {"InsufficientFundsForRent": {"account_index": 10**5000}},
    ],
    ids=range(11),
)
def test_refused_transaction__any_shape_of_error__gives_a_sentence(error: object) -> None:
    assert transaction_refused(error, ["nonsense"]).detail
    assert json.dumps(transaction_refused(error).detail)


def test_refused_transaction__without_a_code__names_the_kind() -> None:
    refused = transaction_refused({"InstructionError": [0, {"BorshIoError": "Unknown"}]})
    assert refused.detail == "a program refused instruction 0: BorshIoError"
