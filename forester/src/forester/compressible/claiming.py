"""Claims the rent of completed rent epochs for rent sponsors, most rent first.

A claim costs a transaction and pays the forester nothing: closing an account returns its rent anyway. So a transaction
is sent only if it claims a minimum, which the operator chooses.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from solders.instruction import Instruction
from solders.pubkey import Pubkey

from forester.chain.programs.compression import claim
from forester.chain.programs.registry import Forester
from forester.chain.rpc_client import Account, RpcClient
from forester.compressible.mint_account import MintAccount, decode_mint_account
from forester.compressible.rent import RENT_EPOCH_SLOTS
from forester.compressible.sources import AccountSource
from forester.compressible.token_account import TokenAccount, decode_token_account
from forester.errors import ForesterError, InsufficientFunds, MalformedAccount
from forester.journal.compressible import MINT, CompressibleStore
from forester.observability.metrics import Metrics
from forester.scheduling.eligibility_window import EligibilityWindow, ProcessingResult
from forester.scheduling.tree_schedule import COMPRESSION_KEY
from forester.transactions.confirm import Fate
from forester.transactions.sender import Sender
from shared.logs import get_logger

_log = get_logger(__name__)

PURPOSE = "claim_rent"

_EVERY_S = 300.0
"""Pause after a search that found too little: each reads all rows of the journal."""

_CANDIDATES = 400
_LARGEST = 30
_BASE_UNITS, _UNITS = 30_000, 15_000


@dataclass(frozen=True)
class _Owing:
    account: TokenAccount | MintAccount
    source: AccountSource
    wire: Account
    lamports: int


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
        failures = [item for item in done if isinstance(item, ForesterError)]
        bugs = [item for item in done if isinstance(item, BaseException) and not isinstance(item, ForesterError)]
        if bugs:
            raise bugs[0]
        claimed = sum(item for item in done if isinstance(item, int))
        return ProcessingResult(claimed, more=bool(claimed), failure=failures[0] if failures else None)

    async def _owing(self, slot: int) -> list[_Owing]:
        """Return accounts that owe rent as the chain says; rows that are wrong or out of date are corrected."""
        rows = await self._store.claimable(slot, slot // RENT_EPOCH_SLOTS, _CANDIDATES)
        known = [(Pubkey(address), self._sources[kind], kind) for address, kind in rows if kind in self._sources]
        found = await self._rpc.accounts([address for address, _, _ in known])
        owing, corrected, gone = [], [], []
        for (address, source, kind), wire in zip(known, found, strict=True):
            account = _decoded(source, wire, kind)
            if wire is None or account is None:
                gone.append(bytes(address))
            elif lamports := account.rent.claimable(slot):
                owing.append(_Owing(account, source, wire, lamports))
            else:
                corrected.append(source.row(wire, account.rent, slot))
        await self._store.put(corrected)
        await self._store.remove(gone)
        return sorted(owing, key=lambda item: -item.lamports)

    def _batches(self, owing: Sequence[_Owing], epoch: int) -> list[list[_Owing]]:
        """Return accounts that share a sponsor and an authority, as many as fit; batches worth sending only."""
        groups: dict[tuple[Pubkey, Pubkey], list[_Owing]] = defaultdict(list)
        for item in owing:
            groups[item.account.rent_sponsor, item.account.compression_authority].append(item)
        batches = []
        for group in groups.values():
            begin = 0
            while begin < len(group):
                count = min(_LARGEST, len(group) - begin)
                while count > 1 and not self._sender.fits([self._instruction(group[begin : begin + count], epoch)]):
                    count -= 1
                batch = group[begin : begin + count]
                if sum(item.lamports for item in batch) < self._minimum:
                    break
                batches.append(batch)
                begin += count
        return batches

    def _instruction(self, batch: Sequence[_Owing], epoch: int) -> Instruction:
        forester = Forester.registered(self._sender.payer, self._derivation, epoch)
        account = batch[0].account
        addresses = [item.account.address for item in batch]
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
        if isinstance(outcome.error, InsufficientFunds):
            raise outcome.error
        if outcome.fate not in (Fate.CONFIRMED, Fate.REFUSED):
            return 0
        # Refused ones wait for the next rent epoch, as if they had been claimed: others go first.
        slot = outcome.slot or eligibility.slot()
        await self._store.claimed([bytes(item.account.address) for item in batch], slot // RENT_EPOCH_SLOTS)
        if outcome.fate is Fate.REFUSED:
            _log.warning("claim_refused", accounts=len(batch), error=str(outcome.error))
            return 0
        self._metrics.rent_claimed.inc(sum(item.lamports for item in batch))
        return len(batch)


def _decoded(source: AccountSource, wire: Account | None, kind: int) -> TokenAccount | MintAccount | None:
    if wire is None or not source.has(wire):
        return None
    try:
        return decode_mint_account(wire) if kind == MINT else decode_token_account(wire)
    except MalformedAccount as error:
        _log.warning("compressible_account_malformed", account=str(wire.address), error=error.detail)
        return None
