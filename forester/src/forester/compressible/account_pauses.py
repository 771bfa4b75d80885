"""Pauses of accounts that their program refused or skipped alone, or whose transaction may still land; no I/O.

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


class AccountPauses:
    """Pauses by account, of the latest ``maximum`` accounts."""

    def __init__(self, maximum: int = _MAXIMUM_ACCOUNTS) -> None:
        self._maximum = maximum
        self._waiting: OrderedDict[Pubkey, tuple[int, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    def refuse(self, address: Pubkey, slot: int) -> int:
        """Count a refusal at a slot; return the slot of the next attempt."""
        pause = min(2 * self._pause(address), _LONGEST_SLOTS)
        self._keep(address, slot + pause, pause)
        return slot + pause

    def hold(self, address: Pubkey, until_slot: int) -> None:
        """Let an account wait until a slot, without counting a refusal: its transaction may land until then."""
        self._keep(address, until_slot, self._pause(address))

    def next_attempt(self, address: Pubkey) -> int:
        """Return the slot of an account's next attempt, 0 if it does not wait."""
        return self._waiting.get(address, (0, 0))[0]

    def forget(self, address: Pubkey) -> None:
        """Forget the refusals of an account that was closed."""
        self._waiting.pop(address, None)

    def _pause(self, address: Pubkey) -> int:
        return self._waiting.get(address, (0, _FIRST_SLOTS // 2))[1]

    def _keep(self, address: Pubkey, until_slot: int, pause: int) -> None:
        self._waiting.pop(address, None)
        self._waiting[address] = until_slot, pause
        if len(self._waiting) > self._maximum:
            self._waiting.popitem(last=False)
