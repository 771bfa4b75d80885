"""A log line every 20 s with the state of the forester and of its slot clock.

Source: forester/docs/reference/behaviour.md, "Heartbeat".
"""

import asyncio

from forester.daemon.clock import STUCK_S, SlotClock
from forester.daemon.epochs import EpochKeeper
from forester.daemon.funds import Funds
from forester.daemon.supervisor import Supervisor
from forester.observability.health import HealthBoard
from forester.scheduling.eligibility_window import ProcessingResult
from shared.process.logs import get_logger

_log = get_logger(__name__)

EVERY_S = 20.0
SLOT_STALE_S = 60.0


class Heartbeat:
    """Task that logs the state and counts rounds in between."""

    def __init__(
        self, clock: SlotClock, epochs: EpochKeeper, supervisor: Supervisor, funds: Funds, board: HealthBoard
    ) -> None:
        self._clock = clock
        self._epochs = epochs
        self._supervisor = supervisor
        self._funds = funds
        self._board = board
        self._rounds = self._elements = self._transactions = self._failures = 0

    def count(self, done: ProcessingResult) -> None:
        """Count a round."""
        self._rounds += 1
        self._elements += done.elements
        self._transactions += done.transactions
        self._failures += done.failure is not None

    async def run(self) -> None:
        """Log the state repeatedly, forever."""
        while True:
            await asyncio.sleep(EVERY_S)
            self.beat()

    def _stale(self, age_s: float | None) -> str | None:
        """Return the fault of the slot readings, None if there is none."""
        if age_s is not None and age_s > SLOT_STALE_S:
            if self._clock.behind:
                return f"the node's slot is {self._clock.behind} behind an earlier one"
            return f"the node has reported no slot for {age_s:.0f} s"
        if self._clock.stuck_s > STUCK_S:
            return f"the node has reported the same slot for {self._clock.stuck_s:.0f} s"
        return None

    def beat(self) -> None:
        """Log the state once."""
        age_s = self._clock.reading_age_s
        self._board.set("slots", self._stale(age_s))
        _log.info(
            "heartbeat",
            slot=self._clock.slot(),
            slot_age_s=None if age_s is None else round(age_s, 1),
            slots_per_second=round(self._clock.slots_per_second, 2),
            epochs={str(epoch): state.value for epoch, state in self._epochs.states.items() if not state.is_over},
            trees=sum(name.startswith("tree ") for name in self._supervisor.names),
            tasks=len(asyncio.all_tasks()),
            rounds=self._rounds,
            elements=self._elements,
            transactions=self._transactions,
            failures=self._failures,
            lamports=self._funds.lamports,
        )
        self._rounds = self._elements = self._transactions = self._failures = 0
