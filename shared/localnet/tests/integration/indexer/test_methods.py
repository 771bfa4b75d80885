"""Every recorded answer, byte for byte, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from indexer_replay import replay
from indexer_service import BLOCK_TIME, NULLIFIER_QUEUE_V1, STATE_V1, Indexer, filled, v1_output
from indexer_vectors import INDEXER_VECTORS, Recorded, indexer_vectors

from localnet.base58 import decode
from localnet.indexer.database.state import Applier, LinkKind
from localnet.indexer.database.store import Store
from localnet.indexer.decoding.events import Input, PublicEvent
from localnet.indexer.decoding.hashing import account_hash
from localnet.indexer.decoding.source import Transaction
from localnet.indexer.programs import TreeType
from shared.trees.field import ZERO

ADDRESS_V1 = "amt1Ayt45jfbdw5YSo7iz6WZxUmnZsQTYXy82hVwyC2"
ADDRESS_V2 = "EzKE84aVTkCUhDHLELqyJaq1Y7UVVmqxXqZjVHwHY3rK"


@pytest.fixture
async def indexer(tmp_path: Path) -> AsyncIterator[Indexer]:
    store = Store(tmp_path / "indexer.sqlite", durable=False)
    started = await Indexer.start(store)
    yield started
    await started.client.close()
    store.close()


def method(name: str) -> Recorded:
    return indexer_vectors(f"methods/{name}")


def state_flow(indexer: Indexer) -> None:
    replay(indexer.store, "replay_state_append_then_nullify")
    indexer.set_slot(1110)


def state_flow_without_full_batch(indexer: Indexer) -> None:
    replay(indexer.store, "replay_state_append_then_nullify", operations=62)
    indexer.set_slot(1110)


def state_flow_and_addresses(indexer: Indexer) -> None:
    state_flow(indexer)
    indexer.add_tree(ADDRESS_V2, TreeType.ADDRESS_V2, ADDRESS_V2)
    with indexer.store.write() as connection:
        # The recorded size is invented, too.
        connection.execute("UPDATE trees SET address_next = 20 WHERE type = 4")


def initial_addresses(indexer: Indexer) -> None:
    indexer.add_tree(ADDRESS_V1, TreeType.ADDRESS_V1, "aq1S9z4reTSQAdgWHGD2zDaS39sjGrAxbR31vxJ2F4F")
    indexer.add_tree(ADDRESS_V2, TreeType.ADDRESS_V2, ADDRESS_V2)
    indexer.set_slot(1)


def initial_addresses_at_zero(indexer: Indexer) -> None:
    initial_addresses(indexer)
    indexer.set_slot(0)


def tokens(indexer: Indexer) -> None:
    """Insert token accounts of one owner; another owner's balance is from an altered copy."""
    indexer.add_tree(STATE_V1, TreeType.STATE_V1, NULLIFIER_QUEUE_V1)
    items = method("getCompressedTokenAccountsByOwner")["response"]["result"]["value"]["items"]
    outputs = [v1_output(item["account"]) for item in items]
    for output in outputs:
        assert output.account is not None
        assert account_hash(output.account, output.place.tree, TreeType.STATE_V1, output.leaf_index) == output.hash
    account = outputs[0].account
    assert account is not None
    assert account.data is not None
    raw = account.data.data
    other = decode("CHvwuTvTiwRSNBwAnrCG14V8YTJ6wwhHQrifxdFzHzsX")
    altered = replace(account.data, data=raw[:32] + other + (895).to_bytes(8, "little") + raw[72:])
    stranger = replace(outputs[0], hash=bytes(31) + b"\x99", leaf_index=0, sequence=1)
    stranger = replace(stranger, account=replace(account, data=altered))
    spendable = [decode(h) for h in method("getValidityProof")["request"]["params"]["hashes"]]
    leaves = filled([*outputs, stranger], 7)
    leaves[4], leaves[5] = replace(leaves[4], hash=spendable[0]), replace(leaves[5], hash=spendable[1])
    indexer.append_v1(leaves, bytes(64), 0)
    indexer.teach_path(method("getCompressedAccountProof")["response"]["result"]["value"])
    indexer.set_slot(41)


def lamports(indexer: Indexer) -> None:
    indexer.add_tree(STATE_V1, TreeType.STATE_V1, NULLIFIER_QUEUE_V1)
    (item,) = method("getCompressedAccountsByOwner")["response"]["result"]["value"]["items"]
    indexer.append_v1(filled([v1_output(item)], 3), bytes(64), 0)
    indexer.set_slot(302)


def signatures(indexer: Indexer) -> None:
    """Insert two transactions that touch one key in all roles, and one account."""
    items = method("getCompressionSignaturesForOwner")["response"]["result"]["value"]["items"]
    key = decode(method("getCompressionSignaturesForOwner")["request"]["params"]["owner"])
    leaf = decode(method("getCompressionSignaturesForAccount")["request"]["params"]["hash"])
    with indexer.store.write() as connection:
        for number, item in enumerate(items):
            signature = decode(item["signature"])
            connection.execute(
                "INSERT INTO transactions VALUES (?, 0, ?, ?, NULL, 1)", (item["slot"], signature, item["blockTime"])
            )
            connection.executemany(
                "INSERT INTO key_links VALUES (?, ?, ?, ?, ?)",
                [(int(kind), key, item["slot"], signature, item["blockTime"]) for kind in LinkKind],
            )
            if number == 0:
                connection.execute("INSERT INTO account_links VALUES (?, ?, 0, 0)", (leaf, item["slot"]))
    indexer.set_slot(41)


def all_signatures(indexer: Indexer) -> None:
    with indexer.store.write() as connection:
        for number, item in enumerate(method("getLatestNonVotingSignatures")["response"]["result"]["value"]["items"]):
            connection.execute(
                "INSERT INTO transactions VALUES (?, ?, ?, ?, ?, 0)",
                (item["slot"], number, decode(item["signature"]), item["blockTime"], item["error"]),
            )
    indexer.set_slot(279620356)


def transfer(indexer: Indexer) -> None:
    """Insert one token account spent at slot 41, and another one created by the same transaction."""
    recorded = method("getTransactionWithCompressionInfo")
    signature = recorded["request"]["params"]["signature"]
    result = recorded["response"]["result"]
    indexer.node.transactions[signature] = result["transaction"]
    info = result["compressionInfo"]
    closed = v1_output(info["closedAccounts"][0]["account"])
    opened = v1_output(info["openedAccounts"][0]["account"])
    indexer.add_tree(STATE_V1, TreeType.STATE_V1, NULLIFIER_QUEUE_V1)
    indexer.append_v1([closed], bytes(64), 0)
    event = PublicEvent(ZERO, (Input(closed.hash, None, None, None, None),), (opened,), ())
    with indexer.store.write() as connection:
        transaction = Transaction(decode(signature), ())
        Applier(connection, lambda _: None).apply(transaction, [event], 41, 0, BLOCK_TIME)
    indexer.set_slot(41)


def latest_slot(indexer: Indexer) -> None:
    indexer.set_slot(407265372)


STATES: dict[str, Callable[[Indexer], None]] = {
    "getAccountInterface": state_flow,
    "getCompressedAccount": tokens,
    "getCompressedAccountBalance": lamports,
    "getCompressedAccountProof": tokens,
    "getCompressedAccountProofV2": state_flow,
    "getCompressedAccountV2": state_flow,
    "getCompressedAccountsByOwner": lamports,
    "getCompressedAccountsByOwnerV2": state_flow,
    "getCompressedBalance": lamports,
    "getCompressedBalanceByOwner": lamports,
    "getCompressedMintTokenHolders": tokens,
    "getCompressedTokenAccountBalance": tokens,
    "getCompressedTokenAccountsByDelegate": tokens,
    "getCompressedTokenAccountsByDelegateV2": tokens,
    "getCompressedTokenAccountsByOwner": tokens,
    "getCompressedTokenAccountsByOwnerV2": tokens,
    "getCompressedTokenBalancesByOwner": tokens,
    "getCompressedTokenBalancesByOwnerV2": tokens,
    "getCompressionSignaturesForAccount": signatures,
    "getCompressionSignaturesForAddress": signatures,
    "getCompressionSignaturesForOwner": signatures,
    "getCompressionSignaturesForTokenOwner": signatures,
    "getIndexerHealth": latest_slot,
    "getIndexerSlot": latest_slot,
    "getLatestCompressionSignatures": signatures,
    "getLatestNonVotingSignatures": all_signatures,
    "getMultipleAccountInterfaces": state_flow,
    "getMultipleCompressedAccountProofs": tokens,
    "getMultipleCompressedAccountProofsV2": state_flow,
    "getMultipleCompressedAccounts": tokens,
    "getMultipleCompressedAccountsV2": tokens,
    "getMultipleNewAddressProofs": initial_addresses_at_zero,
    "getMultipleNewAddressProofsV2": initial_addresses,
    "getQueueElements.empty": state_flow_without_full_batch,
    "getQueueInfo": state_flow_and_addresses,
    "getQueueLeafIndices": state_flow,
    "getTransactionWithCompressionInfo": transfer,
    "getTransactionWithCompressionInfoV2": transfer,
    "getValidityProof": tokens,
    "getValidityProofV2": state_flow,
    "getValidityProofV2.address": initial_addresses,
    "getValidityProofV2.byIndex": state_flow,
}


def test_states__recorded_methods__are_all_covered() -> None:
    recorded = {path.stem for path in (INDEXER_VECTORS / "methods").glob("*.json")}
    assert set(STATES) == recorded - {"getBatchAddressUpdateInfo.legacy"}


@pytest.mark.parametrize("name", STATES)
async def test_method__recorded_request__gives_the_recorded_bytes(indexer: Indexer, name: str) -> None:
    STATES[name](indexer)
    recorded = method(name)
    answer = await indexer.post(recorded["request"], f"/{name}")
    assert answer.decode() == msgspec.json.encode(recorded["response"]).decode()


@pytest.mark.parametrize(
    ("name", "flow", "batches", "operations"),
    [
        ("queue_state", "replay_state_append_then_nullify", 2, None),
        ("queue_state_spent_first", "replay_state_nullify_before_append", 3, None),
        ("queue_address", "replay_address", 1, None),
        ("queue_address_empty", "replay_address", None, 0),
    ],
)
async def test_queue_elements__recorded_request__gives_the_recorded_bytes(
    indexer: Indexer, name: str, flow: str, batches: int | None, operations: int | None
) -> None:
    replay(indexer.store, flow, batches, operations)
    if operations == 0:
        initial_addresses(indexer)
    recorded = indexer_vectors(name)
    indexer.set_slot(recorded["response"]["result"]["context"]["slot"])
    answer = await indexer.post(recorded["request"])
    assert answer.decode() == msgspec.json.encode(recorded["response"]).decode()
