"""Money of one forester: burn and days left; no I/O."""

from dataclasses import dataclass
from itertools import pairwise

from forester.dashboard.activity import ActivityDocument, HistoryFacts, MoneyFacts

_ENOUGH_S = 1800.0
_DAY_S = 86400.0


@dataclass(frozen=True)
class FundsView:
    """Money of a forester. ``days_left`` is None while nothing is spent; ``basis`` says what it is computed from."""

    payer: str
    money: MoneyFacts
    days_left: float | None
    basis: str

    @property
    def used_percent(self) -> float:
        """Used part of the budget in percent, 100 at most."""
        return min(100.0, self.money.spent / self.money.budget * 100) if self.money.budget else 0.0

    @property
    def tone(self) -> str:
        """``bad`` for less than a day, ``warn`` for less than a week, else empty."""
        if self.days_left is None or self.days_left >= 7:
            return ""
        return "bad" if self.days_left < 1 else "warn"


def funds_view(activity: ActivityDocument) -> FundsView:
    """Return the money of a forester."""
    money = activity.money
    per_day, basis = _burn(activity.history, money.spent)
    days = money.lamports / per_day if money.lamports is not None and per_day > 0 else None
    return FundsView(activity.payer, money, days, basis)


def _burn(history: HistoryFacts | None, spent: int) -> tuple[float, str]:
    """Return lamports a day: of the balances of half an hour or more, else what was signed for within the hour.

    Top-ups do not count, nor what the work earns.
    """
    if history is not None:
        known = [(at, value) for at, value in enumerate(history.lamports) if value is not None]
        if known:
            covered_s = (known[-1][0] - known[0][0]) * history.step_s
            balances = [value for _, value in known]
            falls = sum(max(0, before - after) for before, after in pairwise(balances))
            if covered_s >= _ENOUGH_S:
                return falls / covered_s * _DAY_S, "balances of the last 24 hours"
    return spent * 24.0, "what was signed for in the last hour"
