"""Token accounts, balances and holders (forester/docs/reference/indexer.md, "Tokens")."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from localnet.base58 import HASH_BYTES, encode
from localnet.indexer.api.accounts import find_unspent
from localnet.indexer.api.errors import not_found, validation
from localnet.indexer.api.params import AccountOrAddress, Base58, TokenHolders, TokensByDelegate, TokensByOwner
from localnet.indexer.api.shapes import (
    ACCOUNT_COLUMNS,
    ACCOUNT_TABLES,
    AccountRow,
    AccountShape,
    Json,
    Snapshot,
    account_row,
    page,
    token_json,
)

_AMOUNT_BYTES = 8


def token_account(row: AccountRow, shape: AccountShape) -> Json:
    """Return a token account with the compressed account that holds it."""
    token = row.token
    return {"account": shape(row, None), "tokenData": None if token is None else token_json(token)}


def get_token_accounts(snapshot: Snapshot, params: TokensByOwner | TokensByDelegate, shape: AccountShape) -> Json:
    """Answer getCompressedTokenAccountsByOwner and ByDelegate, and their newer forms: ordered by mint, then hash."""
    column, key = ("owner", params.owner) if isinstance(params, TokensByOwner) else ("delegate", params.delegate)
    condition, values = f"k.{column} = ?", [bytes(key)]
    if params.mint is not None:
        condition += " AND k.mint = ?"
        values.append(params.mint)
    if params.cursor is not None:
        condition += " AND (k.mint, k.hash) > (?, ?)"
        values += _split_cursor(params.cursor, HASH_BYTES, HASH_BYTES)
    statement = (
        f"SELECT {ACCOUNT_COLUMNS}, k.mint FROM {ACCOUNT_TABLES} JOIN tokens k ON k.account = a.id"  # noqa: S608
        f" WHERE {condition} ORDER BY k.mint, k.hash LIMIT ?"
    )
    found = snapshot.connection.execute(statement, (*values, params.size)).fetchall()
    rows = [(account_row(row[:-1]), row[-1]) for row in found]
    return snapshot.answer(
        page(rows, params.size, lambda pair: token_account(pair[0], shape), lambda pair: pair[1] + pair[0].hash)
    )


def get_token_balances(snapshot: Snapshot, params: TokensByOwner) -> tuple[list[Json], str | None]:
    """Return the balances of an owner by mint, and the cursor of the next page."""
    condition, values = "owner = ?", [bytes(params.owner)]
    if params.mint is not None:
        condition += " AND mint = ?"
        values.append(params.mint)
    if params.cursor is not None:
        condition += " AND mint > ?"
        values += _split_cursor(params.cursor, HASH_BYTES)
    rows = snapshot.connection.execute(f"SELECT mint, amount FROM tokens WHERE {condition}", values)  # noqa: S608
    sums = sorted(_sums(rows).items())[: params.size]
    items = [{"mint": encode(mint), "balance": balance} for mint, balance in sums]
    return items, encode(sums[-1][0]) if sums and len(sums) == params.size else None


def get_token_balances_v1(snapshot: Snapshot, params: TokensByOwner) -> Json:
    """Answer getCompressedTokenBalancesByOwner; its one member in snake case is the reference's."""
    items, cursor = get_token_balances(snapshot, params)
    return snapshot.answer({"token_balances": items, "cursor": cursor})


def get_token_balances_v2(snapshot: Snapshot, params: TokensByOwner) -> Json:
    """Answer getCompressedTokenBalancesByOwnerV2."""
    items, cursor = get_token_balances(snapshot, params)
    return snapshot.answer({"items": items, "cursor": cursor})


def get_token_balance(snapshot: Snapshot, params: AccountOrAddress) -> Json:
    """Answer getCompressedTokenAccountBalance; an address is compared with the owner of the tokens."""
    if params.address is not None:
        found = snapshot.connection.execute("SELECT amount FROM tokens WHERE owner = ? LIMIT 1", (params.address,))
        row = found.fetchone()
        if row is None:
            raise not_found("Account not found")
        return snapshot.answer({"amount": int.from_bytes(row[0], "big")})
    account = find_unspent(snapshot, params)
    token = account.token if account else None
    if token is None:
        raise not_found("Account not found")
    return snapshot.answer({"amount": token.amount})


def get_token_holders(snapshot: Snapshot, params: TokenHolders) -> Json:
    """Answer getCompressedMintTokenHolders: largest first."""
    rows = snapshot.connection.execute("SELECT owner, amount FROM tokens WHERE mint = ?", (params.mint,))
    holders = sorted(((-balance, owner) for owner, balance in _sums(rows).items()))
    if params.cursor is not None:
        amount, owner = _split_cursor(params.cursor, _AMOUNT_BYTES, HASH_BYTES)
        after = (-int.from_bytes(amount, "little"), owner)
        holders = [holder for holder in holders if holder > after]
    return snapshot.answer(
        page(
            holders[: params.size],
            params.size,
            lambda holder: {"owner": encode(holder[1]), "balance": -holder[0]},
            lambda holder: (-holder[0]).to_bytes(_AMOUNT_BYTES, "little") + holder[1],
        )
    )


def _sums(rows: Iterable[Any]) -> dict[bytes, int]:
    sums: defaultdict[bytes, int] = defaultdict(int)
    for key, amount in rows:
        sums[key] += int.from_bytes(amount, "big")
    return sums


def _split_cursor(cursor: Base58, *sizes: int) -> list[bytes]:
    if len(cursor) != sum(sizes):
        raise validation(f"Invalid cursor length. Expected {sum(sizes)}. Received {len(cursor)}.")
    parts, start = [], 0
    for size in sizes:
        parts.append(bytes(cursor[start : start + size]))
        start += size
    return parts
