"""Compresses and closes accounts whose rent has run out, those that earn most first.

The journal names candidates; each is read again right before its transaction, which decides what is sent. Programs
refuse a transaction if one of its accounts is not due. So the accounts of a refused batch that are still due are sent
again one by one, and an account that is refused alone waits, longer each time; some programs skip a batch instead. A
refusal for the forester's share or the phase affects all accounts alike and ends the round of its closer. If all
accounts of a closer are refused, or none can be located, that closer pauses and tries only a few accounts at once until
one is closed; the others continue.
"""

import asyncio
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from solders.pubkey import Pubkey

from forester.chain.rpc_client import RpcClient
from forester.chain.tree_metadata import TreeMetadata
from forester.compressible.account_pauses import AccountPauses
from forester.compressible.candidates import UNKNOWN_SLOTS, confirmed, is_for_forester, split, totals
from forester.compressible.closers import MAX_ACCOUNTS_PER_TRANSACTION, AccountCloser, Located, answered
from forester.errors import (
    AccountMissing,
    EndpointError,
    ForesterError,
    InsufficientFunds,
    MalformedAccount,
    TransactionRefused,
)
from forester.journal.compressible import LABELS, CompressibleStore
from forester.observability.metrics import Metrics
from forester.scheduling.eligibility_window import EligibilityWindow, ProcessingResult
from forester.scheduling.tree_schedule import COMPRESSION_KEY
from forester.transactions.confirm import Fate, Outcome
from forester.transactions.sender import Sender
from forester.waiting import RetryPause
from shared.process.logs import get_logger
from shared.process.retries import Backoff

_log = get_logger(__name__)

_CANDIDATES = 100
_SAMPLED = 5000
"""Accounts of a slowed closer that are read: bad ones that would earn most do not hide its good ones."""

_SLOWED = Backoff(10.0, 300.0)
"""Pauses of a closer that closes nothing: each attempt costs fees, or time in which others wait for the indexer."""

_PREPARING_S = 10.0
"""Maximum seconds of each request that prepares a round: a service that does not answer holds up the other kinds."""

_POSTPONED_SLOTS = 1500
"""Ten minutes for an account that could not be located."""

_MAXIMUM_UNITS = 1_000_000

OutputTrees = Callable[[], Sequence[TreeMetadata]]
"""Returns the V2 state trees whose output queues accept compressed accounts."""


class ClosingRounds:
    """Closes accounts in our windows, whose eligibility key is COMPRESSION_KEY, each by the closer of its kind."""

    def __init__(
        self,
        rpc: RpcClient,
        store: CompressibleStore,
        sender: Sender,
        metrics: Metrics,
        *,
        closers: Sequence[AccountCloser],
        trees: OutputTrees,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rpc = rpc
        self._store = store
        self._sender = sender
        self._metrics = metrics
        self._closers = closers
        self._trees = trees
        self._output: Sequence[TreeMetadata] = ()
        """The trees of the round: a discovery during the round may leave none."""
        self._pauses = {closer: RetryPause(lambda failures: _SLOWED.wait_s(failures, 1.0), clock) for closer in closers}
        """Pauses of closers; one with failures is slowed until it closes an account."""
        self._waiting = AccountPauses()

    async def work(self, eligibility: EligibilityWindow) -> ProcessingResult:
        """Close one round of accounts; failures are part of the result. Raises only bugs.

        A round that closes nothing because the programs refused all transactions fails with their first refusal.
        """
        self._output = self._trees()
        if eligibility.sending_seconds() is None or not self._output:
            return ProcessingResult()
        active = [closer for closer in self._closers if self._pauses[closer].is_over]
        try:
            ready = {closer: await self._ready(closer, eligibility.slot()) for closer in active}
        except ForesterError as error:
            return ProcessingResult(failure=error)
        chosen = {closer: self._chosen(closer, addresses) for closer, addresses in ready.items() if addresses}
        refusals: dict[AccountCloser, list[TransactionRefused]] = {closer: [] for closer in chosen}
        work = (
            self._close_all(closer, addresses, eligibility, refusals[closer]) for closer, addresses in chosen.items()
        )
        done = await asyncio.gather(*work)
        failures: list[ForesterError] = [item.failure for item in done if item.failure is not None]
        for (closer, refused), item in zip(refusals.items(), done, strict=True):
            if item.elements:
                self._pauses[closer].succeeded()
            elif refused:
                self._pauses[closer].failed()
        closed = sum(item.elements for item in done)
        if not closed:
            failures += [error for refused in refusals.values() for error in refused]
        more = any(len(chosen[closer]) < len(ready[closer]) or len(ready[closer]) == _CANDIDATES for closer in chosen)
        return ProcessingResult(closed, more=more, failure=failures[0] if failures else None)

    async def _ready(self, closer: AccountCloser, slot: int) -> list[Pubkey]:
        """Return accounts that a closer may close, those that earn most first."""
        maximum = _SAMPLED if self._pauses[closer].failures else _CANDIDATES
        while True:
            read = _SAMPLED if self._waiting else maximum
            found = [Pubkey(address) for address in await self._store.ready(closer.source.kinds, slot, read)]
            early = [address for address in found if self._waiting.next_attempt(address) > slot]
            if not early:
                return found[:maximum]
            await self._postpone({address: self._waiting.next_attempt(address) for address in early})

    def _chosen(self, closer: AccountCloser, addresses: Sequence[Pubkey]) -> Sequence[Pubkey]:
        """Return the accounts to try: all, or a few at random if the closer is slowed."""
        if self._pauses[closer].failures:
            return random.sample(addresses, min(MAX_ACCOUNTS_PER_TRANSACTION, len(addresses)))
        return addresses

    async def _close_all(
        self,
        closer: AccountCloser,
        addresses: Sequence[Pubkey],
        eligibility: EligibilityWindow,
        refusals: list[TransactionRefused],
    ) -> ProcessingResult:
        """Close accounts of one closer; refusals are added to ``refusals``. Raises only bugs."""
        within_s = eligibility.sending_seconds()
        if within_s is None:
            return ProcessingResult()
        try:
            async with asyncio.timeout(within_s):
                batches = await self._prepared(closer, addresses, eligibility, within_s)
        except TimeoutError:
            _log.warning("compression_not_prepared", of=closer.source.name, error="the eligibility window ended")
            return ProcessingResult()
        except ForesterError as error:
            return ProcessingResult(failure=error)
        work = (self._close(closer, batch, eligibility, refusals) for batch in batches)
        closed, failure = totals(await asyncio.gather(*work, return_exceptions=True))
        return ProcessingResult(closed, failure=failure)

    async def _prepared(
        self, closer: AccountCloser, addresses: Sequence[Pubkey], eligibility: EligibilityWindow, within_s: float
    ) -> list[Sequence[Located]]:
        """Return the accounts that are due, in batches of a transaction each."""
        # A transaction of an earlier process may still close accounts that we would read as open.
        if not await self._sender.wait_for_earlier(closer.purpose, COMPRESSION_KEY, within_s):
            return []
        slot = eligibility.slot()
        try:
            # Half of the window is left for other rounds if a service does not answer.
            limit_s = min(_PREPARING_S, within_s / 2)
            await answered(closer.prepare(), limit_s)
            due = await self._due(closer, addresses, slot)
            groups, failed = await closer.groups(due, limit_s) if due else ([], [])
        except (EndpointError, AccountMissing, MalformedAccount) as error:
            if closer.source.pays_forester:
                raise
            # A program without a configuration, or a lost indexer, holds up its accounts alone.
            _log.warning("compression_not_prepared", of=closer.source.name, error=error.detail)
            await self._postpone(dict.fromkeys(addresses, eligibility.slot() + _POSTPONED_SLOTS))
            self._pauses[closer].failed()
            return []
        again = eligibility.slot() + _POSTPONED_SLOTS
        await self._postpone({account.address: again for account in failed})
        if failed and not any(groups):
            self._pauses[closer].failed()
        return [batch for group in groups for batch in self._batches(closer, group, eligibility.epoch)]

    async def _due(self, closer: AccountCloser, addresses: Sequence[Pubkey], slot: int) -> list[Any]:
        """Return the accounts that are due as the chain says now."""
        return await confirmed(
            *(self._rpc, self._store, [(closer.source, address) for address in addresses]),
            slot=slot,
            wanted=lambda account: account.rent.is_compressible(slot),
            exemption_lamports_per_byte=closer.exemption_lamports_per_byte,
        )

    def _batches(self, closer: AccountCloser, group: Sequence[Located], epoch: int) -> Iterator[Sequence[Located]]:
        """Split a group by the size and the compute units of a transaction."""
        queue = self._output[0].queue

        def fits(batch: Sequence[Located]) -> bool:
            work = closer.instructions(batch, queue, epoch)
            return closer.compute_units(batch) <= _MAXIMUM_UNITS and self._sender.fits(work)

        return split(group, MAX_ACCOUNTS_PER_TRANSACTION, fits)

    async def _close(
        self,
        closer: AccountCloser,
        batch: Sequence[Located],
        eligibility: EligibilityWindow,
        refusals: list[TransactionRefused],
    ) -> int:
        """Close accounts in one transaction, or one by one if it is refused; return the number of closed ones."""
        within_s = eligibility.sending_seconds()
        if within_s is None or any(_is_for_forester(closer, error) for error in refusals):
            return 0
        addresses = [item.account.address for item in batch]
        outcome = await self._send(closer, batch, eligibility.epoch, within_s)
        if outcome.fate is Fate.CONFIRMED:
            skipped = await self._count_closed(closer, batch)
            if len(batch) == 1 and skipped:
                _log.warning(
                    "compression_skipped", account=str(addresses[0]), detail="the program does not find it due"
                )
                await self._postpone_refused(addresses[0], eligibility.slot())
                return 0
            return len(batch) - len(skipped) + await self._close_one_by_one(closer, skipped, eligibility, refusals)
        if outcome.fate is Fate.DEADLINE_PASSED and outcome.signed:
            until = eligibility.slot() + UNKNOWN_SLOTS
            for address in addresses:
                self._waiting.hold(address, until)
            await self._postpone(dict.fromkeys(addresses, until))
        if isinstance(outcome.error, InsufficientFunds):
            raise outcome.error
        if outcome.fate is not Fate.REFUSED:
            return 0
        error = outcome.error or TransactionRefused()
        if _is_for_forester(closer, error):
            refusals.append(error)
            raise error
        if len(batch) > 1:
            return await self._close_one_by_one(closer, batch, eligibility, refusals)
        refusals.append(error)
        _log.warning("compression_refused", account=str(addresses[0]), error=error.detail)
        await self._postpone_refused(addresses[0], eligibility.slot())
        return 0

    async def _close_one_by_one(
        self,
        closer: AccountCloser,
        batch: Sequence[Located],
        eligibility: EligibilityWindow,
        refusals: list[TransactionRefused],
    ) -> int:
        """Close the accounts of a batch that are still due, each in a transaction of its own."""
        if not batch:
            return 0
        addresses = [item.account.address for item in batch]
        due = {account.address for account in await self._due(closer, addresses, eligibility.slot())}
        left = [item for item in batch if item.account.address in due]
        return sum([await self._close(closer, [item], eligibility, refusals) for item in left])

    async def _send(self, closer: AccountCloser, batch: Sequence[Located], epoch: int, within_s: float) -> Outcome:
        tree = random.choice(self._output)  # noqa: S311 - spreads load over queues
        fees = tree.metadata.network_fee + len(batch) * tree.metadata.rollover_fee
        work = closer.instructions(batch, tree.queue, epoch)
        return await self._sender.send(
            work,
            purpose=closer.purpose,
            subject=COMPRESSION_KEY,
            within_s=within_s,
            unit_limit=closer.compute_units(batch),
            program_lamports=fees * len(work),
        )

    async def _count_closed(self, closer: AccountCloser, batch: Sequence[Located]) -> Sequence[Located]:
        """Count the closed accounts of a transaction that succeeded, and remove their rows; return the others."""
        left: set[Pubkey] = set()
        if closer.skips_silently:
            found = await self._rpc.accounts([item.account.address for item in batch], start=0, length=0)
            program = closer.source.program
            left = {account.address for account in found if account is not None and account.owner == program}
        for account in (item.account for item in batch if item.account.address not in left):
            label = LABELS.get(account.kind, "pda")
            earned = account.rent.compression_cost if closer.source.pays_forester else 0
            self._metrics.accounts_compressed.labels(label).inc()
            self._metrics.compression_lamports.inc(earned)
            self._metrics.rent_recovered.labels(label).inc(max(0, account.rent.lamports - earned))
            self._waiting.forget(account.address)
        await self._store.remove(bytes(item.account.address) for item in batch if item.account.address not in left)
        return [item for item in batch if item.account.address in left]

    async def _postpone_refused(self, address: Pubkey, slot: int) -> None:
        await self._postpone({address: self._waiting.refuse(address, slot)})

    async def _postpone(self, slots: Mapping[Pubkey, int]) -> None:
        await self._store.postpone({bytes(address): slot for address, slot in slots.items()})


def _is_for_forester(closer: AccountCloser, error: TransactionRefused) -> bool:
    return closer.source.pays_forester and is_for_forester(error)
