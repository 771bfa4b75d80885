"""Check that the indexer's compressed token accounts and balances of an owner agree."""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeVar

from solders.pubkey import Pubkey

from forester.checks.result import CheckFailed
from forester.indexer.client import IndexerClient
from forester.indexer.types import Hash32, Page, TokenAccount, TokenBalance

PAGES = 100
"""Maximum pages that are read; an owner with more is not checked."""

Item = TypeVar("Item")


async def check_tokens(indexer: IndexerClient, owner: Pubkey) -> str:
    """Return the number of accounts and mints; CheckFailed if accounts of a mint do not add up to its balance."""
    holder = Hash32(bytes(owner))
    accounts: list[TokenAccount] = await _all(lambda cursor: indexer.token_accounts(holder, cursor))
    balances: list[TokenBalance] = await _all(lambda cursor: indexer.token_balances(holder, cursor))
    held: Counter[Hash32] = Counter()
    for account in accounts:
        held[account.token_data.mint] += account.token_data.amount
    stated = Counter({item.mint: item.balance for item in balances})
    differing = sorted(str(mint) for mint in held.keys() | stated.keys() if held[mint] != stated[mint])
    if differing:
        raise CheckFailed(f"accounts and balances of {owner} differ for {len(differing)} mints: {differing[0]} …")
    return f"{len(accounts)} accounts of {len(stated)} mints of {owner}, balances agree"


async def _all(page: Callable[[str | None], Awaitable[Page[Item]]]) -> list[Item]:
    found: list[Item] = []
    cursor: str | None = None
    for _ in range(PAGES):
        answer = await page(cursor)
        found.extend(answer.items)
        cursor = answer.cursor
        if cursor is None:
            return found
    raise CheckFailed(f"more than {PAGES} pages of accounts: not checked")
