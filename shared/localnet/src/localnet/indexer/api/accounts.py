"""Accounts and balances (forester/docs/reference/indexer.md, "Accounts and balances")."""

from typing import Any

from localnet.base58 import HASH_BYTES
from localnet.indexer.api.errors import validation
from localnet.indexer.api.params import (
    AccountOrAddress,
    AccountsByOwner,
    Base58,
    HashesOrAddresses,
    Owner,
    require_short,
)
from localnet.indexer.api.shapes import (
    AccountRow,
    AccountShape,
    Json,
    Snapshot,
    page,
    select_accounts,
)

_MOST_FILTERS = 5
_MOST_FILTERED_ACCOUNTS = 1_000_000


def find_unspent(snapshot: Snapshot, wanted: AccountOrAddress) -> AccountRow | None:
    """Return the unspent account of an address or hash; an address takes precedence."""
    if wanted.address is not None:
        found = select_accounts(snapshot, "a.address = ? AND NOT a.spent LIMIT 1", (wanted.address,))
    elif wanted.hash is not None:
        found = select_accounts(snapshot, "a.hash = ? AND NOT a.spent", (wanted.hash,))
    else:
        raise validation("Either address or hash must be provided")
    return found[0] if found else None


def get_account(snapshot: Snapshot, params: AccountOrAddress, shape: AccountShape) -> Json:
    """Answer getCompressedAccount and its newer form."""
    row = find_unspent(snapshot, params)
    return snapshot.answer(None if row is None else shape(row, None))


def get_accounts(snapshot: Snapshot, params: HashesOrAddresses, shape: AccountShape) -> Json:
    """Answer getMultipleCompressedAccounts and its newer form: in the order of the request, null for unknown ones."""
    if (params.hashes is None) == (params.addresses is None):
        raise validation("Either hashes or addresses must be provided")
    by_hash = params.hashes is not None
    wanted = (params.hashes if by_hash else params.addresses) or []
    require_short(wanted, "hashes" if by_hash else "addresses")
    column = "hash" if by_hash else "address"
    marks = ",".join("?" * len(wanted))
    rows = select_accounts(snapshot, f"a.{column} IN ({marks}) AND NOT a.spent", wanted)
    found = {row.hash if by_hash else row.address: row for row in rows}
    items = [shape(found[key], None) if key in found else None for key in wanted]
    return snapshot.answer({"items": items})


def get_accounts_by_owner(snapshot: Snapshot, params: AccountsByOwner, shape: AccountShape) -> Json:
    """Answer getCompressedAccountsByOwner and its newer form: ordered by leaf index, then hash.

    The cursor is the last hash, as in the reference; the page continues after the position of that account, so that no
    account is skipped.
    """
    condition, values = "a.owner = ? AND NOT a.spent", [params.owner]
    filters = params.filters or []
    if len(filters) > _MOST_FILTERS:
        raise validation(f"Too many filters. The maximum number of filters allowed is {_MOST_FILTERS}")
    if filters:
        _refuse_large_owner(snapshot, params.owner)
    extra: list[Any] = []
    for one in filters:
        condition += " AND substr(a.data, ?, ?) = ?"
        extra += [one.memcmp.offset + 1, len(one.memcmp.bytes), one.memcmp.bytes]
    if params.cursor is not None:
        condition += " AND (a.leaf_index, a.hash) > (?, ?)"
        extra += _place_of(snapshot, params.cursor)
    order = "ORDER BY a.leaf_index, a.hash LIMIT ?"
    rows = select_accounts(snapshot, f"{condition} {order}", [*values, *extra, params.size])
    cut = params.data_slice
    part = None if cut is None else slice(cut.offset, cut.offset + cut.length)
    return snapshot.answer(page(rows, params.size, lambda row: shape(row, part), lambda row: row.hash))


def _place_of(snapshot: Snapshot, cursor: Base58) -> tuple[int, bytes]:
    """Return the position in the list of the account whose hash the cursor is; it may have been spent meanwhile."""
    if len(cursor) != HASH_BYTES:
        raise validation(f"Invalid cursor length. Expected {HASH_BYTES}. Received {len(cursor)}.")
    row = snapshot.connection.execute("SELECT leaf_index FROM accounts WHERE hash = ?", (bytes(cursor),)).fetchone()
    if row is None:
        raise validation("Invalid cursor. It names no account.")
    return row[0], bytes(cursor)


def get_balance(snapshot: Snapshot, params: AccountOrAddress) -> Json:
    """Answer getCompressedBalance, also called getCompressedAccountBalance: zero for an unknown account."""
    row = find_unspent(snapshot, params)
    return snapshot.answer(0 if row is None else row.lamports)


def get_balance_by_owner(snapshot: Snapshot, params: Owner) -> Json:
    """Answer getCompressedBalanceByOwner."""
    rows = snapshot.connection.execute("SELECT lamports FROM accounts WHERE owner = ? AND NOT spent", (params.owner,))
    return snapshot.answer(sum(int.from_bytes(lamports, "big") for (lamports,) in rows))


def _refuse_large_owner(snapshot: Snapshot, owner: bytes) -> None:
    (count,) = snapshot.connection.execute(
        "SELECT count(*) FROM (SELECT 1 FROM accounts WHERE owner = ? AND NOT spent LIMIT ?)",
        (owner, _MOST_FILTERED_ACCOUNTS + 1),
    ).fetchone()
    if count > _MOST_FILTERED_ACCOUNTS:
        raise validation("Owner has too many accounts for filters")
