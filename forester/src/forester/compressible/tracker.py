"""Tracker of compressible accounts: scans of the chain, and the changes between them.

A subscription reports changed accounts, never closed ones. A scan finds what it has missed, so one follows a gap, and
one follows SCAN_EVERY_S after the last. Rent is paid for a rent epoch, an hour and a half, or longer: every account is
known before its rent runs out. The journal keeps the accounts, and a restart between two scans needs none.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

from solders.pubkey import Pubkey

from forester.chain.rpc_client import Account, RpcClient
from forester.chain.subscriptions import AccountChanged, Event, NotificationsLost, SlotSeen
from forester.compressible.rent import rate_of_empty_account
from forester.compressible.scan import account_parts, size_of
from forester.compressible.sources import AccountSource
from forester.errors import ForesterError, MalformedAccount, MalformedAnswer, failure_of
from forester.journal.compressible import CompressibleStore, TrackedAccount
from forester.observability.health import TASK_FAILURES
from forester.units import LAMPORTS_PER_BYTE_YEAR
from forester.waiting import occurs_within
from shared.process.logs import get_logger
from shared.process.retries import Backoff

_log = get_logger(__name__)

SCAN_EVERY_S = 3600.0
_AFTER_GAP_S = 15.0
"""Pause between a gap and its scan: a connection that breaks again and again causes one scan."""

_SHARE_OF_SCANS = 0.05
"""Share of the time that scans after gaps and repeated failures may take: a large chain is read less often."""

_AFTER_FAILURE = Backoff(_AFTER_GAP_S, SCAN_EVERY_S)

_REPORT_EVERY_S = 30.0
"""Seconds between reports of a lasting failure; below a minute the supervisor counts them as consecutive."""

_STORE_S = 1.0
_MOST_CHANGES = 100_000
"""Changes in memory; a burst of more is stored by the next scan."""

_STORED_AT_ONCE = 2000
"""Rows of one transaction of the journal, for which other stores wait."""

_FEW_MISSED = 20
_SHARE_MISSED = 0.1
_CONFIRMED = 100
"""A scan that misses more rows than both is confirmed by reading some of them: an empty answer must not end work."""

_YEARS = 2


class AccountTracker:
    """Tracker of one source. ``run`` scans, ``notice`` receives changes, ``store_changes`` stores them.

    ``current_slot`` bounds the slots of the node: a row of a later one would never change again. With ``paged`` a
    scan reads pages as Helius offers them; a node without them is read by getProgramAccounts.
    """

    def __init__(
        self,
        source: AccountSource,
        rpc: RpcClient,
        store: CompressibleStore,
        *,
        current_slot: Callable[[], int],
        paged: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.source = source
        self._rpc = rpc
        self._store = store
        self._current_slot = current_slot
        self._paged = paged
        self._clock = clock
        self._per_byte = LAMPORTS_PER_BYTE_YEAR * _YEARS
        self._changes: dict[bytes, TrackedAccount] = {}
        self._gap = asyncio.Event()
        self._scan_s = 0.0
        self._failures = 0
        self._failure: ForesterError | None = None
        self._pause_s = 0.0

    def notice(self, change: AccountChanged) -> None:
        """Record a change; accounts of other sources are ignored."""
        source, account = self.source, change.account
        if not source.has(account):
            return
        part = account.data[source.start :][: source.length]
        sliced = Account(account.address, account.owner, account.lamports, part)
        row = self._row(sliced, len(account.data), min(change.slot, self._current_slot()))
        if row is None:
            return
        if len(self._changes) >= _MOST_CHANGES:
            self._gap.set()
            return
        self._changes[row.address] = row

    def notice_gap(self) -> None:
        """Scan again soon: changes were lost."""
        self._gap.set()

    async def store_changes(self) -> None:
        """Store changes, together those of a second, forever. Raises JournalError."""
        while True:
            await asyncio.sleep(_STORE_S)
            changes, self._changes = self._changes, {}
            if changes:
                await self._put(list(changes.values()))

    async def run(self) -> None:
        """Scan when it is due, forever.

        Raises JournalError. After three failed scans in a row it also raises their failure, repeatedly.
        """
        while True:
            if self._failure is None:
                await self._wait_until_due()
            else:
                await self._wait_after(self._failure)
            self._gap.clear()
            await self._try_scan()

    async def _wait_until_due(self) -> None:
        # A clock that was ahead must not postpone scans.
        last = min(await self._store.last_scan_at(self.source.kinds), self._clock())
        due_s = max(0.0, last + SCAN_EVERY_S - self._clock())
        if await occurs_within(self._gap, due_s):
            next_at = last + self._scan_s / _SHARE_OF_SCANS
            await asyncio.sleep(_bounded(next_at - self._clock()))

    async def _wait_after(self, failure: ForesterError) -> None:
        """Wait for the next attempt; a restarted task waits on.

        The supervisor counts an attempt of a minute as the first failure, so only short waits reach the health board.
        """
        while self._pause_s > 0:
            part_s = min(self._pause_s, _REPORT_EVERY_S)
            await asyncio.sleep(part_s)
            self._pause_s -= part_s
            if self._failures >= TASK_FAILURES:
                raise failure

    async def _try_scan(self) -> None:
        """Scan; a failure is kept. Pauses after failures grow to a multiple of the time that the scan took."""
        began = self._clock()
        try:
            await self.scan()
        except Exception as error:  # noqa: BLE001 - a bug must not repeat long scans without a pause either
            scan_s = self._clock() - began
            self._failures, self._failure = self._failures + 1, failure_of(error)
            self._pause_s = _bounded(min(_AFTER_FAILURE.wait_s(self._failures, 1.0), scan_s / _SHARE_OF_SCANS))
            facts = {"failures": self._failures, "seconds": round(scan_s, 3), "again_in_s": round(self._pause_s, 3)}
            _log.warning("compressible_scan_failed", of=self.source.name, error=self._failure.detail, **facts)
        else:
            self._failures, self._failure = 0, None

    async def scan(self) -> None:
        """Read all accounts once. Raises EndpointError and JournalError."""
        began, slot = self._clock(), min(await self._rpc.slot(), self._current_slot())
        self._per_byte = rate_of_empty_account(await self._rpc.minimum_balance(0))
        accounts = 0
        async for part in account_parts(self.source, self._rpc, paged=self._paged):
            accounts += await self._store_part(part, slot)
        await self._confirm_missed(slot)
        gone = await self._store.finish_scan(self.source.kinds, slot)
        self._scan_s = self._clock() - began
        numbers = {"accounts": accounts, "gone": gone, "seconds": round(self._scan_s, 3)}
        _log.info("compressible_accounts_scanned", of=self.source.name, **numbers)

    async def _confirm_missed(self, slot: int) -> None:
        """Check that rows which a scan did not find are gone, if they are many. Raises MalformedAnswer."""
        missed, tracked = await self._store.missed(self.source.kinds, slot)
        if missed <= max(_FEW_MISSED, _SHARE_MISSED * tracked):
            return
        sample = await self._store.missed_sample(self.source.kinds, slot, _CONFIRMED)
        accounts = await self._rpc.accounts([Pubkey(address) for address in sample])
        existing = sum(self.source.rented(account, self._per_byte) is not None for account in accounts)
        if existing:
            text = f"the RPC node's list of {self.source.name} lacks {missed} of {tracked} known accounts"
            raise MalformedAnswer(f"{text}, but {existing} of {len(sample)} that were read again exist")

    async def _store_part(self, accounts: Sequence[Account], slot: int) -> int:
        """Store accounts that pay rent; return their number."""
        stored = 0
        for begin in range(0, len(accounts), _STORED_AT_ONCE):
            found = (
                self._row(account, size_of(account, self.source), slot)
                for account in accounts[begin : begin + _STORED_AT_ONCE]
            )
            rows = [row for row in found if row is not None]
            await self._put(rows)
            stored += len(rows)
        return stored

    def _row(self, sliced: Account, size: int, slot: int) -> TrackedAccount | None:
        try:
            return self.source.tracked(sliced, size, self._per_byte, slot)
        except MalformedAccount as error:
            _log.warning("compressible_account_malformed", account=str(sliced.address), error=error.detail)
            return None

    async def _put(self, rows: list[TrackedAccount]) -> None:
        without_room = await self._store.put(rows)
        if without_room:
            _log.error("compressible_accounts_dropped", accounts=without_room)


def _bounded(pause_s: float) -> float:
    """Return a pause that neither a broken connection nor a clock that was set makes too short or too long."""
    return min(max(_AFTER_GAP_S, pause_s), SCAN_EVERY_S)


class ChangeListener:
    """Hands the events of one connection to all trackers, and detects gaps between them."""

    def __init__(self, trackers: Sequence[AccountTracker]) -> None:
        self._trackers = trackers
        self._connected = False
        self._latest_slot: int | None = None

    def notice(self, event: Event) -> None:
        """Handle an event. A slot whose parent was not reported means that the node has dropped notifications."""
        if isinstance(event, AccountChanged):
            for tracker in self._trackers:
                tracker.notice(event)
        elif isinstance(event, NotificationsLost):
            # The first connection follows a restart, for which the journal has the accounts.
            if self._connected:
                self._notice_gap()
            self._connected, self._latest_slot = True, None
        elif isinstance(event, SlotSeen):
            latest, parent = self._latest_slot, event.parent
            if latest is not None and parent is not None and parent > latest:
                _log.warning("slots_missed", latest=latest, parent=parent)
                self._notice_gap()
            self._latest_slot = event.slot if latest is None else max(latest, event.slot)

    def _notice_gap(self) -> None:
        for tracker in self._trackers:
            tracker.notice_gap()
