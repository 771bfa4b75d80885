"""Tracker of compressible token accounts: scans of the chain, and the changes between them.

A subscription reports changed accounts, never closed ones. A scan finds what it has missed, so one follows a gap, and
one follows SCAN_EVERY_S after the last. Rent is paid for a rent epoch, an hour and a half, or longer: every account is
known before its rent runs out. The journal keeps the accounts, and a restart between two scans needs none.
"""

import asyncio
import time
from collections.abc import Callable

from forester.chain import subscriptions
from forester.chain.programs.addresses import COMPRESSED_TOKEN
from forester.chain.rpc_client import RpcClient
from forester.chain.subscriptions import AccountChanged, NotificationsLost, Subscription
from forester.compressible.rent import RentState
from forester.compressible.token_account import (
    RENT_BYTES,
    RENT_OFFSET,
    TOKEN_ACCOUNT_TYPE,
    decode_rent,
    decode_token_account,
)
from forester.errors import AnswerTooLong, MalformedAccount
from forester.journal.compressible import NEVER_SLOT, CompressibleStore, TrackedAccount
from shared.logs import get_logger

_log = get_logger(__name__)

SCAN_EVERY_S = 3600.0
_AFTER_GAP_S = 60.0
"""Pause between a gap and its scan: a connection that breaks again and again causes one scan."""

_BETWEEN_SCANS_S = 600.0
"""Minimum time between two scans: each reads all token accounts."""

_STORE_S = 1.0
_MOST_CHANGES = 100_000
"""Changes in memory; a burst of more is stored by the next scan."""

_TOKEN_ACCOUNTS = (RENT_OFFSET, bytes([TOKEN_ACCOUNT_TYPE]))
_OWNER_OFFSET = 32


class TokenAccountTracker:
    """The tracker. ``run`` scans, ``follow`` receives changes, ``store_changes`` stores them; each is a task."""

    def __init__(self, rpc: RpcClient, store: CompressibleStore, *, clock: Callable[[], float] = time.time) -> None:
        self._rpc = rpc
        self._store = store
        self._clock = clock
        self._changes: dict[bytes, TrackedAccount] = {}
        self._gap = asyncio.Event()
        self._connected = False

    @staticmethod
    def subscription() -> Subscription:
        """Return the subscription to changed token accounts."""
        return subscriptions.program_accounts(COMPRESSED_TOKEN, memcmp=[_TOKEN_ACCOUNTS])

    def notice(self, event: subscriptions.Event) -> None:
        """Record a change, or that changes were lost."""
        if isinstance(event, NotificationsLost):
            # The first connection follows a restart, for which the journal has the accounts.
            if self._connected:
                self._gap.set()
            self._connected = True
        elif isinstance(event, AccountChanged) and event.account.owner == COMPRESSED_TOKEN:
            try:
                found = decode_token_account(event.account)
            except MalformedAccount as error:
                _log.warning("compressible_account_malformed", account=str(event.account.address), error=error.detail)
                return
            if found is None:
                return
            if len(self._changes) >= _MOST_CHANGES:
                self._gap.set()
                return
            address = bytes(found.address)
            self._changes[address] = tracked(address, found.rent, event.slot)

    async def store_changes(self) -> None:
        """Store changes, together those of a second, forever. Raises JournalError."""
        while True:
            await asyncio.sleep(_STORE_S)
            changes, self._changes = self._changes, {}
            if changes:
                await self._put(list(changes.values()))

    async def run(self) -> None:
        """Scan when it is due, forever. Raises EndpointError and JournalError."""
        while True:
            last = await self._store.last_scan_at()
            due_s = max(0.0, last + SCAN_EVERY_S - self._clock())
            try:
                async with asyncio.timeout(due_s):
                    await self._gap.wait()
            except TimeoutError:
                pass
            else:
                await asyncio.sleep(max(_AFTER_GAP_S, last + _BETWEEN_SCANS_S - self._clock()))
            self._gap.clear()
            await self.scan()

    async def scan(self) -> None:
        """Read all token accounts once. Raises EndpointError and JournalError."""
        began, slot = self._clock(), await self._rpc.slot()
        try:
            accounts = await self._scan_part(slot, [])
        except AnswerTooLong:
            accounts = 0
            for first_byte in range(256):
                accounts += await self._scan_part(slot, [(_OWNER_OFFSET, bytes([first_byte]))])
        gone = await self._store.finish_scan(slot)
        seconds = round(self._clock() - began, 3)
        _log.info("compressible_accounts_scanned", accounts=accounts, gone=gone, seconds=seconds)

    async def _scan_part(self, slot: int, memcmp: list[tuple[int, bytes]]) -> int:
        """Store the accounts that match a filter; return their number."""
        found = await self._rpc.program_accounts(
            COMPRESSED_TOKEN, memcmp=[_TOKEN_ACCOUNTS, *memcmp], start=RENT_OFFSET, length=RENT_BYTES, maximum=None
        )
        rows = []
        for account in found:
            size = account.size if account.size is not None else RENT_OFFSET + len(account.data)
            try:
                rent = decode_rent(account.data, size, account.lamports)
            except MalformedAccount as error:
                _log.warning("compressible_account_malformed", account=str(account.address), error=error.detail)
                continue
            if rent is not None:
                rows.append(tracked(bytes(account.address), rent, slot))
        await self._put(rows)
        return len(rows)

    async def _put(self, rows: list[TrackedAccount]) -> None:
        without_room = await self._store.put(rows)
        if without_room:
            _log.error("compressible_accounts_dropped", accounts=without_room)


def tracked(address: bytes, rent: RentState, slot: int) -> TrackedAccount:
    """Return the row of an account that was read at a slot."""
    first = rent.compressible_from
    return TrackedAccount(address, NEVER_SLOT if first is None else min(first, NEVER_SLOT), rent.compression_cost, slot)
