"""Reports of the spending budget: in metrics, and as a condition while it has no room."""

import asyncio

from forester.observability.health import HealthBoard
from forester.observability.metrics import Metrics
from forester.transactions.spending import SpendingBudget
from forester.waiting import occurs_within

EVERY_S = 10.0


class BudgetWatch:
    """Task that reads the budget every ``every_s`` seconds, and at once when it is exceeded."""

    def __init__(
        self, budget: SpendingBudget, metrics: Metrics, board: HealthBoard, *, every_s: float = EVERY_S
    ) -> None:
        self._budget = budget
        self._metrics = metrics
        self._board = board
        self._every_s = every_s

    async def run(self) -> None:
        """Watch forever. Raises JournalError."""
        self._metrics.spending_budget.set(self._budget.maximum)
        while True:
            await self._budget.refresh()
            self._metrics.spent.set(self._budget.spent)
            self._board.set("budget", self._budget.reason)
            if self._budget.exceeded.is_set():
                await asyncio.sleep(self._every_s)
            else:
                await occurs_within(self._budget.exceeded, self._every_s)
