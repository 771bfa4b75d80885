"""Parameters of the methods, decoded strictly: unknown members and wrong types are refused.

Source: forester/docs/reference/indexer.md, "Methods".
"""

from typing import Annotated, Any, TypeVar

import msgspec

from localnet.base58 import HASH_BYTES, SIGNATURE_BYTES, decode
from localnet.indexer.api.errors import invalid_params, validation

LONGEST_LIST = 1000
LARGEST_PAGE = 1000
_LARGEST_U64 = 2**64 - 1

PageLimit = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_PAGE)]
U16 = Annotated[int, msgspec.Meta(ge=0, le=2**16 - 1)]


class Hash(bytes):
    """A hash, key or address: base58 of 32 bytes on the wire."""


class Signature(bytes):
    """A transaction signature: base58 of 64 bytes on the wire."""


class Base58(bytes):
    """Base58 of any length: cursors and filters."""


class U64(int):
    """A 64-bit number: a JSON number or a decimal string."""


class _Params(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Base of parameter objects."""


class Page(_Params, frozen=True, kw_only=True):
    """A page of all entries, and the base of pages of some of them."""

    cursor: Base58 | None = None
    limit: PageLimit | None = None

    @property
    def size(self) -> int:
        """Maximum number of entries."""
        return LARGEST_PAGE if self.limit is None else self.limit


class AccountOrAddress(_Params, frozen=True):
    """One account, by address or by hash."""

    address: Hash | None = None
    hash: Hash | None = None


class HashOnly(_Params, frozen=True):
    """One hash."""

    hash: Hash


class Owner(_Params, frozen=True):
    """One owner."""

    owner: Hash


class HashesOrAddresses(_Params, frozen=True):
    """Several accounts, by one of the two lists."""

    hashes: list[Hash] | None = None
    addresses: list[Hash] | None = None


class Memcmp(_Params, frozen=True):
    """Bytes that the data must hold at an offset."""

    offset: Annotated[int, msgspec.Meta(ge=0)]
    bytes: Base58


class Filter(_Params, frozen=True):
    """One condition on the data of an account."""

    memcmp: Memcmp


class DataSlice(_Params, frozen=True):
    """The part of the data that is wanted."""

    offset: Annotated[int, msgspec.Meta(ge=0)]
    length: Annotated[int, msgspec.Meta(ge=0)]


class AccountsByOwner(Page, frozen=True):
    """A page of an owner's accounts."""

    owner: Hash
    filters: list[Filter] | None = None
    data_slice: DataSlice | None = None


class AddressPage(Page, frozen=True):
    """A page of what belongs to an address."""

    address: Hash


class OwnerPage(Page, frozen=True):
    """A page of an owner's entries."""

    owner: Hash


class TokensByOwner(Page, frozen=True):
    """A page of an owner's tokens, of one mint or of all."""

    owner: Hash
    mint: Hash | None = None


class TokensByDelegate(Page, frozen=True):
    """A page of the tokens that a delegate may move."""

    delegate: Hash
    mint: Hash | None = None


class TokenHolders(Page, frozen=True):
    """A page of the holders of a mint."""

    mint: Hash


class TransactionName(_Params, frozen=True):
    """One transaction."""

    signature: Signature


class AddressWithTree(_Params, frozen=True):
    """An address and the tree that it will be inserted into."""

    address: Hash
    tree: Hash


class ValidityProof(_Params, frozen=True):
    """Accounts that exist and addresses that do not, in the older form."""

    hashes: list[Hash] = []
    new_addresses: list[Hash] = []
    new_addresses_with_trees: list[AddressWithTree] = []


class ValidityProofV2(_Params, frozen=True):
    """Accounts that exist and addresses that do not."""

    hashes: list[Hash] = []
    new_addresses_with_trees: list[AddressWithTree] = []


class QueuePart(_Params, frozen=True):
    """A page of a queue; ``limit`` in elements."""

    limit: U16
    start_index: U64 | None = None
    zkp_batch_size: U16 | None = None


class QueueElements(_Params, frozen=True):
    """Pages of the queues of a tree."""

    tree: Hash
    output_queue: QueuePart | None = None
    input_queue: QueuePart | None = None
    address_queue: QueuePart | None = None


class QueueTrees(_Params, frozen=True):
    """Trees whose queues are wanted, all where absent."""

    trees: list[Hash] | None = None


class LeafIndices(_Params, frozen=True):
    """A page of the nullifier queue of a tree."""

    tree: Hash
    limit: U16
    start_index: U64 | None = None


class Interface(_Params, frozen=True):
    """One account, on chain or compressed."""

    address: Hash
    commitment: str | None = None


class Interfaces(_Params, frozen=True):
    """Several accounts, on chain or compressed."""

    addresses: list[Hash]
    commitment: str | None = None


_LENGTHS: dict[type, int | None] = {Hash: HASH_BYTES, Signature: SIGNATURE_BYTES, Base58: None}
_LONGEST_BASE58 = 512

Wanted = TypeVar("Wanted")


def decode_params(params: object, wanted: type[Wanted]) -> Wanted:
    """Read the parameters of a method as ``wanted``, a struct or a list; raise RpcError otherwise."""
    if params is None or (params == [] and isinstance(wanted, type) and issubclass(wanted, msgspec.Struct)):
        params = {}
    if isinstance(params, dict) and isinstance(wanted, type) and issubclass(wanted, msgspec.Struct):
        _refuse_unknown(params, wanted)
    try:
        return msgspec.convert(params, wanted, dec_hook=_decode)
    except msgspec.ValidationError as fault:
        raise invalid_params(str(fault)) from None


def require_short(items: list[Any], what: str) -> None:
    """Refuse a list of more items than a request may name."""
    if len(items) > LONGEST_LIST:
        raise validation(f"Too many {what} requested {len(items)}. Maximum allowed: {LONGEST_LIST}")


def _refuse_unknown(params: dict[str, Any], wanted: type[msgspec.Struct]) -> None:
    known = wanted.__struct_encode_fields__
    unknown = next((name for name in params if name not in known), None)
    if unknown is not None:
        names = [f"`{name}`" for name in known]
        if len(names) == 1:
            expected = names[0]
        elif len(names) == 2:
            expected = " or ".join(names)
        else:
            expected = "one of " + ", ".join(names)
        raise invalid_params(f"unknown field `{str(unknown)[:80]}`, expected {expected}")


def _decode(wanted: type, value: object) -> object:
    if wanted is U64:
        return _u64(value)
    if not isinstance(value, str):
        raise ValueError(f"expected a base58 string, got {type(value).__name__}")
    length = _LENGTHS[wanted]
    if length is None and len(value) > _LONGEST_BASE58:
        raise ValueError(f"base58 of more than {_LONGEST_BASE58} characters")
    return wanted(decode(value, length))


def _u64(value: object) -> U64:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 20:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LARGEST_U64:
        raise ValueError("expected a 64-bit unsigned number")
    return U64(value)
