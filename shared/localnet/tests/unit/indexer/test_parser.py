"""Parsing of recorded transactions and events, and of mangled ones."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indexer_vectors import Recorded, indexer_vectors, recorded_group, recorded_transaction

from localnet.base58 import decode, encode
from localnet.borsh import MalformedData
from localnet.indexer import programs
from localnet.indexer.decoding.events import BatchEvent, IndexedEvent, PublicEvent, decode_tree_event
from localnet.indexer.decoding.hashing import CompressedAccount
from localnet.indexer.decoding.parser import UnknownShape, parse_transaction
from localnet.indexer.decoding.source import Instruction, Transaction
from shared.trees.indexed_merkle_tree import Element

USER_CASES: list[Recorded] = indexer_vectors("events_v2")["cases"]
TREE_EVENTS: list[Recorded] = indexer_vectors("events_noop")["treeEvents"]
LEGACY: Recorded = indexer_vectors("events_noop")["publicEventsV1"][0]


def account_as_recorded(account: CompressedAccount | None) -> Recorded:
    assert account is not None
    data = account.data
    return {
        "owner": encode(account.owner),
        "lamports": account.lamports,
        "address": None if account.address is None else encode(account.address),
        "data": None
        if data is None
        else {
            "discriminatorHex": data.discriminator.hex(),
            "dataBase64": b64encode(data.data).decode(),
            "dataHash": encode(data.data_hash),
        },
    }


def event_as_recorded(event: PublicEvent) -> Recorded:
    return {
        "inputHashes": [encode(spent.hash) for spent in event.inputs],
        "txHash": encode(event.tx_hash),
        "outputs": [
            {
                "hash": encode(output.hash),
                "leafIndex": output.leaf_index,
                "tree": encode(output.place.tree),
                "queue": encode(output.place.queue),
                "treeType": output.place.tree_type,
                "account": account_as_recorded(output.account),
            }
            for output in event.outputs
        ],
        "batchInputs": [
            {
                "tree": encode(spent.place.tree),
                "accountHash": encode(spent.hash),
                "leafIndex": spent.leaf_index,
                "nullifierQueueIndex": spent.queue_index,
                "nullifier": encode(spent.nullifier or b""),
            }
            for spent in event.inputs
            if spent.place is not None
        ],
        "newAddresses": [
            {"address": encode(new.address), "tree": encode(new.tree), "queueIndex": new.queue_index}
            for new in event.addresses
        ],
    }


@pytest.mark.parametrize("case", USER_CASES, ids=lambda case: case["name"].split(":")[0])
def test_parse__recorded_user_transaction__gives_the_recorded_events(case: Recorded) -> None:
    events = parse_transaction(recorded_transaction(case), case["slot"])
    made = [event_as_recorded(event) for event in events if isinstance(event, PublicEvent)]
    # Output sequences are summed up in the outputs.
    assert made == [{k: v for k, v in event.items() if k != "outputSequences"} for event in case["events"]]
    assert len(made) == len(events)


def test_parse__failed_transaction__gives_nothing() -> None:
    transaction = replace(recorded_transaction(USER_CASES[0]), error="custom program error: 0x1771")
    assert parse_transaction(transaction, USER_CASES[0]["slot"]) == []


def test_parse__another_slot__refuses_the_transaction_hash() -> None:
    with pytest.raises(UnknownShape, match="transaction hash"):
        parse_transaction(recorded_transaction(USER_CASES[0]), USER_CASES[0]["slot"] + 1)


def test_parse__lamports_changed__refuses_the_account_hash() -> None:
    group = list(recorded_group(USER_CASES[0]))
    lamports = (2_000_000).to_bytes(8, "little")
    assert group[0].data.count(lamports) == 2  # of the input and of the output
    head, _, tail = group[0].data.rpartition(lamports)
    group[0] = replace(group[0], data=head + (2_000_001).to_bytes(8, "little") + tail)
    with pytest.raises(UnknownShape, match="account hashes to"):
        parse_transaction(Transaction(bytes(64), (tuple(group),)), USER_CASES[0]["slot"])


def tree_event_as_recorded(event: Any) -> Recorded:
    if isinstance(event, BatchEvent):
        return {
            "tree": encode(event.tree),
            "batchIndex": event.batch_index,
            "zkpBatchIndex": event.zkp_batch_index,
            "zkpBatchSize": event.zkp_batch_size,
            "oldNextIndex": event.old_next_index,
            "newNextIndex": event.new_next_index,
            "newRoot": encode(event.new_root),
            "rootIndex": event.root_index,
            "sequenceNumber": event.sequence,
            "outputQueue": encode(event.output_queue) if event.output_queue else None,
        }
    if isinstance(event, IndexedEvent):

        def element(one: Element) -> Recorded:
            return {
                "index": one.index,
                "value": encode(one.value),
                "next_index": one.next_index,
                "next_value": encode(one.next_value),
            }

        updates = [
            {
                "low": element(one.low),
                "low_hash": encode(one.leaves[0]),
                "new": element(one.new),
                "new_hash": encode(one.leaves[1]),
            }
            for one in event.updates
        ]
        return {"tree": encode(event.tree), "updates": updates, "sequenceNumber": event.sequence}
    return {
        "tree": encode(event.tree),
        "nullifiedLeafIndices": list(event.leaf_indices),
        "sequenceNumber": event.sequence,
    }


@pytest.mark.parametrize("case", TREE_EVENTS, ids=lambda case: case["name"])
def test_parse__recorded_tree_event__is_decoded(case: Recorded) -> None:
    group = (
        Instruction(programs.ACCOUNT_COMPRESSION, (), b"instruction", depth=2),
        Instruction(programs.NOOP, (), bytes.fromhex(case["dataHex"]), depth=3),
    )
    (event,) = parse_transaction(Transaction(bytes(64), (group,)), case["slot"])
    assert tree_event_as_recorded(event) == case["decoded"]


def test_parse__report_not_called_by_account_compression__is_ignored() -> None:
    group = (
        Instruction(programs.ACCOUNT_COMPRESSION, (), b"instruction", depth=2),
        Instruction(programs.NOOP, (), bytes.fromhex(TREE_EVENTS[0]["dataHex"]), depth=2),
    )
    assert parse_transaction(Transaction(bytes(64), (group,)), 1) == []


def test_parse__legacy_public_event__gives_inputs_and_outputs() -> None:
    group = (
        Instruction(programs.ACCOUNT_COMPRESSION, (), b"instruction"),
        Instruction(programs.SOLANA_SYSTEM, (), bytes(12)),
        Instruction(programs.NOOP, (), bytes.fromhex(LEGACY["dataHex"])),
    )
    (event,) = parse_transaction(Transaction(bytes(64), (group,)), LEGACY["slot"])
    assert isinstance(event, PublicEvent)
    expected = LEGACY["decoded"]
    assert [encode(spent.hash) for spent in event.inputs] == expected["inputHashes"]
    (output,), (wanted,) = event.outputs, expected["outputs"]
    assert (encode(output.hash), output.leaf_index, output.sequence) == (
        wanted["hash"],
        wanted["leafIndex"],
        wanted["leafSeq"],
    )
    assert account_as_recorded(output.account) == wanted["account"]


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_parse__mangled_instructions__are_refused_or_read(data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(USER_CASES))
    group = list(recorded_group(case))
    place = data.draw(st.integers(0, len(group) - 1))
    content = bytearray(group[place].data)
    for at, value in data.draw(st.lists(st.tuples(st.integers(0, len(content) - 1), st.integers(0, 255)), max_size=4)):
        content[at] = value
    cut = data.draw(st.integers(0, len(content)))
    accounts = group[place].accounts[: data.draw(st.integers(0, len(group[place].accounts)))]
    group[place] = replace(group[place], data=bytes(content[:cut]), accounts=accounts)
    try:
        events = parse_transaction(Transaction(bytes(64), (tuple(group),)), case["slot"])
    except UnknownShape:
        return
    assert all(isinstance(event, PublicEvent) for event in events)


@given(st.binary(max_size=400) | st.sampled_from([bytes.fromhex(case["dataHex"]) for case in TREE_EVENTS]), st.data())
@settings(max_examples=150, deadline=None)
def test_decode_tree_event__any_bytes__are_refused_or_read(payload: bytes, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(payload)))
    try:
        event = decode_tree_event(payload[:cut])
    except MalformedData:
        return
    assert len(event.tree) == 32


@given(st.binary(max_size=80))
def test_base58__any_bytes__come_back(content: bytes) -> None:
    assert decode(encode(content), len(content)) == content


@pytest.mark.parametrize("text", ["0", "O", "I", "l", "é", "1" * 31, "z" * 44, "1" * 100])
def test_base58_decode__not_a_hash__is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"base58|digit|many"):
        decode(text, 32)
