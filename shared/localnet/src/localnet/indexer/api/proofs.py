"""Proofs that leaves are in state trees and addresses are not in address trees.

Source: forester/docs/reference/indexer.md, "Account proofs" and "New-address proofs".
"""

from collections.abc import Sequence
from dataclasses import dataclass

from localnet.base58 import encode
from localnet.indexer.api.errors import invalid_key, not_found, validation
from localnet.indexer.api.params import AddressWithTree, Hash, HashOnly, require_short
from localnet.indexer.api.shapes import Json, Snapshot
from localnet.indexer.database.sparse_tree import node_number
from localnet.indexer.database.tree_events import low_element
from localnet.indexer.database.trees import StateMismatch, Tree, find_tree
from localnet.indexer.programs import DEFAULT_ADDRESS_TREE_V1
from localnet.json_rpc import SERVER_ERROR, RpcError
from shared.trees.field import ZERO
from shared.trees.indexed_merkle_tree import Element


@dataclass(frozen=True, slots=True)
class LeafProof:
    """A leaf with its path; ``path`` is None for a leaf that waits in the output queue."""

    tree: Tree
    leaf_index: int
    hash: bytes
    path: list[bytes] | None


@dataclass(frozen=True, slots=True)
class AbsenceProof:
    """An address, its low element, and that element's path."""

    tree: Tree
    address: bytes
    low: Element
    path: list[bytes]


def sound_tree(snapshot: Snapshot, key: bytes, field: str) -> Tree:
    """Return the tree of a key; raise RpcError if it is unknown or no longer follows the chain."""
    tree = find_tree(snapshot.connection, key)
    if tree is None:
        raise invalid_key(field)
    require_sound(tree)
    return tree


def require_sound(tree: Tree) -> None:
    """Raise RpcError for a tree that no longer follows the chain."""
    if tree.broken:
        raise RpcError(SERVER_ERROR, f"Tree {encode(tree.key)} is inconsistent at sequence {tree.sequence}")


def leaf_proofs(snapshot: Snapshot, hashes: Sequence[bytes], *, allow_queued: bool) -> list[LeafProof]:
    """Return the proofs of leaves in the order of the request; all proofs of a tree are for one root.

    Leaves that were spent are served until their nullification reaches the tree.
    """
    require_short(list(hashes), "hashes")
    marks = ",".join("?" * len(hashes))
    rows = snapshot.connection.execute(
        f"SELECT a.hash, a.leaf_index, t.key FROM accounts a JOIN trees t ON t.id = a.tree WHERE a.hash IN ({marks})",  # noqa: S608
        tuple(hashes),
    ).fetchall()
    proofs: dict[bytes, LeafProof] = {}
    for key in {key for _, _, key in rows}:
        tree = sound_tree(snapshot, key, "hash")
        places = [(leaf, index) for leaf, index, owner in rows if owner == key]
        proofs |= _of_tree(snapshot, tree, places, allow_queued=allow_queued)
    if any(leaf not in proofs for leaf in hashes):
        found = sum(leaf in proofs for leaf in hashes)
        raise not_found(f"Leaf nodes not found for hashes. Got {found} hashes. Expected {len(hashes)}.")
    return [proofs[leaf] for leaf in hashes]


def _of_tree(
    snapshot: Snapshot, tree: Tree, places: list[tuple[bytes, int]], *, allow_queued: bool
) -> dict[bytes, LeafProof]:
    nodes = tree.nodes(snapshot.connection)
    queued = [(leaf, index) for leaf, index in places if tree.batched and index >= tree.next_index]
    appended = [place for place in places if place not in queued]
    held = nodes.nodes([node_number(0, index) for _, index in appended])
    present = [place for place, node in zip(appended, held, strict=True) if node == place[0]]
    paths = nodes.paths([index for _, index in present])
    proofs = {leaf: LeafProof(tree, index, leaf, path) for (leaf, index), path in zip(present, paths, strict=True)}
    if allow_queued:
        proofs |= {leaf: LeafProof(tree, index, leaf, None) for leaf, index in queued}
    return proofs


def get_account_proof(snapshot: Snapshot, params: HashOnly) -> Json:
    """Answer getCompressedAccountProof."""
    return snapshot.answer(_leaf_v1(leaf_proofs(snapshot, [params.hash], allow_queued=False)[0]))


def get_account_proof_v2(snapshot: Snapshot, params: HashOnly) -> Json:
    """Answer getCompressedAccountProofV2: for a queued leaf, the path of its future index."""
    (proof,) = leaf_proofs(snapshot, [params.hash], allow_queued=True)
    if proof.path is not None:
        return snapshot.answer(_leaf_v2(proof))
    (path,) = proof.tree.nodes(snapshot.connection).paths([proof.leaf_index])
    empty = LeafProof(proof.tree, proof.leaf_index, ZERO, path)
    return snapshot.answer(_leaf_v2(empty) | {"proveByIndex": True})


def get_account_proofs(snapshot: Snapshot, params: list[Hash]) -> Json:
    """Answer getMultipleCompressedAccountProofs."""
    return snapshot.answer([_leaf_v1(proof) for proof in leaf_proofs(snapshot, params, allow_queued=False)])


def get_account_proofs_v2(snapshot: Snapshot, params: list[Hash]) -> Json:
    """Answer getMultipleCompressedAccountProofsV2."""
    return snapshot.answer([_leaf_v2(proof) for proof in leaf_proofs(snapshot, params, allow_queued=True)])


def _leaf_v1(proof: LeafProof) -> Json:
    return {
        "proof": [encode(node) for node in proof.path or ()],
        "root": encode(proof.tree.root),
        "leafIndex": proof.leaf_index,
        "hash": encode(proof.hash),
        "merkleTree": encode(proof.tree.key),
        "rootSeq": proof.tree.sequence,
    }


def _leaf_v2(proof: LeafProof) -> Json:
    queued = proof.path is None
    return {
        "proof": [encode(node) for node in proof.path or ()],
        "root": encode(ZERO if queued else proof.tree.root),
        "leafIndex": proof.leaf_index,
        "hash": encode(proof.hash),
        "rootSeq": 0 if queued else proof.tree.sequence,
        "proveByIndex": queued,
        "treeContext": {
            "treeType": int(proof.tree.tree_type),
            "tree": encode(proof.tree.key),
            "queue": encode(proof.tree.queue),
            "cpiContext": None,
        },
    }


def absence_proofs(snapshot: Snapshot, wanted: Sequence[tuple[bytes, bytes]]) -> list[AbsenceProof]:
    """Return proofs for pairs of address and tree, in order; raise RpcError for an address in its tree or V2 queue.

    The V1 forester asks for proofs of the addresses that wait in the queue.
    """
    require_short(list(wanted), "addresses")
    trees = {key: sound_tree(snapshot, key, "tree") for key in dict.fromkeys(key for _, key in wanted)}
    lows: list[Element] = []
    for address, key in wanted:
        if not trees[key].holds_addresses:
            raise invalid_key("tree")
        lows.append(_low(snapshot, trees[key], address))
    paths: dict[tuple[bytes, int], list[bytes]] = {}
    for key, tree in trees.items():
        places = sorted({low.index for low, (_, owner) in zip(lows, wanted, strict=True) if owner == key})
        found = tree.nodes(snapshot.connection).paths(places)
        paths |= {(key, place): path for place, path in zip(places, found, strict=True)}
    return [
        AbsenceProof(trees[key], address, low, paths[key, low.index])
        for low, (address, key) in zip(lows, wanted, strict=True)
    ]


def _low(snapshot: Snapshot, tree: Tree, address: bytes) -> Element:
    try:
        if not (tree.batched and is_queued(snapshot, tree, address)):
            return low_element(snapshot.connection, tree, address)
    except StateMismatch:
        pass
    raise already_exists(address)


def is_queued(snapshot: Snapshot, tree: Tree, address: bytes) -> bool:
    """Return whether an address waits for its tree."""
    found = snapshot.connection.execute(
        "SELECT 1 FROM address_queue WHERE tree = ? AND address = ?", (tree.id, address)
    )
    return found.fetchone() is not None


def already_exists(address: bytes) -> RpcError:
    """Return the error for an address that exists."""
    return validation(f"Address {encode(address)} already exists")


def get_address_proofs(snapshot: Snapshot, params: list[Hash]) -> Json:
    """Answer getMultipleNewAddressProofs: of the default V1 tree."""
    return _address_answer(snapshot, [(address, DEFAULT_ADDRESS_TREE_V1) for address in params])


def get_address_proofs_v2(snapshot: Snapshot, params: list[AddressWithTree]) -> Json:
    """Answer getMultipleNewAddressProofsV2."""
    return _address_answer(snapshot, [(one.address, one.tree) for one in params])


def _address_answer(snapshot: Snapshot, wanted: Sequence[tuple[bytes, bytes]]) -> Json:
    if not wanted:
        raise validation("No addresses provided")
    return snapshot.answer([_absence(proof) for proof in absence_proofs(snapshot, wanted)])


def _absence(proof: AbsenceProof) -> Json:
    return {
        "root": encode(proof.tree.root),
        "address": encode(proof.address),
        "lowerRangeAddress": encode(proof.low.value),
        "higherRangeAddress": encode(proof.low.next_value),
        "nextIndex": proof.low.next_index,
        "proof": [encode(node) for node in proof.path],
        "merkleTree": encode(proof.tree.key),
        "rootSeq": proof.tree.sequence,
        "lowElementLeafIndex": proof.low.index,
    }
