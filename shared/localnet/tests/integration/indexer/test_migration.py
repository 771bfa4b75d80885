"""A leaf that moves from a V1 tree into a V2 queue: half is reported, the other half is in the instruction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chains import FORESTER, USER, funded, send, simulated_artefacts
from forestry import Forest
from indexer_service import FakeNode, FakeProver
from solders.instruction import AccountMeta, Instruction
from v1_work import LAST_CHANGE, content

from localnet.base58 import decode
from localnet.chain import addresses
from localnet.indexer.api.service import Service
from localnet.indexer.database.store import Store
from localnet.indexer.database.trees import all_trees
from localnet.indexer.following.follower import Follower
from localnet.programs.light_system import Output, invoke


def migrate_state(forest: Forest, proof: dict[str, Any]) -> Instruction:
    """Return an instruction that migrates a leaf (forester/docs/reference/programs.md, "State migration")."""
    tree = content(forest.network, addresses.STATE_TREE_V1)
    data = bytes.fromhex("22bde2deda9c13d5") + bytes([addresses.REGISTRY_CPI_AUTHORITY_BUMP])
    data += tree[LAST_CHANGE : LAST_CHANGE + 8] + decode(proof["hash"])
    data += proof["leafIndex"].to_bytes(8, "little") + b"".join(map(decode, proof["proof"][:16]))
    read = [addresses.REGISTRY_CPI_AUTHORITY, addresses.REGISTERED_REGISTRY]
    read += [addresses.ACCOUNT_COMPRESSION, addresses.NOOP]
    metas = [AccountMeta(forest.epoch_account, False, True), AccountMeta(FORESTER.pubkey(), True, False)]
    metas += [AccountMeta(key, False, False) for key in read]
    metas += [AccountMeta(key, False, True) for key in (addresses.STATE_TREE_V1, addresses.OUTPUT_QUEUE)]
    return Instruction(addresses.REGISTRY, data, metas)


async def test_migrate_state__leaf_of_a_v1_tree__is_queued_with_its_account(tmp_path: Path) -> None:
    forest = Forest(funded(simulated_artefacts()))
    forest.register()
    store = Store(tmp_path / "indexer.sqlite", durable=False)
    follower = Follower(forest.network, store)
    service = Service(store, FakeProver(), FakeNode())
    outputs = [Output(USER.pubkey(), 1_000_000, addresses.STATE_TREE_V1)] * 3
    assert send(forest.network, [invoke(USER.pubkey(), outputs=outputs, compress=3_000_000)], USER).err is None
    await follower.catch_up()
    owned = await service.call("getCompressedAccountsByOwnerV2", {"owner": str(USER.pubkey())})
    chosen = owned["value"]["items"][1]["hash"]
    proof = (await service.call("getCompressedAccountProof", {"hash": chosen}))["value"]

    assert forest.work(migrate_state(forest, proof)).err is None
    await follower.catch_up()

    assert follower.stopped is None
    with store.read() as connection:
        assert [tree.broken for tree in all_trees(connection) if tree.broken] == []
    moved = (await service.call("getCompressedAccountV2", {"hash": chosen}))["value"]
    assert (moved["leafIndex"], moved["proveByIndex"], moved["lamports"]) == (0, True, 1_000_000)
    assert moved["merkleContext"]["tree"] == str(addresses.STATE_TREE)
    store.close()
