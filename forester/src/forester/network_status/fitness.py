"""Judgement of balance and registration, shared by ``forester health`` and the daemon; no I/O."""

from dataclasses import dataclass

from solders.pubkey import Pubkey

from forester.chain.registry_accounts import ForesterEpochAccount
from forester.network_status.epochs import EpochView
from forester.network_status.state import NetworkState
from forester.observability.health import HealthBoard
from forester.units import sol

MINIMUM_BALANCE_SOL = 0.01
BALANCE = "balance"
REGISTRATION = "registration"


@dataclass(frozen=True)
class Finding:
    """Result of a judgement; ``fine`` is false for a fault."""

    fine: bool
    message: str


def judge_balance(payer: Pubkey, lamports: int, minimum_sol: float) -> Finding:
    """Return the finding for a payer's balance and the minimum ``minimum_sol``."""
    balance = sol(lamports)
    if balance < minimum_sol:
        needed = f"less than the minimum {minimum_sol:.4f} SOL; top it up"
        return Finding(False, f"insufficient funds: {payer} has {balance:.4f} SOL, {needed}")
    return Finding(True, f"{balance:.4f} SOL, minimum {minimum_sol:.4f} SOL")


def judge_registration(
    epoch: int, current: ForesterEpochAccount | None, previous: ForesterEpochAccount | None, forester: Pubkey
) -> Finding:
    """Return the finding for the registration of ``epoch``, the latest; ``previous`` is that of the one before."""
    if current is not None:
        note = "" if current.total_epoch_weight is not None else ", not finalised yet"
        return Finding(True, f"registered for epoch {epoch} with weight {current.weight}{note}")
    missing = f"not registered for epoch {epoch}"
    if previous is not None:
        return Finding(False, f"{missing}, but for epoch {epoch - 1}; is the forester running?")
    return Finding(False, f"{missing}; is {forester} the derivation key, and the forester running?")


class FitnessWatch:
    """Listener that reports faults of the payer's balance and registration to a board.

    In the first half of a registration phase a missing registration may still come. Later it must be
    missing twice in a row: a forester that has just been started registers at once.
    """

    def __init__(self, board: HealthBoard, *, payer: Pubkey, derivation: Pubkey) -> None:
        self._board = board
        self._payer = payer
        self._derivation = derivation
        self._missing: int | None = None

    def show(self, state: NetworkState) -> None:
        """Judge a state."""
        if self._payer in state.balances:
            balance = judge_balance(self._payer, state.balances[self._payer], MINIMUM_BALANCE_SOL)
            self._board.set(BALANCE, None if balance.fine else balance.message)
        epoch = state.epochs.registering
        current, previous = _of(state, epoch, self._payer), _of(state, epoch - 1, self._payer)
        found = judge_registration(epoch, current, previous, self._derivation)
        if found.fine:
            self._board.clear(REGISTRATION)
        elif _is_late(state.epochs):
            if self._missing == epoch:
                self._board.report(REGISTRATION, found.message)
            self._missing = epoch


def _of(state: NetworkState, epoch: int, authority: Pubkey) -> ForesterEpochAccount | None:
    return next((item for item in state.registrations.get(epoch, ()) if item.authority == authority), None)


def _is_late(view: EpochView) -> bool:
    registration = view.times.phases(view.registering).registration
    return view.slot >= registration.first + registration.length / 2
