"""Signatures of transactions and their effects.

Source: forester/docs/reference/indexer.md, "Signatures and transactions".
"""

from collections.abc import Sequence
from typing import Any

from localnet.base58 import SIGNATURE_BYTES, encode
from localnet.indexer.api.errors import not_found, validation
from localnet.indexer.api.params import AddressPage, Base58, HashOnly, OwnerPage, Page
from localnet.indexer.api.shapes import (
    ACCOUNT_COLUMNS,
    ACCOUNT_TABLES,
    AccountRow,
    Json,
    Snapshot,
    account_row,
    account_v1,
    account_v2,
    page,
    token_json,
)
from localnet.indexer.database.state import LinkKind
from shared.trees.field import ZERO

_SLOT_BYTES = 8

Listed = tuple[bytes, int, int]
"""Signature, slot, block time."""


def get_signatures_for_account(snapshot: Snapshot, params: HashOnly) -> Json:
    """Answer getCompressionSignaturesForAccount: the transactions that created and spent an account."""
    rows = snapshot.connection.execute(
        "SELECT t.signature, t.slot, t.time FROM account_links l JOIN transactions t USING (slot, position)"
        " WHERE l.account = ? ORDER BY t.slot, t.position",
        (params.hash,),
    ).fetchall()
    if not rows:
        raise not_found("Account not found")
    return snapshot.answer({"items": [_item(row) for row in rows]})


def get_signatures_for_key(snapshot: Snapshot, kind: LinkKind, key: bytes, params: AddressPage | OwnerPage) -> Json:
    """Answer getCompressionSignaturesForAddress, ForOwner and ForTokenOwner: newest first."""
    condition, values = _after(params.cursor)
    rows = snapshot.connection.execute(
        f"SELECT signature, slot, time FROM key_links WHERE kind = ? AND key = ? {condition}"  # noqa: S608
        " ORDER BY slot DESC, signature DESC LIMIT ?",
        (int(kind), key, *values, params.size),
    ).fetchall()
    return snapshot.answer(page(rows, params.size, _item, _cursor))


def get_latest_compression_signatures(snapshot: Snapshot, params: Page) -> Json:
    """Answer getLatestCompressionSignatures."""
    rows = [row[:3] for row in _latest(snapshot, params, "AND compression AND error IS NULL")]
    return snapshot.answer(page(rows, params.size, _item, _cursor))


def get_latest_signatures(snapshot: Snapshot, params: Page) -> Json:
    """Answer getLatestNonVotingSignatures, with failed transactions; its answer has no cursor."""
    rows = _latest(snapshot, params, "")
    return snapshot.answer({"items": [_item(row[:3]) | {"error": row[3]} for row in rows]})


def _latest(snapshot: Snapshot, params: Page, kind: str) -> list[Any]:
    condition, values = _after(params.cursor)
    return snapshot.connection.execute(
        f"SELECT signature, slot, time, error FROM transactions WHERE 1 {kind} {condition}"  # noqa: S608
        " ORDER BY slot DESC, signature DESC LIMIT ?",
        (*values, params.size),
    ).fetchall()


def _after(cursor: Base58 | None) -> tuple[str, Sequence[Any]]:
    if cursor is None:
        return "", ()
    if len(cursor) != _SLOT_BYTES + SIGNATURE_BYTES:
        raise validation(f"Invalid cursor length. Expected {_SLOT_BYTES + SIGNATURE_BYTES}. Received {len(cursor)}.")
    slot = min(int.from_bytes(cursor[:_SLOT_BYTES], "little"), 2**63 - 1)
    return "AND (slot, signature) < (?, ?)", (slot, bytes(cursor[_SLOT_BYTES:]))


def _item(row: Listed) -> Json:
    return {"signature": encode(row[0]), "slot": row[1], "blockTime": row[2]}


def _cursor(row: Listed) -> bytes:
    return row[1].to_bytes(_SLOT_BYTES, "little") + row[0]


def compression_info(snapshot: Snapshot, signature: bytes, *, newer: bool) -> Json:
    """Return the accounts that a transaction closed and opened, in the order of their creation."""
    rows = snapshot.connection.execute(
        f"SELECT l.closed, {ACCOUNT_COLUMNS} FROM {ACCOUNT_TABLES} JOIN account_links l ON l.account = a.hash"  # noqa: S608
        " JOIN transactions x ON x.slot = l.slot AND x.position = l.position"
        " WHERE x.signature = ? AND a.owner IS NOT NULL ORDER BY a.id",
        (signature,),
    ).fetchall()
    closed = [account_row(row[1:]) for row in rows if row[0]]
    opened = [account_row(row[1:]) for row in rows if not row[0]]
    shape = account_v2 if newer else account_v1
    closing = _closed_v2 if newer else account_v1
    return {
        "closedAccounts": [{"account": closing(row), "optionalTokenData": _token(row)} for row in closed],
        "openedAccounts": [{"account": shape(row), "optionalTokenData": _token(row)} for row in opened],
    }


def _closed_v2(row: AccountRow) -> Json:
    return {
        "account": account_v2(row),
        "nullifier": encode(row.nullifier or ZERO),
        "txHash": encode(row.tx_hash or ZERO),
    }


def _token(row: AccountRow) -> Json | None:
    return None if row.token is None else token_json(row.token)
