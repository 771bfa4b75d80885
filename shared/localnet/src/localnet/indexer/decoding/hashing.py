"""Hashes of compressed accounts (shared/docs/hashing.md, "Account hashes")."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from Crypto.Hash import keccak

from localnet.indexer.programs import TreeType
from shared.trees.field import FIELD_BYTES
from shared.trees.poseidon import hash_many

_LAMPORTS_MARK = 1
_DATA_MARK = 2
_MARK_PLACE = 23


@dataclass(frozen=True, slots=True)
class AccountData:
    """The data section of a compressed account."""

    discriminator: bytes
    data: bytes
    data_hash: bytes


@dataclass(frozen=True, slots=True)
class CompressedAccount:
    """A compressed account as the owner's program sees it; ``lamports`` is a 64-bit number."""

    owner: bytes
    lamports: int
    address: bytes | None
    data: AccountData | None


@lru_cache(maxsize=65536)
def hash_to_field(data: bytes) -> bytes:
    """Map bytes into the field: their Keccak-256 followed by the byte 255, with the first byte cleared."""
    digest = keccak.new(digest_bits=256, data=data + b"\xff").digest()
    return b"\0" + digest[1:]


def account_hash(account: CompressedAccount, tree: bytes, tree_type: TreeType, leaf_index: int) -> bytes:
    """Return the leaf of an account; ``tree`` is the key of its Merkle tree."""
    order = _byte_order(tree_type)
    elements = [
        hash_to_field(account.owner),
        bytes(FIELD_BYTES - 4) + leaf_index.to_bytes(4, order),
        hash_to_field(tree),
    ]
    if account.lamports:
        elements.append(_marked(_LAMPORTS_MARK, account.lamports.to_bytes(8, order)))
    if account.address is not None:
        elements.append(account.address)
    if account.data is not None:
        elements += [_marked(_DATA_MARK, account.data.discriminator), account.data.data_hash]
    return hash_many(b"".join(elements), len(elements))


def _byte_order(tree_type: TreeType) -> Literal["little", "big"]:
    return "little" if tree_type is TreeType.STATE_V1 else "big"


def _marked(mark: int, number: bytes) -> bytes:
    return bytes(_MARK_PLACE) + bytes([mark]) + number
