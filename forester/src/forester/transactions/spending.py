"""Spending budget: no transaction is sent beyond it, whatever a node reports.

A transaction counts when it is signed, for all that it may spend, and is never refunded: only a node reports that it
did not land.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

from solders.instruction import Instruction
from solders.pubkey import Pubkey

from forester.chain.programs.addresses import SYSTEM
from forester.errors import ForesterError
from forester.journal.spending import UNKNOWN_PURPOSE, WINDOW_S, SpendingStore
from forester.units import sol
from shared.process.logs import get_logger

_log = get_logger(__name__)

SIGNATURE_FEE_LAMPORTS = 5000
_MICROLAMPORTS = 1_000_000
_CREATE_ACCOUNT = 0
_TRANSFER = 2


class BudgetExceeded(ForesterError, exit_code=75, retryable=True):
    """The spending budget has no room for a transaction, which was not sent."""


def fee_lamports(signatures: int, unit_limit: int, unit_price: int | None) -> int:
    """Return the fee of a transaction in lamports; the price is in microlamports per compute unit."""
    return SIGNATURE_FEE_LAMPORTS * signatures + -(-(unit_price or 0) * unit_limit // _MICROLAMPORTS)


def given_lamports(work: Sequence[Instruction], payer: Pubkey) -> int:
    """Return the lamports that instructions take from the payer for new accounts and transfers."""
    given = 0
    for instruction in work:
        data = bytes(instruction.data)
        if instruction.program_id != SYSTEM or instruction.accounts[0].pubkey != payer:
            continue
        if int.from_bytes(data[:4], "little") in (_CREATE_ACCOUNT, _TRANSFER):
            given += int.from_bytes(data[4:12], "little")
    return given


def _steady_time() -> Callable[[], float]:
    """Return a clock of Unix seconds that does not jump when the machine's clock is set."""
    offset_s = time.time() - time.monotonic()
    return lambda: offset_s + time.monotonic()


class SpendingBudget:
    """The budget of one payer: ``maximum`` lamports within any hour. ``clock`` returns Unix seconds."""

    def __init__(self, store: SpendingStore, maximum: int, *, clock: Callable[[], float] | None = None) -> None:
        self._store = store
        self._clock = clock or _steady_time()
        self._refused: tuple[int, float] | None = None
        self.maximum = maximum
        self.spent = 0
        """Lamports within the hour, as last read."""
        self.by_purpose: Mapping[str, int] = {}
        """The same by purpose, as ``refresh`` last read it."""
        self.exceeded = asyncio.Event()
        """Set while a refused transaction has no room."""

    @property
    def reason(self) -> str | None:
        """Reason why transactions are not sent; None while all of them have room."""
        return None if self._refused is None else self._refusal_text(self._refused[0])

    async def reserve(self, lamports: int, purpose: str = UNKNOWN_PURPOSE) -> None:
        """Count the cost of a transaction before it is sent. Raises BudgetExceeded and JournalError."""
        fits, self.spent = await self._store.reserve(lamports, maximum=self.maximum, now=self._clock(), purpose=purpose)
        if fits:
            return
        if self._refused is None:
            _log.error(
                "spending_budget_exceeded", lamports=lamports, spent_lamports=self.spent, budget_lamports=self.maximum
            )
        largest = max(lamports, self._refused[0] if self._refused is not None else 0)
        self._refused = largest, self._clock()
        self.exceeded.set()
        raise BudgetExceeded(self._refusal_text(lamports))

    async def refresh(self) -> None:
        """Read the spending, and whether the refused transaction has room again. Raises JournalError."""
        self.by_purpose = await self._store.within_window(self._clock())
        self.spent = sum(self.by_purpose.values())
        if self._refused is None:
            return
        lamports, at = self._refused
        if self.spent + lamports <= self.maximum or self._clock() - at > WINDOW_S:
            self._refused = None
            self.exceeded.clear()
            _log.info("spending_budget_restored", spent_lamports=self.spent, budget_lamports=self.maximum)

    def _refusal_text(self, lamports: int) -> str:
        return (
            f"spending budget exceeded: {sol(self.spent):g} of {sol(self.maximum):g} SOL were signed for within an "
            f"hour, a transaction of {sol(lamports):g} SOL is not sent; wait until the hour has room, or compare the "
            "node with another one and raise --spending-budget-sol-per-hour"
        )
