"""JSON shapes that several methods share (forester/docs/reference/indexer.md, "Account shapes")."""

import sqlite3
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from localnet.base58 import encode
from localnet.indexer.database.store import get_meta
from localnet.indexer.decoding.hashing import AccountData
from localnet.indexer.decoding.tokens import TokenData, token_data
from localnet.indexer.programs import TreeType

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One moment of the store, and its slot."""

    connection: sqlite3.Connection
    slot: int

    @classmethod
    def of(cls, connection: sqlite3.Connection) -> "Snapshot":
        """Return the moment that a connection reads."""
        return cls(connection, get_meta(connection, "slot"))

    def answer(self, value: object) -> Json:
        """Return a result with its context."""
        return {"context": {"slot": self.slot}, "value": value}


@dataclass(frozen=True, slots=True)
class AccountRow:
    """An account as the store has it, with its tree."""

    id: int
    hash: bytes
    address: bytes | None
    owner: bytes
    lamports: int
    data: AccountData | None
    leaf_index: int
    sequence: int | None
    slot: int
    tree: bytes
    queue: bytes
    tree_type: TreeType
    queued: bool
    spent: bool
    tx_hash: bytes | None
    nullifier: bytes | None

    @property
    def token(self) -> TokenData | None:
        """Token account that this account contains."""
        return token_data(self.owner, self.data)


ACCOUNT_COLUMNS = (
    "a.id, a.hash, a.address, a.owner, a.lamports, a.discriminator, a.data, a.data_hash, a.leaf_index, a.sequence,"
    " a.slot, t.key, t.queue, t.type, a.leaf_index >= t.next_index, a.spent, a.tx_hash, a.nullifier"
)
ACCOUNT_TABLES = "accounts a JOIN trees t ON t.id = a.tree"


def account_row(row: Sequence[Any]) -> AccountRow:
    """Decode a row of ACCOUNT_COLUMNS."""
    number, leaf, address, owner, lamports, discriminator, content, data_hash, leaf_index, sequence, slot = row[:11]
    tree, queue, tree_type, queued, spent, tx_hash, nullifier = row[11:]
    return AccountRow(
        id=number,
        hash=leaf,
        address=address,
        owner=owner,
        lamports=int.from_bytes(lamports, "big"),
        data=None if discriminator is None else AccountData(discriminator, content, data_hash),
        leaf_index=leaf_index,
        sequence=sequence,
        slot=slot,
        tree=tree,
        queue=queue,
        tree_type=TreeType(tree_type),
        queued=bool(queued) and tree_type == TreeType.STATE_V2,
        spent=bool(spent),
        tx_hash=tx_hash,
        nullifier=nullifier,
    )


def select_accounts(snapshot: Snapshot, condition: str, values: Sequence[Any]) -> list[AccountRow]:
    """Return the accounts that the condition selects, except those queued without their account."""
    statement = f"SELECT {ACCOUNT_COLUMNS} FROM {ACCOUNT_TABLES} WHERE a.owner IS NOT NULL AND {condition}"  # noqa: S608
    return [account_row(row) for row in snapshot.connection.execute(statement, tuple(values))]


def optional_text(data: bytes | None) -> str | None:
    """Return base58, or null."""
    return None if data is None else encode(data)


def data_json(data: AccountData | None, part: slice | None = None) -> Json | None:
    """Return the data section; ``part`` cuts the bytes of the data."""
    if data is None:
        return None
    content = data.data if part is None else data.data[part]
    return {
        "discriminator": int.from_bytes(data.discriminator, "little"),
        "data": b64encode(content).decode(),
        "dataHash": encode(data.data_hash),
    }


def account_v1(row: AccountRow, part: slice | None = None) -> Json:
    """Return an account in the older shape."""
    return {
        "hash": encode(row.hash),
        "address": optional_text(row.address),
        "data": data_json(row.data, part),
        "owner": encode(row.owner),
        "lamports": row.lamports,
        "tree": encode(row.tree),
        "leafIndex": row.leaf_index,
        "seq": row.sequence,
        "slotCreated": row.slot,
    }


def account_v2(row: AccountRow, part: slice | None = None) -> Json:
    """Return an account in the newer shape."""
    older = account_v1(row, part)
    del older["tree"]
    return older | {
        "proveByIndex": row.queued,
        "merkleContext": merkle_context(row.tree_type, row.tree, row.queue),
    }


AccountShape = Callable[[AccountRow, slice | None], Json]


def merkle_context(tree_type: TreeType, tree: bytes, queue: bytes) -> Json:
    """Return the tree that an account or address belongs to."""
    return {
        "treeType": int(tree_type),
        "tree": encode(tree),
        "queue": encode(queue),
        "cpiContext": None,
        "nextTreeContext": None,
    }


def token_json(token: TokenData) -> Json:
    """Return the token account in a compressed account."""
    return {
        "mint": encode(token.mint),
        "owner": encode(token.owner),
        "amount": token.amount,
        "delegate": optional_text(token.delegate),
        "state": token.state,
        "tlv": None if token.tlv is None else b64encode(token.tlv).decode(),
    }


Item = TypeVar("Item")


def page(items: list[Item], limit: int, shape: Callable[[Item], Json], cursor: Callable[[Item], bytes]) -> Json:
    """Return a page of a list; only a full page has a cursor."""
    full = bool(items) and len(items) >= limit
    return {"items": [shape(item) for item in items], "cursor": encode(cursor(items[-1])) if full else None}
