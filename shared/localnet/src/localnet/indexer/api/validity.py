"""Validity proofs: the statement, the request to the prover, and the answer.

Source: forester/docs/reference/indexer.md, "Validity proofs".
"""

from dataclasses import dataclass
from typing import Any

import msgspec

from localnet.base58 import encode
from localnet.indexer.api.errors import internal, not_found, validation
from localnet.indexer.api.params import Hash, ValidityProof, ValidityProofV2
from localnet.indexer.api.proofs import (
    AbsenceProof,
    LeafProof,
    absence_proofs,
    already_exists,
    is_queued,
    leaf_proofs,
)
from localnet.indexer.api.shapes import Json, Snapshot, merkle_context
from localnet.indexer.database.trees import address_version
from localnet.indexer.programs import DEFAULT_ADDRESS_TREE_V1
from shared.requests.proof_compression import compress_proof
from shared.requests.proof_wire import MerkleRequest, ProofJson, encode_request
from shared.requests.witness_inputs import Membership, combined_request, inclusion_request, non_inclusion_request
from shared.trees.field import ZERO
from shared.trees.indexed_merkle_tree import LARGEST_VALUE, Absence

# Numbers of accounts and addresses for which keys exist, by heights of the trees.
_INCLUSION = {26: frozenset({1, 2, 3, 4, 8}), 32: frozenset(range(1, 21))}
_NON_INCLUSION = {26: frozenset({1, 2}), 40: frozenset(range(1, 33))}
_COMBINED = {(26, 26): (4, 2), (32, 40): (4, 4)}


@dataclass(frozen=True, slots=True)
class Statement:
    """Statement of a validity proof: leaves and absent addresses, in the order of the request."""

    slot: int
    leaves: list[LeafProof]
    absences: list[AbsenceProof]

    @property
    def proved(self) -> list[LeafProof]:
        """Leaves that the proof is about; queued ones are shown by their index on chain."""
        return [leaf for leaf in self.leaves if leaf.path is not None]

    def request(self) -> Json | None:
        """Return the body for the prover, None if nothing is to be proved."""
        if not self.proved and not self.absences:
            return None
        _require_keys(self)
        members = [
            Membership(leaf.tree.root, leaf.leaf_index, leaf.hash, tuple(leaf.path or ())) for leaf in self.proved
        ]
        absences = [
            Absence(address_version(one.tree), one.tree.root, one.address, one.low, tuple(one.path))
            for one in self.absences
        ]
        if members and absences:
            return _body(combined_request(members, absences))
        if members:
            return _body(inclusion_request(members, 2 if self.proved[0].tree.batched else 1))
        return _body(non_inclusion_request(absences))


def _body(request: MerkleRequest) -> Json:
    members: Json = msgspec.json.decode(encode_request(request))
    return members


def state_v1(snapshot: Snapshot, params: ValidityProof) -> Statement:
    """Return the statement that the older method proves."""
    if params.new_addresses and params.new_addresses_with_trees:
        raise validation("Cannot provide both newAddresses and newAddressesWithTree")
    wanted: list[tuple[bytes, bytes]] = [(address, DEFAULT_ADDRESS_TREE_V1) for address in params.new_addresses]
    wanted += [(one.address, one.tree) for one in params.new_addresses_with_trees]
    if not params.hashes and not wanted:
        raise validation("No hashes or new addresses provided for proof generation")
    _refuse_spent_v1(snapshot, params.hashes)
    leaves = leaf_proofs(snapshot, params.hashes, allow_queued=False) if params.hashes else []
    return Statement(snapshot.slot, leaves, _absences(snapshot, wanted))


def state_v2(snapshot: Snapshot, params: ValidityProofV2) -> Statement:
    """Gather what the newer method proves."""
    _refuse_spent_v2(snapshot, params.hashes)
    leaves = leaf_proofs(snapshot, params.hashes, allow_queued=True) if params.hashes else []
    wanted: list[tuple[bytes, bytes]] = [(one.address, one.tree) for one in params.new_addresses_with_trees]
    return Statement(snapshot.slot, leaves, _absences(snapshot, wanted))


def compressed(proof: Any) -> Json:
    """Return the prover's proof in the bytes that programs accept. Raise RpcError if it is none."""
    try:
        points = compress_proof(msgspec.convert(proof, ProofJson))
    except ValueError:
        raise internal("the answer of the prover is not a proof") from None
    return {"a": list(points.a), "b": list(points.b), "c": list(points.c)}


def answer_v1(statement: Statement, proof: Any) -> Json:
    """Return the result of the older method: accounts first, then addresses, in parallel lists."""
    leaves, absences = statement.leaves, statement.absences
    trees = [*(leaf.tree for leaf in leaves), *(absence.tree for absence in absences)]
    return {
        "value": {
            "compressedProof": compressed(proof),
            "roots": [encode(tree.root) for tree in trees],
            "rootIndices": [tree.root_index for tree in trees],
            "leafIndices": [*(leaf.leaf_index for leaf in leaves), *(absence.low.index for absence in absences)],
            "leaves": [encode(value) for value in [*(x.hash for x in leaves), *(x.address for x in absences)]],
            "merkleTrees": [encode(tree.key) for tree in trees],
        },
        "context": {"slot": statement.slot},
    }


def answer_v2(statement: Statement, proof: Any) -> Json:
    """Return the result of the newer method; ``proof`` is None where all accounts are queued."""
    return {
        "value": {
            "compressedProof": None if proof is None else compressed(proof),
            "accounts": [_account_v2(leaf) for leaf in statement.leaves],
            "addresses": [_address_v2(absence) for absence in statement.absences],
        },
        "context": {"slot": statement.slot},
    }


def _account_v2(leaf: LeafProof) -> Json:
    queued, tree = leaf.path is None, leaf.tree
    return {
        "hash": encode(leaf.hash),
        "root": encode(ZERO if queued else tree.root),
        "rootIndex": {"rootIndex": 0 if queued else tree.root_index, "proveByIndex": queued},
        "leafIndex": leaf.leaf_index,
        "merkleContext": merkle_context(tree.tree_type, tree.key, tree.queue),
    }


def _address_v2(absence: AbsenceProof) -> Json:
    tree = absence.tree
    return {
        "address": encode(absence.address),
        "root": encode(tree.root),
        "rootIndex": tree.root_index,
        "merkleContext": merkle_context(tree.tree_type, tree.key, tree.queue),
    }


def _unspent(snapshot: Snapshot, hashes: list[Hash]) -> set[bytes]:
    marks = ",".join("?" * len(hashes))
    rows = snapshot.connection.execute(
        f"SELECT hash FROM accounts WHERE hash IN ({marks}) AND NOT spent",  # noqa: S608
        tuple(hashes),
    )
    return {leaf for (leaf,) in rows}


def _refuse_spent_v1(snapshot: Snapshot, hashes: list[Hash]) -> None:
    unspent = _unspent(snapshot, hashes) if hashes else set()
    found = sum(leaf in unspent for leaf in hashes)
    if found < len(hashes):
        raise not_found(f"Leaf nodes not found for hashes. Got {found} hashes. Expected {len(hashes)}.")


def _refuse_spent_v2(snapshot: Snapshot, hashes: list[Hash]) -> None:
    found = _unspent(snapshot, hashes) if hashes else set()
    if any(leaf not in found for leaf in hashes):
        asked, got = (", ".join(encode(leaf) for leaf in some) for some in (hashes, [h for h in hashes if h in found]))
        raise validation(f"No account or already spent for some hashes. Requested [{asked}], found [{got}]")


def _absences(snapshot: Snapshot, wanted: list[tuple[bytes, bytes]]) -> list[AbsenceProof]:
    """Return proofs of addresses below the end of the list and in no queue; other methods also prove those."""
    for address, _ in wanted:
        if address >= LARGEST_VALUE:
            raise validation(f"Address {encode(address)} is out of range")
    absences = absence_proofs(snapshot, wanted)
    for absence in absences:
        if is_queued(snapshot, absence.tree, absence.address):
            raise already_exists(absence.address)
    return absences


def _require_keys(statement: Statement) -> None:
    """Refuse numbers and mixtures of trees for which no proving key exists."""
    state = {leaf.tree.height for leaf in statement.proved}
    address = {absence.tree.height for absence in statement.absences}
    accounts, addresses = len(statement.proved), len(statement.absences)
    if len(state) > 1 or len(address) > 1:
        raise validation("All trees of one kind must be of one version")
    if state and address:
        limits = _COMBINED.get((state.pop(), address.pop()))
        if limits is None:
            raise validation("State and address trees must be of one version")
        if accounts > limits[0] or addresses > limits[1]:
            raise validation(f"At most {limits[0]} hashes and {limits[1]} new addresses can be proved together")
        return
    counts = _INCLUSION[state.pop()] if state else _NON_INCLUSION[address.pop()]
    if max(accounts, addresses) not in counts:
        allowed = ", ".join(map(str, sorted(counts)))
        raise validation(f"Invalid number of {'hashes' if accounts else 'new addresses'}. Allowed: {allowed}")
