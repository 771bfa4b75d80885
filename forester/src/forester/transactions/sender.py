"""The only sender of work to the chain: it prices, signs, stores, sends, confirms and counts transactions.

A signature is in the journal before its transaction is sent for the first time, and leaves it with its
outcome. Work whose transaction may still land is never signed a second time: the transaction is repeated unchanged.
"""

import asyncio
import contextlib
import hashlib
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey

from forester.chain.lookup_tables import LookupTables
from forester.chain.rpc_client import RpcClient
from forester.errors import EndpointError, InsufficientFunds, TransactionRefused
from forester.journal.signatures import SignatureStore
from forester.observability.metrics import Metrics
from forester.settings import SigningKey
from forester.transactions.blockhash import Blockhashes
from forester.transactions.builder import Budget, Built, TransactionTooLarge, build, fitting
from forester.transactions.confirm import Confirmations, Fate, Outcome
from forester.transactions.expiry import PAUSES, ExpiryPauses
from forester.transactions.own_signatures import OwnSignatures
from forester.transactions.pending_transactions import PendingTransactions, Signed
from forester.transactions.priority_fee import PriorityFee
from forester.transactions.send_priorities import Priority, SendingSlots, priority_of
from forester.transactions.spending import BudgetExceeded, SpendingBudget, fee_lamports, given_lamports
from forester.units import sol
from shared.process.logs import get_logger
from shared.process.retries import Backoff

_log = get_logger(__name__)

_BATCH_NOT_READY = 14301
_BALANCE_S = 5.0


@dataclass(frozen=True)
class _Order:
    """Order of a caller to send work, which ``digest`` identifies."""

    work: tuple[Instruction, ...]
    digest: bytes
    purpose: str
    subject: bytes
    unit_limit: int
    signers: tuple[Keypair, ...]
    program_lamports: int

    @property
    def priority(self) -> Priority:
        """Priority of the transaction while others wait as well."""
        return priority_of(self.purpose)


class Sender:
    """Sender for all parts; ``confirmations`` is an open context that belongs to the caller.

    At most ``max_in_flight`` transactions are in flight at once.
    ``cu_limit`` bounds the compute units of a transaction unless its caller names another limit. Work with unknown
    outcome is not signed again for ``unknown_kept_s`` seconds (``tx_cache_ttl_seconds``). ``budget`` bounds the
    cost of signed work, ``pauses`` its rate while all of it expires.
    """

    def __init__(
        self,
        rpc: RpcClient,
        confirmations: Confirmations,
        signatures: SignatureStore,
        fees: PriorityFee,
        payer: SigningKey,
        *,
        budget: SpendingBudget,
        cu_limit: int,
        metrics: Metrics,
        max_in_flight: int = 12,
        tables: LookupTables | None = None,
        unknown_kept_s: float = 180.0,
        pauses: Backoff = PAUSES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rpc = rpc
        self._confirmations = confirmations
        self._fees = fees
        self._payer = payer
        self.budget = budget
        """Budget of signed transactions."""

        self._cu_limit = cu_limit
        self._tables = tables or LookupTables(rpc, None)
        self._metrics = metrics
        self._clock = clock
        self._blockhashes = Blockhashes(rpc, clock=clock)
        self._own = OwnSignatures()
        self._unsettled = PendingTransactions(rpc, signatures, self._own, kept_s=unknown_kept_s, clock=clock)
        self._turns: weakref.WeakValueDictionary[bytes, asyncio.Lock] = weakref.WeakValueDictionary()
        self._expiries = ExpiryPauses(pauses, clock=clock)
        self._slots = SendingSlots(max_in_flight, self._expiries)
        self.short_of_funds = False
        """True if the payer could not pay a fee: nothing is sent until ``funds_restored``."""

    @property
    def payer(self) -> Pubkey:
        """Key that signs and pays."""
        return self._payer.pubkey

    def funds_restored(self) -> None:
        """Send again: the payer has money."""
        self.short_of_funds = False

    def fitting(self, work: Sequence[Instruction]) -> int:
        """Return the number of first instructions that fit one transaction; TransactionTooLarge if it is 0."""
        # Always with a price: a later estimate must not make a transaction too large.
        return fitting(work, self._payer.pubkey, Budget(self._cu_limit, 1), self._tables.current)

    def fits(self, work: Sequence[Instruction]) -> bool:
        """Return whether instructions fit one transaction, however many they are."""
        try:
            budget, tables = Budget(self._cu_limit, 1), self._tables.current
            return fitting(work, self._payer.pubkey, budget, tables, maximum=len(work)) == len(work)
        except TransactionTooLarge:
            return False

    async def settle_pending(self) -> int:
        """Query the outcome of all journaled signatures; return the number that stay unknown. Raises EndpointError."""
        return await self._unsettled.settle_all()

    async def own_signatures(self) -> OwnSignatures:
        """Return our signatures, including pending ones of earlier processes at the start. Raises JournalError."""
        await self._unsettled.inherited()
        return self._own

    async def wait_for_earlier(self, purpose: str, subject: bytes, within_s: float) -> bool:
        """Return whether no transaction of an earlier process for ``subject`` may land any more; wait for that.

        Call it before reading the state that such a transaction changes; later calls cost nothing. Raises JournalError.
        """
        try:
            async with asyncio.timeout(within_s):
                await self._unsettled.wait_for_inherited(purpose, subject)
        except TimeoutError:
            return False
        return True

    async def send(
        self,
        work: Sequence[Instruction],
        *,
        purpose: str,
        subject: bytes,
        within_s: float,
        unit_limit: int | None = None,
        signers: Sequence[Keypair] = (),
        program_lamports: int = 0,
    ) -> Outcome:
        """Send ``work`` as one transaction and return its outcome, after ``within_s`` seconds and a last read at most.

        ``purpose`` names the work in the journal, the log and after a restart, ``subject`` the tree or account that it
        changes: transactions of an earlier process for both are awaited first. If there was one, the work may be done:
        nothing is signed, and the outcome is EXPIRED, so that the caller reads the chain again. ``program_lamports`` is
        the maximum that programs themselves take from the payer, which counts for the budget. Refusals are an outcome
        with an error. Raises EndpointError, TransactionTooLarge, BudgetExceeded and JournalError: then nothing was sent
        by this call. A cancelled call leaves the outcome unknown.
        """
        order = _Order(
            *(tuple(work), _digest(work), purpose, subject),
            *(unit_limit or self._cu_limit, tuple(signers), program_lamports),
        )
        if self.short_of_funds:
            return self._unpaid(order)
        ends = self._clock() + within_s
        turn = self._turns.setdefault(order.digest, asyncio.Lock())
        try:
            async with asyncio.timeout(max(0.0, within_s)):
                await turn.acquire()
        except TimeoutError:  # the other call for the same work may have signed
            return self._reported(Outcome(Fate.DEADLINE_PASSED), purpose, None)
        try:
            return await self._send_alone(order, ends)
        finally:
            turn.release()

    def _unpaid(self, order: _Order) -> Outcome:
        """Return the outcome of work for which nothing is signed, because the payer cannot pay."""
        payer = self._payer.pubkey
        error = InsufficientFunds(f"insufficient funds: {payer} cannot pay for transactions; send SOL to it")
        # After a refusal the caller would forget a transaction that may land.
        in_flight = self._unsettled.of_work(order.digest) is not None
        return Outcome(Fate.DEADLINE_PASSED if in_flight else Fate.REFUSED, error=error, signed=in_flight)

    async def _send_alone(self, order: _Order, ends: float) -> Outcome:
        purpose = order.purpose
        signed = known = self._unsettled.of_work(order.digest)
        async with contextlib.AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(max(0.0, ends - self._clock())):
                    if await self._unsettled.wait_for_inherited(purpose, order.subject):
                        _log.info("work_outdated", purpose=purpose, subject=_shown(order.subject))
                        return Outcome(Fate.EXPIRED, signed=known is not None)
                    # Signed only with a slot: the blockhash of a transaction that waits for one would expire.
                    slot = self._slots.slot(order.priority, repeated=known is not None)
                    count_signature = await stack.enter_async_context(slot)
                    if signed is None:
                        if self.short_of_funds:  # found out while this call waited
                            return self._unpaid(order)
                        signed = await self._signed(order)
                        count_signature()
                    await self._unsettled.add(signed, purpose, order.subject)
            except TimeoutError:
                return self._reported(Outcome(Fate.DEADLINE_PASSED, signed=signed is not None), purpose, None)
            except BudgetExceeded:
                self._metrics.failed.labels("budget_exceeded").inc()
                raise
            self._metrics.work.carried(str(signed.built.signature), _shown(order.subject))
            return await self._settled(signed, order, ends)

    async def _settled(self, signed: Signed, order: _Order, ends: float) -> Outcome:
        """Send a signed transaction and return its outcome."""
        purpose = order.purpose
        repeated, signed.was_sent = signed.was_sent, True
        try:
            with self._metrics.in_flight.track_inprogress():
                outcome = await self._confirmations.send(
                    signed.built,
                    signed.last_valid_block_height,
                    within_s=max(0.0, ends - self._clock()),
                    repeated=repeated,
                )
        except TransactionRefused as error:
            outcome = Outcome(Fate.REFUSED, error=error)
        except EndpointError as error:
            self._metrics.failed.labels("send_failed").inc()
            self._metrics.work.settled(str(signed.built.signature), "send_failed", detail=error.detail)
            _log.warning("transaction_not_sent", purpose=purpose, error=error.detail)
            await self._unsettled.settle(signed)
            raise
        if outcome.fate is Fate.EXPIRED:
            self._blockhashes.forget()
            self._expiries.expired(signed.since)
        elif outcome.slot is not None:  # also one that failed there
            self._expiries.landed()
        if outcome.fate is not Fate.DEADLINE_PASSED:
            await self._unsettled.settle(signed)
        return self._reported(await self._with_funds_seen(_with_position(outcome, signed), signed), purpose, signed)

    async def _signed(self, order: _Order) -> Signed:
        writable = [meta.pubkey for instruction in order.work for meta in instruction.accounts if meta.is_writable]
        price = await self._fees.price([self._payer.pubkey, *writable])
        blockhash = await self._blockhashes.latest()
        fee = fee_lamports(1 + len(order.signers), order.unit_limit, price)
        given = given_lamports(order.work, self._payer.pubkey)
        cost = fee + given + order.program_lamports
        # Built first: one that is too large must not count for the budget.
        built = self._built_again(order, blockhash.hash, price)
        await self.budget.reserve(cost, order.purpose)
        self._own.add(built.signature)
        preamble = len(Budget(order.unit_limit, price).instructions())
        self._metrics.work.signed(str(built.signature), order.purpose, _shown(order.subject), cost)
        return Signed(built, order.digest, preamble, blockhash.last_valid_block_height, fee, self._clock())

    def _built_again(self, order: _Order, blockhash: Hash, price: int | None) -> Built:
        """Build a transaction unlike all earlier ones: an equal one after a refusal would get the same outcome."""
        budget = Budget(order.unit_limit, price)
        while True:
            built = build(order.work, self._payer, blockhash, budget, self._tables.current, signers=order.signers)
            if built.signature not in self._own:
                return built
            budget = replace(budget, unit_limit=budget.unit_limit - 1)

    async def _with_funds_seen(self, outcome: Outcome, signed: Signed) -> Outcome:
        """Detect a payer without money: nodes drop unpaid transactions without a status."""
        error = outcome.error
        if isinstance(error, InsufficientFunds) and error.instruction is None:
            self.short_of_funds = True
        if outcome.fate not in (Fate.EXPIRED, Fate.DEADLINE_PASSED):
            return outcome
        try:
            async with asyncio.timeout(_BALANCE_S):
                balance = await self._rpc.balance(self._payer.pubkey)
        except (EndpointError, TimeoutError):
            return outcome
        if balance >= signed.fee_lamports:
            return outcome
        self.short_of_funds = True
        lacking = InsufficientFunds(
            f"insufficient funds: {self._payer.pubkey} has {sol(balance):g} SOL, a transaction costs "
            f"{sol(signed.fee_lamports):g}"
        )
        return Outcome(Fate.REFUSED if outcome.fate is Fate.EXPIRED else outcome.fate, error=lacking)

    def _reported(self, outcome: Outcome, purpose: str, signed: Signed | None) -> Outcome:
        """Log and count an outcome."""
        fields = {"purpose": purpose, "signature": str(signed.built.signature) if signed is not None else None}
        if outcome.fate is Fate.CONFIRMED:
            seconds = self._clock() - signed.since if signed is not None else 0.0
            _log.info("transaction_confirmed", **fields, slot=outcome.slot, seconds=round(seconds, 3))
            if signed is not None:
                self._metrics.work.settled(str(signed.built.signature), outcome.fate.value, outcome.slot)
            return outcome
        not_ready = outcome.error is not None and outcome.error.code == _BATCH_NOT_READY
        reason = "batch_not_ready" if not_ready else outcome.fate.value
        self._metrics.failed.labels(reason).inc()
        error = outcome.error.detail if outcome.error is not None else None
        if signed is not None:
            self._metrics.work.settled(str(signed.built.signature), reason, outcome.slot, error)
        _log.warning("transaction_failed", **fields, reason=reason, error=error)
        return outcome


def _with_position(outcome: Outcome, signed: Signed) -> Outcome:
    """Return the outcome with the position of the refused instruction in the work, without those of the budget."""
    position = outcome.error.instruction if outcome.error is not None else None
    return outcome if position is None else replace(outcome, position=max(0, position - signed.preamble))


def _shown(subject: bytes) -> str:
    """Return a subject as an address, if it is one."""
    return str(Pubkey(subject)) if len(subject) == Pubkey.LENGTH else subject.hex()


def _digest(work: Sequence[Instruction]) -> bytes:
    """Return the digest of work: of programs, accounts and data of its instructions."""
    digest = hashlib.sha256()
    for instruction in work:
        digest.update(hashlib.sha256(bytes(instruction)).digest())
    return digest.digest()
