"""Claims the rent of completed rent epochs for rent sponsors, most rent first.

A claim costs a transaction and pays the forester nothing: closing an account returns its rent anyway. So a transaction
is sent only if it claims a minimum, which the operator chooses.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Sequence

from solders.instruction import Instruction
from solders.pubkey import Pubkey

from forester.chain.programs.compression import claim
from forester.chain.programs.registry import Forester
from forester.chain.rpc_client import RpcClient
from forester.compressible.candidates import UNKNOWN_SLOTS, confirmed, is_for_forester, split, totals
from forester.compressible.mint_account import MintAccount
from forester.compressible.rent import RENT_EPOCH_SLOTS
from forester.compressible.sources import AccountSource
from forester.compressible.token_account import TokenAccount
from forester.errors import ForesterError, InsufficientFunds
from forester.journal.compressible import CompressibleStore
from forester.observability.metrics import Metrics
from forester.scheduling.eligibility_window import EligibilityWindow, ProcessingResult
from forester.scheduling.tree_schedule import COMPRESSION_KEY
from forester.transactions.confirm import Fate
from forester.transactions.sender import Sender
from shared.process.logs import get_logger

_log = get_logger(__name__)

PURPOSE = "claim_rent"

_EVERY_S = 300.0
"""Pause after a search that found too little: each reads all rows of the journal."""

_CANDIDATES = 400
_MAX_ACCOUNTS_PER_TRANSACTION = 30
_BASE_UNITS, _UNITS = 30_000, 15_000

_Owing = tuple[TokenAccount | MintAccount, int]
"""An account with the lamports that can be claimed of it."""


class RentClaims:
    """Claims rent in our windows, at least ``minimum`` lamports in each transaction; 0 claims nothing."""

    def __init__(
        self,
        rpc: RpcClient,
        store: CompressibleStore,
        sender: Sender,
        metrics: Metrics,
        *,
        sources: Sequence[AccountSource],
        derivation: Pubkey,
        minimum: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rpc = rpc
        self._store = store
        self._sender = sender
        self._metrics = metrics
        self._sources = {kind: source for source in sources if source.is_claimable for kind in source.kinds}
        self._derivation = derivation
        self._minimum = minimum
        self._clock = clock
        self._next_at = 0.0
        self._unknown: dict[Pubkey, int] = {}
        """Accounts of claims that may still land, with the slot from which they cannot."""

    async def work(self, eligibility: EligibilityWindow) -> ProcessingResult:
        """Claim one round of rent; failures are part of the result. Raises only bugs."""
        within_s = eligibility.sending_seconds()
        if not self._minimum or within_s is None or self._clock() < self._next_at:
            return ProcessingResult()
        try:
            if not await self._sender.wait_for_earlier(PURPOSE, COMPRESSION_KEY, within_s):
                return ProcessingResult()
            batches = self._batches(await self._owing(eligibility.slot()), eligibility.epoch)
        except ForesterError as error:
            return ProcessingResult(failure=error)
        if not batches:
            self._next_at = self._clock() + _EVERY_S
            return ProcessingResult()
        done = await asyncio.gather(*(self._claim(batch, eligibility) for batch in batches), return_exceptions=True)
        claimed, failure = totals(done)
        return ProcessingResult(claimed, more=bool(claimed), failure=failure)

    async def _owing(self, slot: int) -> list[_Owing]:
        """Return accounts that owe rent, each with its lamports, most rent first."""
        self._unknown = {address: until for address, until in self._unknown.items() if slot < until}
        rows = await self._store.claimable(slot, slot // RENT_EPOCH_SLOTS, _CANDIDATES)
        named = [(kind, Pubkey(address)) for address, kind in rows]
        known = [
            (self._sources[kind], address)
            for kind, address in named
            if kind in self._sources and address not in self._unknown
        ]
        found = await confirmed(
            *(self._rpc, self._store, known), slot=slot, wanted=lambda account: account.rent.claimable(slot)
        )
        # An account that is due owes no rent to claim: its row must not hide those of others in the next search.
        owing = {item.address for item in found}
        nothing = [bytes(address) for _, address in known if address not in owing]
        await self._store.claimed(nothing, slot // RENT_EPOCH_SLOTS)
        return sorted(((item, item.rent.claimable(slot)) for item in found), key=lambda item: -item[1])

    def _batches(self, owing: Sequence[_Owing], epoch: int) -> list[Sequence[_Owing]]:
        """Return accounts that share a sponsor and an authority, as many as fit; batches worth sending only."""
        groups: dict[tuple[Pubkey, Pubkey], list[_Owing]] = defaultdict(list)
        for item in owing:
            groups[item[0].rent_sponsor, item[0].compression_authority].append(item)
        batches = []
        for group in groups.values():
            for batch in split(
                group, _MAX_ACCOUNTS_PER_TRANSACTION, lambda part: self._sender.fits([self._instruction(part, epoch)])
            ):
                if sum(lamports for _, lamports in batch) < self._minimum:
                    break
                batches.append(batch)
        return batches

    def _instruction(self, batch: Sequence[_Owing], epoch: int) -> Instruction:
        forester = Forester.registered(self._sender.payer, self._derivation, epoch)
        account, _ = batch[0]
        addresses = [item.address for item, _ in batch]
        return claim(forester, account.rent_sponsor, account.compression_authority, addresses)

    async def _claim(self, batch: Sequence[_Owing], eligibility: EligibilityWindow) -> int:
        """Claim the rent of a batch; return the number of accounts."""
        within_s = eligibility.sending_seconds()
        if within_s is None:
            return 0
        outcome = await self._sender.send(
            [self._instruction(batch, eligibility.epoch)],
            purpose=PURPOSE,
            subject=COMPRESSION_KEY,
            within_s=within_s,
            unit_limit=_BASE_UNITS + _UNITS * len(batch),
        )
        if outcome.fate is Fate.DEADLINE_PASSED and outcome.signed:
            until = eligibility.slot() + UNKNOWN_SLOTS
            self._unknown |= {item.address: until for item, _ in batch}
        error = outcome.error
        if isinstance(error, InsufficientFunds) or (error is not None and is_for_forester(error)):
            raise error
        if outcome.fate not in (Fate.CONFIRMED, Fate.REFUSED):
            return 0
        # Refused ones wait for the next rent epoch, as if they had been claimed: others go first.
        slot = outcome.slot or eligibility.slot()
        await self._store.claimed([bytes(item.address) for item, _ in batch], slot // RENT_EPOCH_SLOTS)
        if outcome.fate is Fate.REFUSED:
            _log.warning("claim_refused", accounts=len(batch), error=str(outcome.error))
            return 0
        self._metrics.rent_claimed.inc(sum(lamports for _, lamports in batch))
        return len(batch)
