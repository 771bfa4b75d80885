"""Pauses of accounts that their program refused, or skipped, alone; no I/O.

Each attempt costs a fee, and anybody can create accounts that look due and are refused. So the pause of an account
doubles. It is kept in memory, because a scan stores the account as ready again.
"""

from collections import OrderedDict

from solders.pubkey import Pubkey

_FIRST_SLOTS = 1500
"""Ten minutes."""

_LONGEST_SLOTS = 1500 * 2**7
"""21 hours."""

_MAXIMUM_ACCOUNTS = 100_000


class RefusedAccounts:
    """Refusals by account, of the latest ``maximum`` accounts."""

    def __init__(self, maximum: int = _MAXIMUM_ACCOUNTS) -> None:
        self._maximum = maximum
        self._refused: OrderedDict[Pubkey, tuple[int, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._refused)

    def refuse(self, address: Pubkey, slot: int) -> int:
        """Count a refusal at a slot; return the slot of the next attempt."""
        _, pause = self._refused.pop(address, (0, _FIRST_SLOTS // 2))
        pause = min(2 * pause, _LONGEST_SLOTS)
        self._refused[address] = slot + pause, pause
        if len(self._refused) > self._maximum:
            self._refused.popitem(last=False)
        return slot + pause

    def next_attempt(self, address: Pubkey) -> int:
        """Return the slot of an account's next attempt, 0 if it was not refused."""
        return self._refused.get(address, (0, 0))[0]

    def forget(self, address: Pubkey) -> None:
        """Forget the refusals of an account that was closed."""
        self._refused.pop(address, None)
