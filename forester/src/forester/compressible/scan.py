"""Scans of compressible accounts: all of a source in parts, which together take less memory than one answer."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence

from forester.chain.rpc_client import Account, RpcClient
from forester.compressible.rent import rate_of_empty_account
from forester.compressible.sources import AccountSource
from forester.errors import AnswerTooLong, MalformedAccount, RequestRefused
from forester.journal.compressible import TrackedCounts
from shared.process.logs import get_logger

_log = get_logger(__name__)

_PARTS = 256
_LARGEST_WHOLE = 64
"""Accounts of one part, of 256, up to which all are read in one answer: more would be 10 MB."""

_PAGE_PAUSE_S = 0.1


async def account_parts(source: AccountSource, rpc: RpcClient, *, paged: bool) -> AsyncIterator[list[Account]]:
    """Yield all accounts of a source, each with its slice of data.

    With ``paged`` pages are read as Helius offers them; a node without them is read by getProgramAccounts. Raises
    EndpointError.
    """
    if paged:
        try:
            async for page in rpc.program_account_pages(
                source.program, memcmp=[source.memcmp], start=source.start, length=source.length
            ):
                yield page
                await asyncio.sleep(_PAGE_PAUSE_S)
            return
        except RequestRefused as error:
            remedy = "leave out --helius-rpc, or use a node of Helius"
            _log.warning(
                "account_pages_refused", error=error.detail, detail="read by getProgramAccounts", remedy=remedy
            )
    first = await _matching(source, rpc, 0)
    whole = await _whole(source, rpc) if len(first) <= _LARGEST_WHOLE else None
    if whole is not None:
        yield whole
        return
    yield first
    for byte in range(1, _PARTS):
        yield await _matching(source, rpc, byte)


async def count_accounts(
    rpc: RpcClient, sources: Sequence[AccountSource], *, slot: int, paged: bool
) -> Mapping[int, TrackedCounts]:
    """Return the numbers of accounts of each kind that pay rent, and of those that are due. Raises EndpointError."""
    per_byte = rate_of_empty_account(await rpc.minimum_balance(0))
    counts: dict[int, TrackedCounts] = defaultdict(TrackedCounts)
    for source in sources:
        async for part in account_parts(source, rpc, paged=paged):
            for account in part:
                try:
                    row = source.tracked(account, size_of(account, source), per_byte, slot)
                except MalformedAccount:
                    continue
                if row is not None:
                    is_ready = row.ready_slot <= slot
                    following = None if is_ready else row.ready_slot
                    counts[row.kind] += TrackedCounts(1, int(is_ready), following)
    return counts


def size_of(account: Account, source: AccountSource) -> int:
    """Return the bytes of all data of an account that was read as a slice; a lower bound if the node omits it."""
    return account.size if account.size is not None else source.start + len(account.data)


async def _whole(source: AccountSource, rpc: RpcClient) -> list[Account] | None:
    """Return all accounts; None if they are too many for one answer."""
    try:
        return await _matching(source, rpc, None)
    except AnswerTooLong:
        return None


async def _matching(source: AccountSource, rpc: RpcClient, byte: int | None) -> list[Account]:
    """Return the accounts that have a byte at the offset at which scans are split; None means any."""
    split = [] if byte is None else [(source.split_at, bytes([byte]))]
    return await rpc.program_accounts(
        source.program, memcmp=[source.memcmp, *split], start=source.start, length=source.length, maximum=None
    )
