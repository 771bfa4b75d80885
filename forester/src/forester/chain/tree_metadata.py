"""First bytes of all trees and queues: kind, owner, rollover (forester/docs/reference/accounts.md, "Metadata")."""

import enum
import struct
from dataclasses import dataclass

from solders.pubkey import Pubkey

from forester.chain import bounds
from forester.errors import MalformedAccount

BATCHED_TREE_DISCRIMINATOR = b"BatchMta"
OUTPUT_QUEUE_DISCRIMINATOR = b"queueacc"
STATE_TREE_V1_DISCRIMINATOR = bytes.fromhex("ac2bacba1d49db54")
ADDRESS_TREE_V1_DISCRIMINATOR = bytes.fromhex("0ba1af09d4e54949")
QUEUE_V1_DISCRIMINATOR = bytes.fromhex("a4c86c3e573f7b41")

METADATA_BYTES = 264
"""Length of the slice of a tree's account that ``decode_tree_metadata`` needs."""

_METADATA = struct.Struct("<32s32s32s7Q32s32s")


class TreeKind(enum.Enum):
    """Kinds of trees, with their numbers in the protocol."""

    STATE_V1 = 1
    ADDRESS_V1 = 2
    STATE_V2 = 3
    ADDRESS_V2 = 4

    @property
    def label(self) -> str:
        """Name as status, metrics and the indexer spell it."""
        return {1: "StateV1", 2: "AddressV1", 3: "StateV2", 4: "AddressV2"}[self.value]

    @property
    def height(self) -> int:
        """Height that the programs give to trees of the kind; trees of tests are lower."""
        return {1: 26, 2: 26, 3: 32, 4: 40}[self.value]

    @property
    def is_batched(self) -> bool:
        """Return whether the tree is a V2 tree."""
        return self in (TreeKind.STATE_V2, TreeKind.ADDRESS_V2)


@dataclass(frozen=True)
class Metadata:
    """Access and rollover of an account.

    ``associated`` is the queue of a tree or the tree of a queue, ``successor`` the account that replaced this one.
    Fees in lamports; ``rollover_threshold`` in percent of the capacity.
    """

    owner: Pubkey
    program_owner: Pubkey
    forester: Pubkey
    rollover_index: int
    rollover_fee: int
    rollover_threshold: int
    network_fee: int
    rolledover_slot: int | None
    close_threshold: int
    additional_bytes: int
    associated: Pubkey
    successor: Pubkey

    @property
    def is_rolled_over(self) -> bool:
        """Return whether another account replaced this one; queued elements must still be processed."""
        return self.rolledover_slot is not None


@dataclass(frozen=True)
class TreeMetadata:
    """A tree as discovery sees it."""

    address: Pubkey
    kind: TreeKind
    metadata: Metadata

    @property
    def queue(self) -> Pubkey:
        """The account that holds the tree's queue: the tree itself for V2 address trees."""
        return self.address if self.kind is TreeKind.ADDRESS_V2 else self.metadata.associated

    @property
    def eligibility_key(self) -> Pubkey:
        """The key that light slots are drawn for: the tree of V2, the queue of V1."""
        return self.address if self.kind.is_batched else self.metadata.associated


def decode_metadata(data: bytes, offset: int) -> Metadata:
    """Decode the metadata at ``offset``; MalformedAccount if the data ends before."""
    if len(data) < offset + _METADATA.size:
        raise MalformedAccount(f"{len(data)} bytes are too few for the metadata of a tree or queue")
    owner, program_owner, forester, *numbers, associated, successor = _METADATA.unpack_from(data, offset)
    index, fee, threshold, network_fee, rolledover, close, additional = numbers
    account = "metadata of a tree or queue"
    bounds.check_all(account, bounds.LARGEST_LAMPORTS, rollover_fee=fee, network_fee=network_fee)
    bounds.check(account, "additional_bytes", additional, bounds.LARGEST_ACCOUNT_BYTES)
    if threshold != bounds.NEVER:
        bounds.check(account, "rollover_threshold", threshold, 100)
    if rolledover != bounds.NEVER:
        bounds.check(account, "rolledover_slot", rolledover, bounds.LARGEST_COUNT)
    return Metadata(
        owner=Pubkey(owner),
        program_owner=Pubkey(program_owner),
        forester=Pubkey(forester),
        rollover_index=index,
        rollover_fee=fee,
        rollover_threshold=threshold,
        network_fee=network_fee,
        rolledover_slot=None if rolledover == bounds.NEVER else rolledover,
        close_threshold=close,
        additional_bytes=additional,
        associated=Pubkey(associated),
        successor=Pubkey(successor),
    )


def decode_tree_metadata(address: Pubkey, data: bytes) -> TreeMetadata:
    """Decode the first METADATA_BYTES of a tree; MalformedAccount if it is none."""
    discriminator = data[:8]
    if discriminator == BATCHED_TREE_DISCRIMINATOR:
        number = int.from_bytes(data[8:16], "little")
        if number not in (TreeKind.STATE_V2.value, TreeKind.ADDRESS_V2.value):
            raise MalformedAccount(f"{address}: a batched tree of the unknown kind {number}")
        return TreeMetadata(address, TreeKind(number), decode_metadata(data, 16))
    kinds = {STATE_TREE_V1_DISCRIMINATOR: TreeKind.STATE_V1, ADDRESS_TREE_V1_DISCRIMINATOR: TreeKind.ADDRESS_V1}
    if discriminator not in kinds:
        raise MalformedAccount(f"{address} is not a tree: discriminator {discriminator.hex() or 'absent'}")
    return TreeMetadata(address, kinds[discriminator], decode_metadata(data, 8))
