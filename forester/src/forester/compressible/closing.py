"""Compresses and closes token accounts whose rent has run out, those that earn most first.

The journal names candidates; each is read again right before its transaction, which decides what is sent. The program
refuses a transaction if one of its accounts is not due. So a refused group is sent again one by one, and an account
that is refused alone waits.
"""

import asyncio
import random
from collections.abc import Callable, Sequence

from solders.pubkey import Pubkey

from forester.chain.programs.addresses import COMPRESSED_TOKEN
from forester.chain.programs.compression import ClosedAccount, compress_and_close
from forester.chain.programs.registry import Forester
from forester.chain.rpc_client import Account, RpcClient
from forester.chain.tree_metadata import TreeMetadata
from forester.compressible.token_account import TokenAccount, decode_token_account
from forester.compressible.tracker import tracked
from forester.errors import ForesterError, InsufficientFunds, MalformedAccount
from forester.journal.compressible import CompressibleStore
from forester.observability.metrics import Metrics
from forester.scheduling.eligibility_window import EligibilityWindow, ProcessingResult
from forester.scheduling.tree_schedule import COMPRESSION_KEY
from forester.transactions.builder import TransactionTooLarge
from forester.transactions.confirm import Fate, Outcome
from forester.transactions.sender import Sender
from shared.logs import get_logger

_log = get_logger(__name__)

PURPOSE = "compress_and_close"

_CANDIDATES = 100
_GROUP = 5
_BASE_UNITS, _UNITS_PER_ACCOUNT = 100_000, 100_000
"""Compute units: one account takes 55,000, of which a part is fixed."""

_POSTPONED_SLOTS = 1500
"""Ten minutes for an account that the program refused."""

OutputTrees = Callable[[], Sequence[TreeMetadata]]
"""Returns the V2 state trees whose output queues accept compressed accounts."""


class AccountCloser:
    """Closes accounts in our windows; its eligibility key is COMPRESSION_KEY."""

    def __init__(
        self,
        rpc: RpcClient,
        store: CompressibleStore,
        sender: Sender,
        metrics: Metrics,
        *,
        derivation: Pubkey,
        trees: OutputTrees,
    ) -> None:
        self._rpc = rpc
        self._store = store
        self._sender = sender
        self._metrics = metrics
        self._derivation = derivation
        self._trees = trees

    async def work(self, eligibility: EligibilityWindow) -> ProcessingResult:
        """Close one round of accounts; failures are part of the result. Raises only bugs."""
        try:
            if not await self._may_begin(eligibility):
                return ProcessingResult()
            due = await self._due(eligibility.slot())
        except ForesterError as error:
            return ProcessingResult(failure=error)
        groups = (self._close(group, eligibility) for group in _groups(due))
        done = await asyncio.gather(*groups, return_exceptions=True)
        closed, failure = 0, None
        for result in done:
            if isinstance(result, int):
                closed += result
            elif isinstance(result, ForesterError):
                failure = failure or result
            else:
                raise result
        return ProcessingResult(closed, more=len(due) == _CANDIDATES, failure=failure)

    async def _may_begin(self, eligibility: EligibilityWindow) -> bool:
        within_s = eligibility.sending_seconds()
        if within_s is None or not self._trees():
            return False
        # A transaction of an earlier process may still close accounts that we would read as open.
        return await self._sender.wait_for_earlier(PURPOSE, COMPRESSION_KEY, within_s)

    async def _due(self, slot: int) -> list[TokenAccount]:
        """Return candidates that the chain confirms; rows that are wrong or out of date are corrected."""
        candidates = [Pubkey(address) for address in await self._store.ready(slot, _CANDIDATES)]
        found = await self._rpc.accounts(candidates)
        due: list[TokenAccount] = []
        gone: list[bytes] = []
        for address, account in zip(candidates, found, strict=True):
            token_account = _decoded(account)
            if token_account is None:
                gone.append(bytes(address))
            elif token_account.rent.is_compressible(slot):
                due.append(token_account)
            else:
                await self._store.put([tracked(bytes(address), token_account.rent, slot)])
        await self._store.remove(gone)
        return due

    async def _close(self, group: Sequence[TokenAccount], eligibility: EligibilityWindow) -> int:
        """Close accounts in one transaction, or one by one if it is refused; return the number of closed ones."""
        within_s = eligibility.sending_seconds()
        if within_s is None:
            return 0
        try:
            outcome = await self._send(group, eligibility.epoch, within_s)
        except TransactionTooLarge:
            if len(group) == 1:
                raise
            half = len(group) // 2
            return await self._close(group[:half], eligibility) + await self._close(group[half:], eligibility)
        if outcome.fate is Fate.CONFIRMED:
            self._metrics.accounts_compressed.inc(len(group))
            self._metrics.compression_lamports.inc(sum(account.rent.compression_cost for account in group))
            await self._store.remove(bytes(account.address) for account in group)
            return len(group)
        if isinstance(outcome.error, InsufficientFunds):
            raise outcome.error
        if outcome.fate is not Fate.REFUSED:
            return 0
        if len(group) > 1:
            return sum([await self._close([account], eligibility) for account in group])
        address = bytes(group[0].address)
        _log.warning("compression_refused", account=str(group[0].address), error=str(outcome.error))
        await self._store.postpone(address, eligibility.slot() + _POSTPONED_SLOTS)
        return 0

    async def _send(self, group: Sequence[TokenAccount], epoch: int, within_s: float) -> Outcome:
        tree = random.choice(self._trees())  # noqa: S311 - spreads load over queues
        accounts = [
            ClosedAccount(item.address, item.mint, item.compressed_owner, item.rent_sponsor, item.delegate)
            for item in group
        ]
        forester = Forester.registered(self._sender.payer, self._derivation, epoch)
        instruction = compress_and_close(forester, tree.queue, group[0].compression_authority, accounts)
        fees = tree.metadata.network_fee + len(group) * tree.metadata.rollover_fee
        return await self._sender.send(
            [instruction],
            purpose=PURPOSE,
            subject=COMPRESSION_KEY,
            within_s=within_s,
            unit_limit=_BASE_UNITS + _UNITS_PER_ACCOUNT * len(group),
            program_lamports=fees,
        )


def _decoded(account: Account | None) -> TokenAccount | None:
    if account is None or account.owner != COMPRESSED_TOKEN:
        return None
    try:
        return decode_token_account(account)
    except MalformedAccount as error:
        _log.warning("compressible_account_malformed", account=str(account.address), error=error.detail)
        return None


def _groups(accounts: Sequence[TokenAccount]) -> list[list[TokenAccount]]:
    """Split accounts into groups for a transaction each: of one compression authority, which the instruction names."""
    by_authority: dict[Pubkey, list[TokenAccount]] = {}
    for account in accounts:
        by_authority.setdefault(account.compression_authority, []).append(account)
    return [
        members[start : start + _GROUP] for members in by_authority.values() for start in range(0, len(members), _GROUP)
    ]
