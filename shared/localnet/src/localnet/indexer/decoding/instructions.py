"""Instruction data of the Light system program and of account compression.

Source: forester/docs/reference/indexer.md, "Public events".
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from localnet.borsh import MalformedData, Reader
from localnet.indexer.decoding.events import TreeRef
from localnet.indexer.decoding.hashing import AccountData, CompressedAccount
from localnet.indexer.programs import TreeType

DISCRIMINATOR_BYTES = 8
INVOKE = bytes((26, 16, 169, 7, 21, 202, 242, 25))
INVOKE_CPI = bytes((49, 212, 191, 129, 39, 194, 43, 196))
INVOKE_READ_ONLY = bytes((86, 47, 163, 166, 21, 223, 92, 8))
INVOKE_ACCOUNT_INFO = bytes((228, 34, 128, 84, 47, 139, 86, 240))
CREATE_CPI_CONTEXT = bytes((233, 112, 71, 66, 121, 33, 178, 188))

_PROOF_BYTES = 128
_NEW_ADDRESS_BYTES = 36
_NEW_ASSIGNED_ADDRESS_BYTES = 38
_LENGTH_BYTES = 4


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf for a queue or V1 tree; ``account`` counts from the third account of the instruction."""

    account: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class Nullifier:
    """A spent leaf."""

    hash: bytes
    leaf_index: int
    by_index: bool
    tree: int
    queue: int


@dataclass(frozen=True, slots=True)
class QueuedAddress:
    """An address for a queue."""

    address: bytes
    tree: int
    queue: int


@dataclass(frozen=True, slots=True)
class Sequence:
    """The state of a tree or queue before the instruction."""

    place: TreeRef
    number: int


@dataclass(frozen=True, slots=True)
class QueueInsertion:
    """Instruction ``insert_into_queues`` of account compression."""

    tx_hash: bytes
    leaves: tuple[Leaf, ...]
    nullifiers: tuple[Nullifier, ...]
    addresses: tuple[QueuedAddress, ...]
    output_sequences: tuple[Sequence, ...]
    input_sequences: tuple[Sequence, ...]
    address_sequences: tuple[Sequence, ...]
    leaf_indices: tuple[int, ...]
    context_outputs: tuple[CompressedAccount, ...]


def decode_queue_insertion(data: bytes) -> QueueInsertion:
    """Decode ``insert_into_queues``; MalformedData otherwise."""
    reader = Reader(data, DISCRIMINATOR_BYTES + _LENGTH_BYTES)
    reader.take(6)  # flags and counts that the vectors repeat
    tx_hash = reader.key()
    leaves = reader.vector(lambda: Leaf(reader.u8(), reader.key()), 1)
    nullifiers = reader.vector(
        lambda: Nullifier(reader.key(), reader.u32(), reader.flag(), reader.u8(), reader.u8()), 1
    )
    addresses = reader.vector(lambda: QueuedAddress(reader.key(), reader.u8(), reader.u8()), 1)
    sequences = [reader.vector(lambda: _sequence(reader), 1) for _ in range(3)]
    leaf_indices = reader.vector(reader.u32, 1)
    context = reader.vector(lambda: _output(reader)) if reader.remaining else []
    output, spent, address = (tuple(entry for entry in row if entry is not None) for row in sequences)
    return QueueInsertion(
        tx_hash,
        tuple(leaves),
        tuple(nullifiers),
        tuple(addresses),
        output,
        spent,
        address,
        tuple(leaf_indices),
        tuple(context),
    )


def decode_migration(data: bytes) -> bytes:
    """Return the V1 leaf that ``migrate_state`` moves into a V2 output queue; MalformedData otherwise."""
    reader = Reader(data, DISCRIMINATOR_BYTES)
    reader.u64()  # position in the changelog
    leaf = reader.key()
    reader.u64()  # leaf index
    return leaf


def decode_outputs(data: bytes) -> tuple[CompressedAccount, ...]:
    """Return the accounts that a Light system program instruction creates, in order; raise MalformedData otherwise."""
    decode = _DECODERS.get(data[:DISCRIMINATOR_BYTES])
    if decode is None:
        raise MalformedData(f"the Light system program has no known instruction {data[:DISCRIMINATOR_BYTES].hex()}")
    return tuple(decode(Reader(data, DISCRIMINATOR_BYTES)))


def _invoke(reader: Reader, *, has_addresses: bool = False) -> list[CompressedAccount]:
    reader.take(_LENGTH_BYTES)
    _proof(reader)
    if has_addresses:
        reader.vector(lambda: reader.take(_NEW_ADDRESS_BYTES))
    reader.vector(lambda: _input(reader))
    return reader.vector(lambda: _output(reader))


def _invoke_read_only(reader: Reader) -> list[CompressedAccount]:
    _header(reader)
    _proof(reader)
    reader.vector(lambda: reader.take(_NEW_ASSIGNED_ADDRESS_BYTES))
    reader.vector(lambda: _compact_input(reader))
    return reader.vector(lambda: _output(reader))


def _invoke_account_info(reader: Reader) -> list[CompressedAccount]:
    owner = _header(reader)
    _proof(reader)
    reader.vector(lambda: reader.take(_NEW_ASSIGNED_ADDRESS_BYTES))
    infos = reader.vector(lambda: _account_info(reader, owner))
    return [account for account in infos if account is not None]


_DECODERS: dict[bytes, Callable[[Reader], list[CompressedAccount]]] = {
    INVOKE: _invoke,
    INVOKE_CPI: partial(_invoke, has_addresses=True),
    INVOKE_READ_ONLY: _invoke_read_only,
    INVOKE_ACCOUNT_INFO: _invoke_account_info,
}


def _proof(reader: Reader) -> None:
    reader.option(lambda: reader.take(_PROOF_BYTES))


def _header(reader: Reader) -> bytes:
    """Read the header of the later instructions; return the invoking program, which owns the accounts."""
    reader.take(2)  # mode, bump
    program = reader.key()
    reader.take(8 + 3 + 3)  # lamports, flags, flags of the CPI context
    return program


def account_data(reader: Reader) -> AccountData:
    """Read a data section."""
    discriminator = reader.take(DISCRIMINATOR_BYTES)
    data = reader.byte_vector()
    return AccountData(discriminator, data, reader.key())


def compressed_account(reader: Reader) -> CompressedAccount:
    """Read an account."""
    owner, lamports, address = reader.key(), reader.u64(), reader.option(reader.key)
    return CompressedAccount(owner, lamports, address, reader.option(lambda: account_data(reader)))


def _output(reader: Reader) -> CompressedAccount:
    account = compressed_account(reader)
    reader.u8()  # place of the tree in the instruction's own list
    return account


def _input(reader: Reader) -> None:
    compressed_account(reader)
    reader.take(1 + 1 + 4 + 1 + 2 + 1)  # tree, queue, leaf index, by index, root index, read only


def _compact_input(reader: Reader) -> None:
    reader.take(8 + 32 + 1 + 1 + 4 + 1 + 2 + 8)
    reader.option(reader.key)


def _account_info(reader: Reader, owner: bytes) -> CompressedAccount | None:
    address = reader.option(reader.key)
    reader.option(lambda: reader.take(8 + 32 + 1 + 1 + 4 + 1 + 2 + 8))
    return reader.option(lambda: _info_output(reader, owner, address))


def _info_output(reader: Reader, owner: bytes, address: bytes | None) -> CompressedAccount:
    discriminator, data_hash = reader.take(DISCRIMINATOR_BYTES), reader.key()
    reader.u8()  # place of the tree
    lamports = reader.u64()
    return CompressedAccount(owner, lamports, address, AccountData(discriminator, reader.byte_vector(), data_hash))


def _sequence(reader: Reader) -> Sequence | None:
    """Read one entry; return None for an unused one."""
    tree, queue, number, sequence = reader.key(), reader.key(), reader.u64(), reader.u64()
    if not any(tree):
        return None
    try:
        tree_type = TreeType(number)
    except ValueError:
        raise MalformedData(f"there is no tree type {number}") from None
    return Sequence(TreeRef(tree, queue, tree_type), sequence)
