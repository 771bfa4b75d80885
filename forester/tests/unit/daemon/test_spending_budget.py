"""The budget of an hour: what counts, when it has room again, and who hears of it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from solders.pubkey import Pubkey
from solders.system_program import CreateAccountParams, TransferParams, create_account, transfer
from start_options import until

from forester.daemon.watches.budget_watch import BudgetWatch
from forester.journal.database import Journal
from forester.journal.spending import WINDOW_S, SpendingStore
from forester.observability.health import HealthBoard, Severity
from forester.observability.metrics import Metrics
from forester.transactions.spending import BudgetExceeded, SpendingBudget, fee_lamports, given_lamports

PAYER, OTHER = (Pubkey(bytes([number]) * 32) for number in (1, 2))
MAXIMUM = 1000


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest_asyncio.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    async with await Journal.open(tmp_path / "journal.sqlite") as opened:
        yield opened


def budget_of(journal: Journal, clock: Clock) -> SpendingBudget:
    return SpendingBudget(SpendingStore(journal), MAXIMUM, clock=clock)


async def test_reserve__beyond_the_budget__is_refused_and_names_amounts_and_setting(
    journal: Journal, clock: Clock
) -> None:
    budget = budget_of(journal, clock)
    await budget.reserve(600)
    with pytest.raises(BudgetExceeded) as refused:
        await budget.reserve(401)
    for part in ("6e-07 of 1e-06 SOL", "4.01e-07 SOL", "--spending-budget-sol-per-hour"):
        assert part in refused.value.detail
    await budget.reserve(400)
    with pytest.raises(BudgetExceeded):
        await budget.reserve(1)


async def test_reserve__in_any_hour__never_exceeds_the_budget(journal: Journal, clock: Clock) -> None:
    budget, granted, began = budget_of(journal, clock), [], clock.now
    while clock.now < began + 3 * WINDOW_S:
        try:
            await budget.reserve(90)
            granted.append(clock.now)
        except BudgetExceeded:
            pass
        clock.now += 97
    for first in granted:
        assert 90 * sum(first <= at <= first + WINDOW_S for at in granted) <= MAXIMUM
    assert len(granted) >= 3 * (MAXIMUM // 90), "each hour has its budget"


async def test_budget__after_a_restart__is_as_spent_as_before(tmp_path: Path, clock: Clock) -> None:
    for _ in range(2):
        async with await Journal.open(tmp_path / "journal.sqlite") as journal:
            await budget_of(journal, clock).reserve(500)
    async with await Journal.open(tmp_path / "journal.sqlite") as journal:
        with pytest.raises(BudgetExceeded):
            await budget_of(journal, clock).reserve(1)
        clock.now += WINDOW_S + 60
        await budget_of(journal, clock).reserve(MAXIMUM)


async def test_budget__clock_set_back__is_neither_freed_nor_blocked_for_longer_than_an_hour(
    journal: Journal, clock: Clock
) -> None:
    budget = budget_of(journal, clock)
    await budget.reserve(MAXIMUM)
    clock.now -= 86_400
    with pytest.raises(BudgetExceeded):
        await budget.reserve(1)
    clock.now += WINDOW_S + 60
    await budget.reserve(MAXIMUM)


async def test_journal__of_many_transactions__keeps_a_row_for_each_minute_only(tmp_path: Path, clock: Clock) -> None:
    async with await Journal.open(tmp_path / "journal.sqlite") as journal:
        budget = SpendingBudget(SpendingStore(journal), 10**9, clock=clock)
        for _ in range(300):
            await budget.reserve(5)
            clock.now += 30
    connection = sqlite3.connect(tmp_path / "journal.sqlite")
    (rows,) = connection.execute("SELECT count(*) FROM spending").fetchone()
    connection.close()
    assert rows <= WINDOW_S // 60 + 1


def test_fee__of_signatures_and_a_price__is_rounded_up() -> None:
    assert fee_lamports(1, 1_000_000, None) == 5000
    assert fee_lamports(4, 200_000, 1_000_000) == 220_000
    assert fee_lamports(1, 1, 1) == 5001


def test_given__accounts_and_transfers_of_the_payer__count_and_those_of_others_do_not() -> None:
    def created(payer: Pubkey, lamports: int) -> CreateAccountParams:
        return CreateAccountParams(from_pubkey=payer, to_pubkey=OTHER, lamports=lamports, space=9, owner=OTHER)

    work = [create_account(created(PAYER, 700)), create_account(created(OTHER, 5_000))]
    work += [transfer(TransferParams(from_pubkey=PAYER, to_pubkey=OTHER, lamports=30))]
    assert given_lamports(work, PAYER) == 730


async def test_watch__budget_exceeded_and_room_again__is_a_condition_of_its_own_that_ends_alone(
    journal: Journal, clock: Clock
) -> None:
    budget, metrics, board = budget_of(journal, clock), Metrics(), HealthBoard()
    reported: list[tuple[str, bool]] = []
    board.subscribe(lambda condition, problem: reported.append((condition, problem is not None)))
    watching = asyncio.create_task(BudgetWatch(budget, metrics, board, every_s=0.01).run())
    try:
        await budget.reserve(MAXIMUM)
        with pytest.raises(BudgetExceeded):
            await budget.reserve(1)
        await until(lambda: bool(board.problems))
        (problem,) = board.problems
        assert (problem.condition, problem.severity) == ("budget", Severity.CRITICAL)
        assert "--spending-budget-sol-per-hour" in problem.reason
        assert metrics.registry.get_sample_value("forester_spent_lamports") == MAXIMUM
        assert metrics.registry.get_sample_value("forester_spending_budget_lamports") == MAXIMUM
        clock.now += WINDOW_S + 60
        await until(lambda: not board.problems)
        assert reported[-2:] == [("budget", True), ("budget", False)], "the pager hears both"
        assert metrics.registry.get_sample_value("forester_spent_lamports") == 0
    finally:
        watching.cancel()
        await asyncio.wait([watching])


async def test_budget__refused_amount_that_can_never_have_room__is_no_condition_an_hour_later(
    journal: Journal, clock: Clock
) -> None:
    budget = budget_of(journal, clock)
    with pytest.raises(BudgetExceeded):
        await budget.reserve(MAXIMUM + 1)
    await budget.refresh()
    assert budget.reason is not None
    clock.now += WINDOW_S + 1
    await budget.refresh()
    assert budget.reason is None
