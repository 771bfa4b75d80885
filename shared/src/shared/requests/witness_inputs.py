"""Hashes that circuits compute, and valid proof requests made from trees.

Source: shared/docs/hashing.md, "Hash chains", "Public inputs" and "Batches". All elements are 32 bytes,
big-endian. The builders of batch requests write to the given tree: begin a stage first to be able to roll back.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from shared.requests.circuit_id import CircuitId, CircuitKind
from shared.requests.circuit_inputs import (
    INCLUSION_PART,
    NEXT_INDICES,
    NON_INCLUSION_PART,
    PUBLIC_INPUT_HASH,
    Request,
    inputs_of,
    request_of,
)
from shared.requests.proof_wire import (
    BatchAddressAppendRequest,
    BatchAppendRequest,
    BatchUpdateRequest,
    CombinedRequest,
    InclusionRequest,
    MerkleRequest,
    NonInclusionRequest,
    ProofRequest,
)
from shared.trees.field import FIELD_BYTES, ZERO, parse_scalar
from shared.trees.indexed_merkle_tree import Absence, IndexedMerkleTree
from shared.trees.merkle_tree import MerkleTree, require_element
from shared.trees.poseidon import hash2, hash3, hash_chain, hash_many

_MAXIMUM_PATH_INDEX = 2**32 - 1


def chain(elements: Sequence[bytes]) -> bytes:
    """Return the chain of elements by the two-input hash; zero for none."""
    return hash_chain(b"".join(elements))


def chain2(first: Sequence[bytes], second: Sequence[bytes]) -> bytes:
    """Fold pairs: the two-input hash of the first pair, then the three-input hash with each further one.

    Raises ValueError for no pairs and for sequences of different lengths.
    """
    pairs = list(zip(first, second, strict=True))
    if not pairs:
        raise ValueError("a chain of pairs needs at least one pair")
    folded = hash2(*pairs[0])
    for pair in pairs[1:]:
        folded = hash3(folded, *pair)
    return folded


def index_element(index: int) -> bytes:
    """Return a leaf index or slot as a field element."""
    return index.to_bytes(FIELD_BYTES, "big")


def nullifier(account: bytes, leaf_index: int, tx_hash: bytes) -> bytes:
    """Return the nullifier, which replaces an account in its tree when a transaction spends it."""
    return hash3(account, index_element(leaf_index), tx_hash)


def tx_hash(inputs: Sequence[bytes], outputs: Sequence[bytes], slot: int) -> bytes:
    """Return the hash of a transaction over the accounts that it spends and creates."""
    return chain([ZERO, chain(inputs), chain(outputs), index_element(slot)])


def append_input_hash(old_root: bytes, new_root: bytes, contents: bytes, start_index: int) -> bytes:
    """Return the public input of batch (address) append; ``contents`` is the chain of leaves or values."""
    return chain([old_root, new_root, contents, index_element(start_index)])


def update_input_hash(old_root: bytes, new_root: bytes, nullifiers: bytes) -> bytes:
    """Return the public input of batch update; ``nullifiers`` is their chain."""
    return chain([old_root, new_root, nullifiers])


def public_inputs(request: ProofRequest) -> list[bytes]:
    """Return the public inputs of a request, computed from its other members. Raises ValueError for an empty one.

    Chains are computed again; roots are those of the request.
    """
    match request:
        case BatchUpdateRequest():
            columns = zip(request.leaves, request.path_indices, request.tx_hashes, strict=True)
            spent = [nullifier(_element(leaf), index, _element(tx)) for leaf, index, tx in columns]
            return [update_input_hash(_element(request.old_root), _element(request.new_root), chain(spent))]
        case BatchAppendRequest() | BatchAddressAppendRequest():
            texts = request.leaves if isinstance(request, BatchAppendRequest) else request.new_element_values
            roots = _element(request.old_root), _element(request.new_root)
            return [append_input_hash(*roots, chain([_element(text) for text in texts]), request.start_index)]
        case _:
            return _merkle_public_inputs(request)


class Membership(Struct, frozen=True):
    """A proof that a leaf is in the tree of this root; ``path`` has the siblings from the leaf level upwards."""

    root: bytes
    index: int
    leaf: bytes
    path: tuple[bytes, ...]


class SpentAccount(Struct, frozen=True):
    """An account to be nullified: its hash, its index, and the transaction that spends it."""

    account: bytes
    leaf_index: int
    tx_hash: bytes

    @property
    def nullifier(self) -> bytes:
        """Return its nullifier."""
        return nullifier(self.account, self.leaf_index, self.tx_hash)


def membership(tree: MerkleTree, index: int) -> Membership:
    """Return the membership of a leaf in the current tree."""
    return Membership(tree.root, index, tree.leaf(index), tree.proof(index))


def inclusion_request(members: Sequence[Membership], version: int) -> InclusionRequest:
    """Return a request for memberships in trees of one height."""
    circuit = CircuitId(CircuitKind.INCLUSION, version, (_height(members),), (len(members),))
    return _merkle_request(InclusionRequest, circuit, _chain_of_members(members), _of_members(members))


def non_inclusion_request(absences: Sequence[Absence]) -> NonInclusionRequest:
    """Return a request for absences from address trees of one version and height."""
    circuit = CircuitId(CircuitKind.NON_INCLUSION, _version(absences), (_height(absences),), (len(absences),))
    return _merkle_request(NonInclusionRequest, circuit, _chain_of_absences(absences), _of_absences(absences))


def combined_request(members: Sequence[Membership], absences: Sequence[Absence]) -> CombinedRequest:
    """Return a request for memberships and absences; the address trees determine the version."""
    heights, sizes = (_height(members), _height(absences)), (len(members), len(absences))
    circuit = CircuitId(CircuitKind.COMBINED, _version(absences), heights, sizes)
    both = hash2(_chain_of_members(members), _chain_of_absences(absences))
    values = {INCLUSION_PART + name: column for name, column in _of_members(members).items()}
    values |= {NON_INCLUSION_PART + name: column for name, column in _of_absences(absences).items()}
    return _merkle_request(CombinedRequest, circuit, both, values)


def batch_append_request(tree: MerkleTree, leaves: Sequence[bytes]) -> BatchAppendRequest:
    """Append a batch to a state tree; return the request for its proof. Slots with a nullifier keep it.

    Raises ValueError for an empty batch and TreeFull.
    """
    _require_batch(leaves)
    start, old_root = tree.next_index, tree.root
    written = tree.append_proved(leaves)
    contents = chain(leaves)
    values = {
        PUBLIC_INPUT_HASH: append_input_hash(old_root, tree.root, contents, start),
        "OldRoot": old_root,
        "NewRoot": tree.root,
        "LeavesHashchainHash": contents,
        "StartIndex": start,
        "OldLeaves": [write.old for write in written],
        "Leaves": leaves,
        "MerkleProofs": [write.path for write in written],
    }
    return request_of(BatchAppendRequest, _batch(CircuitKind.BATCH_APPEND, tree.height, leaves), values)


def batch_update_request(tree: MerkleTree, spent: Sequence[SpentAccount]) -> BatchUpdateRequest:
    """Nullify a batch of accounts in a state tree; return the request for its proof.

    An account need not have been appended yet. Raises ValueError for an empty batch and an index beyond 32 bits.
    """
    _require_batch(spent)
    indices = [_path_index(account.leaf_index) for account in spent]
    old_root = tree.root
    columns = [(account.account, index_element(account.leaf_index), account.tx_hash) for account in spent]
    hashed = hash_many(b"".join(require_element(field) for row in columns for field in row), 3)
    nullifiers = [hashed[place : place + FIELD_BYTES] for place in range(0, len(hashed), FIELD_BYTES)]
    written = tree.set_proved(zip(indices, nullifiers, strict=True))
    contents = chain(nullifiers)
    values = {
        PUBLIC_INPUT_HASH: update_input_hash(old_root, tree.root, contents),
        "OldRoot": old_root,
        "NewRoot": tree.root,
        "LeavesHashchainHash": contents,
        "TxHashes": [account.tx_hash for account in spent],
        "Leaves": [account.account for account in spent],
        "OldLeaves": [write.old for write in written],
        "MerkleProofs": [write.path for write in written],
        "PathIndices": indices,
    }
    return request_of(BatchUpdateRequest, _batch(CircuitKind.BATCH_UPDATE, tree.height, spent), values)


def batch_address_append_request(tree: IndexedMerkleTree, values: Sequence[bytes]) -> BatchAddressAppendRequest:
    """Insert a batch of values into an address tree of version 2; return the request for its proof.

    Raises ValueError for an empty batch or a tree of version 1, and what ``IndexedMerkleTree.insert_many`` raises.
    """
    _require_batch(values)
    if tree.version != 2:
        raise ValueError("only address trees of version 2 accept batches")
    start, old_root = tree.next_index, tree.root
    inserted = tree.insert_many(values)
    contents = chain(values)
    circuit_values = {
        PUBLIC_INPUT_HASH: append_input_hash(old_root, tree.root, contents, start),
        "OldRoot": old_root,
        "NewRoot": tree.root,
        "HashchainHash": contents,
        "StartIndex": start,
        "LowElementValues": [step.low.value for step in inserted],
        "LowElementNextValues": [step.low.next_value for step in inserted],
        "LowElementIndices": [index_element(step.low.index) for step in inserted],
        "LowElementProofs": [step.low_write.path for step in inserted],
        "NewElementValues": values,
        "NewElementProofs": [step.new_write.path for step in inserted],
    }
    circuit = _batch(CircuitKind.BATCH_ADDRESS_APPEND, tree.height, values)
    return request_of(BatchAddressAppendRequest, circuit, circuit_values)


def _merkle_public_inputs(request: MerkleRequest) -> list[bytes]:
    claims = [each for each in inputs_of(CircuitKind(request.circuit_type), 1) if each.is_public]
    columns = [[_element(text) for text in each.values_in(request)] for each in claims]
    if request.public_input_hash is None:
        return [element for column in columns for element in column]
    # The chain of one element is that element, of two their hash.
    return [chain([chain2(*pair) for pair in zip(columns[::2], columns[1::2], strict=True)])]


def _merkle_request(model: type[Request], circuit: CircuitId, claims: bytes, values: dict[str, Any]) -> Request:
    return request_of(model, circuit, {PUBLIC_INPUT_HASH: claims, **values} if circuit.version == 2 else values)


def _batch(kind: CircuitKind, height: int, elements: Sequence[object]) -> CircuitId:
    return CircuitId(kind, 2, (height,), (len(elements),))


def _of_members(members: Sequence[Membership]) -> dict[str, Any]:
    """Return the values of the inputs of an inclusion circuit."""
    return {
        "Roots": [member.root for member in members],
        "Leaves": [member.leaf for member in members],
        "InPathIndices": [_path_index(member.index) for member in members],
        "InPathElements": [member.path for member in members],
    }


def _of_absences(absences: Sequence[Absence]) -> dict[str, Any]:
    """Return the values of the inputs of a non-inclusion circuit of the absences' version."""
    values: dict[str, Any] = {
        "Roots": [absence.root for absence in absences],
        "Values": [absence.value for absence in absences],
        "LeafLowerRangeValues": [absence.low.value for absence in absences],
        "LeafHigherRangeValues": [absence.low.next_value for absence in absences],
        "InPathIndices": [_path_index(absence.low.index) for absence in absences],
        "InPathElements": [absence.path for absence in absences],
    }
    if _version(absences) == 1:
        values[NEXT_INDICES] = [absence.low.next_index for absence in absences]
    return values


def _chain_of_members(members: Sequence[Membership]) -> bytes:
    return chain2([member.root for member in members], [member.leaf for member in members])


def _chain_of_absences(absences: Sequence[Absence]) -> bytes:
    return chain2([absence.root for absence in absences], [absence.value for absence in absences])


def _version(absences: Sequence[Absence]) -> int:
    return _same("version", [absence.version for absence in absences])


def _height(proofs: Sequence[Membership] | Sequence[Absence]) -> int:
    return _same("height", [len(proof.path) for proof in proofs])


def _same(what: str, values: Sequence[int]) -> int:
    if len(set(values)) != 1:
        raise ValueError(f"one request needs trees of one {what}, not of {sorted(set(values))}")
    return values[0]


def _require_batch(elements: Sequence[object]) -> None:
    if not elements:
        raise ValueError("a batch has at least one element")


def _path_index(index: int) -> int:
    if not 0 <= index <= _MAXIMUM_PATH_INDEX:
        raise ValueError(f"requests carry path indices of 32 bits, not {index}")
    return index


def _element(text: str) -> bytes:
    return parse_scalar(text)[0]
