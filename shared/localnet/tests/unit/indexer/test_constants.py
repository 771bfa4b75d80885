"""Recorded constants of the trees and of the wire."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from indexer_service import FakeNode, FakeProver
from indexer_vectors import indexer_vectors

from localnet.base58 import decode, encode
from localnet.indexer.api.service import Service
from localnet.indexer.database.sparse_tree import node_number
from localnet.indexer.database.store import Store
from localnet.indexer.database.trees import add_default_tree
from localnet.indexer.programs import QueueType, TreeType
from shared.trees.indexed_merkle_tree import LARGEST_VALUE
from shared.trees.merkle_tree import zero_hash
from shared.trees.poseidon import hash_chain

CONSTANTS = indexer_vectors("constants")


def from_hex(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))


def test_hashes__of_empty_trees_and_lists__equal_the_recorded_ones() -> None:
    assert [zero_hash(level) for level in range(41)] == list(map(from_hex, CONSTANTS["zeroHashes"]))
    for height, root in CONSTANTS["emptyRoots"].items():
        assert encode(zero_hash(int(height))) == root
    for case in CONSTANTS["hashChain"]:
        assert hash_chain(b"".join(map(from_hex, case["values"]))) == from_hex(case["chain"])


def test_numbers__on_the_wire__equal_the_recorded_ones() -> None:
    largest = CONSTANTS["highestAddressPlusOne"]
    assert (LARGEST_VALUE, encode(LARGEST_VALUE)) == (from_hex(largest["hex"]), largest["base58"])
    for case in CONSTANTS["nodeIndex"]:
        assert node_number(case["level"], case["position"]) == case["index"]
    for name, kinds in (("treeTypes", TreeType), ("queueTypes", QueueType)):
        recorded = {key.upper(): number for key, number in CONSTANTS[name].items()}
        assert {kind.name.replace("_", ""): int(kind) for kind in kinds} == recorded


@pytest.mark.parametrize(
    ("name", "tree_type"),
    [("addressTreeV1Initial", TreeType.ADDRESS_V1), ("addressTreeV2Initial", TreeType.ADDRESS_V2)],
)
def test_address_tree__untouched__has_the_recorded_leaves_and_root(
    tmp_path: Path, name: str, tree_type: TreeType
) -> None:
    facts = CONSTANTS[name]
    with closing(Store(tmp_path / "indexer.sqlite", durable=False)) as store, store.write() as connection:
        tree = add_default_tree(connection, bytes(32), tree_type, bytes(32))
        leaves = tree.nodes(connection).nodes([node_number(0, place) for place in range(len(facts["leaves"]))])
        assert (tree.height, encode(tree.root), tree.sequence) == (facts["height"], facts["root"], facts["seq"])
        assert leaves == list(map(from_hex, facts["leaves"]))


async def test_signatures__full_page__have_the_recorded_cursor(tmp_path: Path) -> None:
    facts = CONSTANTS["signatureCursor"]
    with closing(Store(tmp_path / "indexer.sqlite", durable=False)) as store:
        with store.write() as connection:
            row = (facts["slot"], 0, decode(facts["signature"]), 0, None, 1)
            connection.execute("INSERT INTO transactions VALUES (?, ?, ?, ?, ?, ?)", row)
        service = Service(store, FakeProver(), FakeNode())
        page = await service.call("getLatestCompressionSignatures", {"limit": 1})
    assert page["value"]["cursor"] == facts["cursor"]
