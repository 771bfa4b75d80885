"""Framing, errors and limits of the server, over HTTP."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from indexer_replay import replay
from indexer_service import FakeNode, FakeProver, Indexer
from indexer_vectors import Recorded, indexer_vectors

from localnet.base58 import decode, encode
from localnet.indexer.api.methods import METHODS
from localnet.indexer.api.service import Service
from localnet.indexer.database.store import Store
from localnet.indexer.database.trees import find_tree, save_tree
from localnet.indexer.programs import TreeType
from localnet.json_rpc import RpcError

TREE = "HLKs5NJ8FXkJg8BrzJt56adFYYuwg5etzDtBbQYTsixu"
ADDRESS_TREE = "EzKE84aVTkCUhDHLELqyJaq1Y7UVVmqxXqZjVHwHY3rK"
OWNER = "AVBr8cgZKFJaTEx7rYaexAmZxoXsC8ze1ecegQgWhPnb"
UNKNOWN = "9UbdgkdQzD4jCKXHSf5qhi7kLBtyWutkxiEWETbtfjSg"


@pytest.fixture
async def indexer(tmp_path: Path) -> AsyncIterator[Indexer]:
    store = Store(tmp_path / "indexer.sqlite", durable=False)
    replay(store, "replay_state_append_then_nullify")
    started = await Indexer.start(store)
    started.set_slot(1110)
    yield started
    await started.client.close()
    store.close()


ERRORS: list[Recorded] = indexer_vectors("errors")["cases"]


@pytest.mark.parametrize("number", range(len(ERRORS)))
async def test_errors__recorded_request__gives_the_recorded_bytes(indexer: Indexer, number: int) -> None:
    recorded = ERRORS[number]
    if "behind" in recorded["response"]["error"]["message"]:
        indexer.node.at = 1110 + 57
    assert await indexer.post(recorded["request"]) == msgspec.json.encode(recorded["response"])


REFUSED: list[tuple[str, Any, int, str]] = [
    ("getCompressedAccount", {"hash": "0" * 44}, -32602, "base58"),
    ("getCompressedAccount", {"hash": 5}, -32602, "base58"),
    ("getCompressedAccount", [OWNER], -32602, "object"),
    ("getCompressedAccount", {"hash": OWNER, "more": 1, "x": 2}, -32602, "unknown field `more`, expected `address` or"),
    ("getMultipleCompressedAccounts", {}, -32000, "Either hashes or addresses"),
    ("getMultipleCompressedAccounts", {"hashes": [], "addresses": []}, -32000, "Either hashes or addresses"),
    ("getMultipleCompressedAccounts", {"hashes": [OWNER] * 1001}, -32000, "Maximum allowed: 1000"),
    ("getCompressedAccountsByOwner", {"owner": OWNER, "limit": 1001}, -32602, "1000"),
    ("getCompressedAccountsByOwner", {"owner": OWNER, "cursor": "abc"}, -32000, "cursor length"),
    ("getCompressedAccountsByOwner", {"owner": OWNER, "cursor": UNKNOWN}, -32000, "names no account"),
    (
        "getCompressedAccountsByOwner",
        {"owner": OWNER, "filters": [{"memcmp": {"offset": 0, "bytes": "1"}}] * 6},
        -32000,
        "Too many filters",
    ),
    ("getMultipleCompressedAccountProofs", [OWNER] * 1001, -32000, "Maximum allowed: 1000"),
    ("getMultipleCompressedAccountProofs", {"hashes": []}, -32602, "array"),
    ("getMultipleNewAddressProofs", [], -32000, "No addresses provided"),
    ("getMultipleNewAddressProofs", [OWNER], -32000, "Invalid Public Key: field 'tree'"),
    ("getMultipleNewAddressProofsV2", [{"address": OWNER, "tree": TREE}], -32000, "Invalid Public Key: field 'tree'"),
    ("getQueueElements", {"tree": UNKNOWN, "outputQueue": {"limit": 1}}, -32000, "Invalid Public Key: field 'tree'"),
    ("getQueueElements", {"tree": TREE, "addressQueue": {"limit": 1}}, -32000, "has no such queue"),
    (
        "getQueueElements",
        {"tree": TREE, "addressQueue": {"limit": 30001}},
        -32000,
        "Too many addresses requested 30001",
    ),
    ("getQueueElements", {"tree": TREE, "outputQueue": {"limit": 70000}}, -32602, "65535"),
    ("getQueueElements", {"tree": TREE, "outputQueue": {"limit": 1, "x": 1}}, -32602, "x"),
    (
        "getQueueElements",
        {"tree": TREE, "outputQueue": {"limit": 10, "startIndex": 5, "zkpBatchSize": 10}},
        -32000,
        "Requested start_index 5 but first_queue_index 30 is later (possible pruning)",
    ),
    ("getQueueLeafIndices", {"tree": TREE, "limit": 30001}, -32000, "30000"),
    ("getCompressionSignaturesForAccount", {"hash": UNKNOWN}, -32000, "Record Not Found"),
    ("getCompressionSignaturesForOwner", {"owner": OWNER, "cursor": "11"}, -32000, "cursor length"),
    ("getCompressedTokenAccountBalance", {"hash": UNKNOWN}, -32000, "Record Not Found"),
    ("getCompressedTokenAccountsByOwner", {"owner": OWNER, "cursor": "11"}, -32000, "cursor length"),
    ("getValidityProof", {}, -32000, "No hashes or new addresses"),
    ("getValidityProof", {"hashes": [UNKNOWN]}, -32000, "Got 0 hashes. Expected 1"),
    ("getValidityProofV2", {"hashes": [UNKNOWN]}, -32000, f"Requested [{UNKNOWN}], found []"),
    ("getTransactionWithCompressionInfo", {"signature": encode(bytes(64))}, -32000, "Record Not Found"),
    ("getTransactionWithCompressionInfo", {"signature": OWNER}, -32602, "64"),
    ("getMultipleAccountInterfaces", {"addresses": [OWNER] * 101}, -32000, "Maximum allowed: 100"),
    ("getBatchAddressUpdateInfo", {"tree": TREE, "batchSize": 10}, -32601, "Method not found"),
]


@pytest.mark.parametrize(("method", "params", "code", "text"), REFUSED)
async def test_errors__wrong_parameters__name_what_is_wrong(
    indexer: Indexer, method: str, params: Any, code: int, text: str
) -> None:
    error = await indexer.refusal(method, params)
    assert error["code"] == code
    assert text in error["message"] + error.get("data", "")


async def test_errors__broken_tree__is_named_with_its_sequence(indexer: Indexer) -> None:
    with indexer.store.write() as connection:
        tree = find_tree(connection, decode(TREE))
        assert tree is not None
        tree.broken = "root"
        save_tree(connection, tree)
    error = await indexer.refusal("getQueueElements", {"tree": TREE, "outputQueue": {"limit": 10}})
    assert error == {"code": -32000, "message": f"Tree {TREE} is inconsistent at sequence 4"}
    assert await indexer.refusal("getIndexerHealth", []) == error


async def test_errors__fault_inside__is_not_leaked(indexer: Indexer) -> None:
    with indexer.store.write() as connection:
        connection.execute("ALTER TABLE tokens RENAME TO lost")
    error = await indexer.refusal("getCompressedMintTokenHolders", {"mint": UNKNOWN})
    assert error == {"code": -32000, "message": "Internal server error"}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"\xff", -32700),
        (b"[" * 100_000, -32700),
        (b"[]", -32600),
        (b"5", -32600),
        (b"{}", -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"getIndexerSlot"}', -32600),
        (b'{"jsonrpc":"2.0","id":[],"method":"getIndexerSlot"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":5}', -32600),
    ],
)
async def test_framing__not_a_request__is_an_error_answer(indexer: Indexer, body: bytes, code: int) -> None:
    async with indexer.client.post("/", data=body, headers={"Content-Type": "application/json"}) as response:
        assert response.status == 200
        answer = await response.json()
    assert answer["error"]["code"] == code
    assert answer["id"] is None


async def test_framing__array_of_calls__is_answered_in_order(indexer: Indexer) -> None:
    calls = [{"jsonrpc": "2.0", "id": number, "method": "getIndexerSlot"} for number in ("a", 2, None)]
    answers = json.loads(await indexer.post(calls))
    assert answers == [{"jsonrpc": "2.0", "result": 1110, "id": number} for number in ("a", 2, None)]


async def test_framing__browser_and_large_answer__are_served(indexer: Indexer) -> None:
    async with indexer.client.options("/any/path", headers={"Origin": "http://localhost:3000"}) as response:
        assert response.headers["Access-Control-Allow-Origin"] == "http://localhost:3000"
    call = {"jsonrpc": "2.0", "id": 1, "method": "getCompressedAccountsByOwnerV2", "params": {"owner": OWNER}}
    async with indexer.client.post("/x/y?api-key=z", json=call, headers={"Accept-Encoding": "gzip"}) as response:
        assert response.headers["Content-Encoding"] == "gzip"
        assert len((await response.json())["result"]["value"]["items"]) == 20


async def test_probes__node_ahead__readiness_fails_and_liveness_does_not(indexer: Indexer) -> None:
    async with indexer.client.get("/readiness") as response:
        assert response.status == 200
        assert await response.json() == {"jsonrpc": "2.0", "result": None, "id": None}
    indexer.node.at = 2000
    async with indexer.client.get("/readiness") as response:
        assert response.status == 503
    async with indexer.client.get("/liveness") as response:
        assert response.status == 200


async def test_health__indexing_stopped__is_an_error(tmp_path: Path) -> None:
    store = Store(tmp_path / "indexer.sqlite", durable=False)
    service = Service(store, FakeProver(), FakeNode(), lambda: "transaction X of slot 5")
    with pytest.raises(RpcError, match="indexing has stopped"):
        await service.call("getIndexerHealth", None)
    store.close()


@pytest.mark.parametrize("limit", [1, 3, 7, 20])
async def test_pages__accounts_of_an_owner__come_once_each(indexer: Indexer, limit: int) -> None:
    everything = await indexer.call("getCompressedAccountsByOwnerV2", {"owner": OWNER})
    assert everything["value"]["cursor"] is None
    hashes: list[str] = []
    cursor = None
    while True:
        params = {"owner": OWNER, "limit": limit} | ({"cursor": cursor} if cursor else {})
        value = (await indexer.call("getCompressedAccountsByOwnerV2", params))["value"]
        hashes += [item["hash"] for item in value["items"]]
        cursor = value["cursor"]
        if cursor is None:
            break
        assert len(value["items"]) == limit
    assert hashes == [item["hash"] for item in everything["value"]["items"]]


async def test_queue_elements__pages__continue_at_the_next_index(indexer: Indexer) -> None:
    replay_more = {"tree": TREE, "inputQueue": {"limit": 5, "startIndex": "15", "zkpBatchSize": 5}}
    state = (await indexer.call("getQueueElements", replay_more))["stateQueue"]
    assert state["inputQueue"]["firstQueueIndex"] == 15
    assert len(state["inputQueue"]["leafIndices"]) == 5
    both = replay_more | {"outputQueue": {"limit": 10, "zkpBatchSize": 11}}
    state = (await indexer.call("getQueueElements", both))["stateQueue"]
    assert state["outputQueue"] == {
        "leafIndices": [],
        "accountHashes": [],
        "leaves": [],
        "firstQueueIndex": 0,
        "nextIndex": 0,
        "leavesHashChains": [],
    }


async def test_proofs__spent_leaf__is_served_until_it_is_nullified(indexer: Indexer) -> None:
    spent = await indexer.call("getQueueLeafIndices", {"tree": TREE, "limit": 1000})
    for element in spent["value"]:
        answer = await indexer.call("getMultipleCompressedAccountProofsV2", [element["hash"]])
        assert answer["value"][0]["leafIndex"] == element["leafIndex"]
    nullified = indexer_vectors("replay_state_append_then_nullify")["ops"][0][3]
    error = await indexer.refusal("getMultipleCompressedAccountProofsV2", [nullified])
    assert "Got 0 hashes" in error["message"]


async def test_address_proofs__address_queued_or_in_the_tree__is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path / "indexer.sqlite", durable=False)
    replay(store, "replay_address", batches=1)
    started = await Indexer.start(store)
    operations = indexer_vectors("replay_address")["ops"]
    for address in (operations[0][3], operations[29][3], "1" * 32):
        error = await started.refusal("getMultipleNewAddressProofsV2", [{"address": address, "tree": ADDRESS_TREE}])
        assert error["message"] == f"Validation Error: Address {address} already exists"
    await started.client.close()
    store.close()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=50),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)
MEMBERS = [
    "hash",
    "address",
    "owner",
    "tree",
    "limit",
    "cursor",
    "hashes",
    "addresses",
    "mint",
    "outputQueue",
    "filters",
]
VALUES = st.sampled_from([TREE, OWNER, 0, 1, -1, 2**64, [OWNER], {"limit": 3}, "z" * 300]) | JSON


async def test_errors__any_parameters__are_an_answer_without_a_fault(indexer: Indexer) -> None:
    service = Service(indexer.store, FakeProver(), FakeNode())
    calls: list[tuple[str, Any]] = []

    @given(
        st.sampled_from(sorted(METHODS)),
        JSON | st.lists(VALUES, max_size=2) | st.dictionaries(st.sampled_from(MEMBERS), VALUES, max_size=3),
    )
    @settings(max_examples=150, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    def collect(method: str, params: Any) -> None:
        calls.append((method, params))

    collect()
    for method, params in calls:
        # Anything but an RpcError would be a fault.
        with contextlib.suppress(RpcError):
            await service.call(method, params)


async def test_queue_info__other_trees__are_omitted(indexer: Indexer) -> None:
    indexer.add_tree(ADDRESS_TREE, TreeType.ADDRESS_V2, ADDRESS_TREE)
    indexer.add_tree(UNKNOWN, TreeType.STATE_V1, OWNER)
    everything = await indexer.call("getQueueInfo", {})
    assert [queue["queueType"] for queue in everything["queues"]] == [3, 5, 4]
    none = await indexer.call("getQueueInfo", {"trees": [OWNER]})
    assert none == {"queues": [], "slot": 1110}
