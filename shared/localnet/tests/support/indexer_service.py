"""An indexer's service over a store, with a prover and a node that answer what a test says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from aiohttp.test_utils import TestClient, TestServer
from indexer_vectors import Recorded, indexer_vectors

from localnet.base58 import decode
from localnet.indexer.api.errors import internal
from localnet.indexer.api.server import make_app
from localnet.indexer.api.service import Service
from localnet.indexer.database.sparse_tree import SparseTree, node_number
from localnet.indexer.database.state import Applier
from localnet.indexer.database.store import Store, set_meta
from localnet.indexer.database.trees import add_tree, find_tree, save_tree
from localnet.indexer.decoding.events import Output, PublicEvent, TreeRef
from localnet.indexer.decoding.hashing import AccountData, CompressedAccount
from localnet.indexer.decoding.source import Transaction
from localnet.indexer.following.engine import SLOT
from localnet.indexer.programs import HEIGHTS, ROOT_CAPACITIES, TreeType
from shared.trees.field import ZERO

STATE_V1 = "smt1NamzXdq4AMqS2fS2F1i5KTYPZRhoHgWx38d8WsT"
NULLIFIER_QUEUE_V1 = "nfq1NvQDJ2GEgnS8zt9prAe8rjjpAW1zFkrvZoBR148"
BLOCK_TIME = 1_724_707_606
PROOF = indexer_vectors("proof_compression")["cases"][0]["proof"]


class FakeProver:
    """A prover that stores requests and answers with one proof; it answers nothing if ``proof`` is None."""

    def __init__(self, proof: Any = PROOF) -> None:
        self.proof = proof
        self.requests: list[Recorded] = []

    async def __call__(self, request: Recorded) -> Any:
        self.requests.append(request)
        if self.proof is None:
            raise internal("the prover cannot be reached")
        return self.proof


class FakeNode:
    """A node at ``at`` with given transactions and accounts."""

    def __init__(self) -> None:
        self.at = 0
        self.transactions: dict[str, Recorded] = {}
        self.accounts: dict[str, Recorded] = {}

    async def __call__(self, method: str, params: Any) -> Any:
        if method == "getSlot":
            return self.at
        if method == "getAccountInfo":
            return {"value": self.accounts.get(params[0])}
        assert method == "getTransaction"
        return self.transactions.get(params[0])


class Indexer:
    """A store and what is served from it."""

    def __init__(self, store: Store, client: TestClient[Any, Any], prover: FakeProver, node: FakeNode) -> None:
        self.store = store
        self.client = client
        self.prover = prover
        self.node = node

    @classmethod
    async def start(cls, store: Store) -> Indexer:
        prover, node = FakeProver(), FakeNode()
        client: TestClient[Any, Any] = TestClient(TestServer(make_app(Service(store, prover, node))))
        await client.start_server()
        return cls(store, client, prover, node)

    async def post(self, body: object, path: str = "/") -> bytes:
        async with self.client.post(path, json=body) as response:
            assert response.status == 200
            return await response.read()

    async def call(self, method: str, params: object) -> Any:
        """Return the result of a call."""
        body = json.loads(await self.post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
        assert "error" not in body, body
        return body["result"]

    async def refusal(self, method: str, params: object) -> Recorded:
        """Return the error of a call."""
        error: Recorded = json.loads(await self.post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))[
            "error"
        ]
        return error

    def set_slot(self, slot: int) -> None:
        with self.store.write() as connection:
            set_meta(connection, SLOT, slot)
        self.node.at = slot

    def add_tree(self, key: str, tree_type: TreeType, queue: str) -> None:
        with self.store.write() as connection:
            height, capacity = HEIGHTS[tree_type], ROOT_CAPACITIES[tree_type]
            add_tree(connection, decode(key), tree_type, decode(queue), height, capacity)

    def append_v1(self, leaves: Sequence[Output], signature: bytes, slot: int) -> None:
        with self.store.write() as connection:
            event = PublicEvent(ZERO, (), tuple(leaves), ())
            Applier(connection, lambda _: None).apply(Transaction(signature, ()), [event], slot, 0, BLOCK_TIME)

    def teach_path(self, proof: Recorded) -> None:
        """Let a V1 tree have the recorded path of a leaf: nodes of leaves that the recording does not give."""
        with self.store.write() as connection:
            tree = find_tree(connection, decode(proof["merkleTree"]))
            assert tree is not None
            nodes = SparseTree(connection, tree.id, tree.height)
            connection.executemany(
                "INSERT OR REPLACE INTO nodes VALUES (?, ?, ?)",
                [
                    (tree.id, node_number(level, (proof["leafIndex"] >> level) ^ 1), decode(node))
                    for level, node in enumerate(proof["proof"])
                ],
            )
            tree.root = nodes.write({proof["leafIndex"]: decode(proof["hash"])})
            save_tree(connection, tree)


def v1_output(account: Recorded) -> Output:
    """Return an account of the older form as the output that made it."""
    tree = decode(account.get("tree", STATE_V1))
    data = account["data"]
    content = None
    if data is not None:
        raw = msgspec.convert(data["data"], bytes, strict=False)
        content = AccountData(data["discriminator"].to_bytes(8, "little"), raw, decode(data["dataHash"]))
    address = decode(account["address"]) if account["address"] else None
    made = CompressedAccount(decode(account["owner"]), account["lamports"], address, content)
    place = TreeRef(tree, tree, TreeType.STATE_V1)
    return Output(decode(account["hash"]), account["leafIndex"], place, account["seq"], made)


def filled(outputs: Sequence[Output], count: int) -> list[Output]:
    """Return ``count`` leaves of a V1 tree: the given ones at their places, others between them."""
    known = {output.leaf_index: output for output in outputs}
    place = TreeRef(decode(STATE_V1), decode(STATE_V1), TreeType.STATE_V1)
    return [known.get(i) or Output((i + 1).to_bytes(32, "big"), i, place, i + 1, None) for i in range(count)]
