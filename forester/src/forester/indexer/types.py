"""Answers of a Photon-compatible indexer as JSON spells them (forester/docs/reference/indexer.md, "Methods").

Unknown members are ignored, missing ones are errors: an indexer may be newer than the forester. Hashes, keys and
addresses travel as base58 and are 32 bytes here.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from solders.hash import Hash as _SoldersHash
from solders.hash import ParseHashError

_T = TypeVar("_T")
Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""A slot, an index or a sequence number; the largest, indices of tree nodes, have 62 bits."""

_LARGEST_AMOUNT = 2**64 - 1  # msgspec has no upper bound this large
Byte = Annotated[int, msgspec.Meta(ge=0, le=255)]


class Hash32(bytes):
    """32 bytes: a hash, a root, a key or an address."""

    __slots__ = ()

    def __str__(self) -> str:
        return str(_SoldersHash(self))


class _Wire(msgspec.Struct, rename="camel", frozen=True):
    """Base of all."""


class Answer(_Wire, Generic[_T], frozen=True):
    """Answer of a method that returns a ``value``."""

    value: _T


class Page(_Wire, Generic[_T], frozen=True):
    """Some of an answer's items; ``cursor`` is the position of the next ones, None after the last."""

    items: tuple[_T, ...]
    cursor: str | None = None


class Context(_Wire, frozen=True):
    """``slot`` is the highest slot indexed when the request began; the data can only be newer."""

    slot: Number


@dataclass(frozen=True)
class QueueQuery:
    """Request for elements of one queue: at most ``limit``, from ``start_index`` on or from the head."""

    limit: int
    zkp_batch_size: int
    start_index: int | None = None

    def params(self) -> dict[str, int]:
        """Return the members of the request."""
        given = {"limit": self.limit, "startIndex": self.start_index, "zkpBatchSize": self.zkp_batch_size}
        return {name: value for name, value in given.items() if value is not None}


class Node(_Wire, frozen=True, kw_only=True):
    """A tree node; ``index`` is level * 2^56 + position, level 0 being the leaves."""

    index: Number
    hash: Hash32


class OutputQueue(_Wire, frozen=True, kw_only=True):
    """Values waiting to be appended, parallel columns in order of their leaf index.

    ``leaves`` are the tree's values at these positions now: zero, or the nullifier of an account spent meanwhile.
    """

    leaf_indices: tuple[Number, ...]
    account_hashes: tuple[Hash32, ...]
    leaves: tuple[Hash32, ...]
    first_queue_index: Number
    next_index: Number


class InputQueue(_Wire, frozen=True, kw_only=True):
    """Spent accounts waiting for their nullification, parallel columns in order of their queue index.

    ``leaves`` are the tree's values now. The nullifiers follow from the other columns.
    """

    leaf_indices: tuple[Number, ...]
    account_hashes: tuple[Hash32, ...]
    leaves: tuple[Hash32, ...]
    tx_hashes: tuple[Hash32, ...]
    first_queue_index: Number


class StateQueue(_Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Both queues of a state tree with the nodes that their leaves need, all of one snapshot."""

    nodes: tuple[Node, ...] = ()
    initial_root: Hash32
    root_seq: Number
    output_queue: OutputQueue | None = None
    input_queue: InputQueue | None = None


class AddressQueue(_Wire, frozen=True, kw_only=True):
    """Addresses waiting for their insertion, parallel columns in order of their queue index.

    Low elements are those of the snapshot, not of earlier addresses in the list. ``start_index`` is the next leaf
    index of the tree, one greater than the queue index of the first waiting address.
    """

    addresses: tuple[Hash32, ...]
    queue_indices: tuple[Number, ...]
    nodes: tuple[Node, ...] = ()
    low_element_indices: tuple[Number, ...]
    low_element_values: tuple[Hash32, ...]
    low_element_next_indices: tuple[Number, ...]
    low_element_next_values: tuple[Hash32, ...]
    initial_root: Hash32
    start_index: Number
    subtrees: tuple[Hash32, ...]
    root_seq: Number


class QueueElements(_Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Answer of getQueueElements; a state tree without a full batch has no ``state_queue``."""

    context: Context
    state_queue: StateQueue | None = None
    address_queue: AddressQueue | None = None


class AccountProof(_Wire, frozen=True):
    """A leaf of a state tree and its siblings, leaf level first."""

    proof: tuple[Hash32, ...]
    root: Hash32
    leaf_index: Number
    hash: Hash32
    merkle_tree: Hash32
    root_seq: Number


class AddressProof(_Wire, frozen=True):
    """Proof that an address is not in its tree: the low element, its successor, and its siblings."""

    root: Hash32
    address: Hash32
    lower_range_address: Hash32
    higher_range_address: Hash32
    next_index: Number
    proof: tuple[Hash32, ...]
    merkle_tree: Hash32
    root_seq: Number
    low_element_leaf_index: Number


class CompressedAccount(_Wire, frozen=True):
    """A compressed account, by the hash that is its leaf."""

    hash: Hash32
    address: Hash32 | None = None


class ProofPoints(_Wire, frozen=True):
    """A compressed Groth16 proof: a and c of 32 bytes, b of 64."""

    a: tuple[Byte, ...]
    b: tuple[Byte, ...]
    c: tuple[Byte, ...]


class RootIndex(_Wire, frozen=True):
    """Index of the root that a proof is about, or that the account is still in the queue."""

    root_index: Annotated[int, msgspec.Meta(ge=0, lt=2**16)]
    prove_by_index: bool


class MerkleContext(_Wire, frozen=True):
    """The tree and the queue of an account."""

    tree: Hash32
    queue: Hash32


class ProvedAccount(_Wire, frozen=True):
    """An account of a validity proof, and its position."""

    hash: Hash32
    root_index: RootIndex
    leaf_index: Annotated[int, msgspec.Meta(ge=0, lt=2**32)]
    merkle_context: MerkleContext


class Validity(_Wire, frozen=True):
    """A proof that accounts exist; None if all are still in their queues."""

    accounts: tuple[ProvedAccount, ...]
    compressed_proof: ProofPoints | None = None


class TokenData(_Wire, frozen=True):
    """Balance of a compressed token account, in the smallest unit of its mint."""

    mint: Hash32
    amount: int

    def __post_init__(self) -> None:
        _check_amount(self.amount)


class TokenAccount(_Wire, frozen=True):
    """A compressed token account."""

    token_data: TokenData


class TokenBalance(_Wire, frozen=True):
    """Total balance of an owner in a mint, over all accounts."""

    mint: Hash32
    balance: int

    def __post_init__(self) -> None:
        _check_amount(self.balance)


def _check_amount(amount: int) -> None:
    if not 0 <= amount <= _LARGEST_AMOUNT:
        raise ValueError("expected an amount of 64 bits")


def decode_base58(kind: type, value: Any) -> Any:
    """Read a Hash32; the hook of msgspec decoders."""
    if kind is not Hash32:
        raise NotImplementedError(kind)
    if not isinstance(value, str):
        raise ValueError(f"expected base58 text, got {type(value).__name__}")
    try:
        return Hash32(bytes(_SoldersHash.from_string(value)))
    except ParseHashError:
        raise ValueError("expected base58 of 32 bytes") from None
