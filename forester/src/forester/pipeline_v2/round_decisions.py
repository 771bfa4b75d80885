"""Decisions of one round of a V2 tree, from the states of its proofs; no I/O.

``next_action`` returns the next step of a round inside an eligibility window, or of the preparation before one. The
tree processor performs it and records its result. Source: forester/docs/reference/behaviour.md, "V2 rounds".
"""

import enum
from dataclasses import dataclass
from itertools import takewhile

from forester.epoch.phases import CONFIRMATION_SLOTS, SlotRange, confirmation_seconds
from forester.pipeline_v2.proof_ledger import ProofState

LAST_SLOTS = 12
MINIMUM_LAST_SLOTS = CONFIRMATION_SLOTS + 2
"""With this many slots left, or half of a short window, a transaction is sent although it has room for more proofs."""
OVERLAP_SLOTS = 300
"""With two minutes left the next round is proved while this one is sent; later another forester may be eligible."""
AHEAD_ROUNDS = 4
"""Rounds that are proved and stored before a window in which they can be sent; one when it is near."""
SOON_SLOTS = 25
"""A window or a term that begins within 10 s is waited for."""
LOOK_S = 1.0
FAR_LOOK_S = 10.0


class RoundAction(enum.Enum):
    """Next step of a round."""

    SEND = "send"
    """Send the first ``batches`` proofs in one transaction, to be confirmed within ``seconds``."""
    STAGE = "stage"
    """Stage the first ``batches`` batches; their missing proofs are requested as room allows."""
    WAIT = "wait"
    """Come back when a proof under way has ended, or after ``seconds``."""
    READ = "read"
    """Read the tree again after ``seconds``, and begin another round of preparation."""
    END = "end"
    """End the round, once a proof under way has ended or after ``seconds``."""


@dataclass(frozen=True)
class Step:
    """An action with its numbers."""

    action: RoundAction
    batches: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class RoundState:
    """State of a round at a slot.

    ``chain`` are the states of the proofs that continue from the tree's root, ``under_way`` counts those and others.
    ``provable`` batches wait in the tree's queues, ``landed`` ones were sent in this round; a round has ``limit``.
    ``may_begin`` and ``begins_soon`` say whether a proof is assigned to us now, and within SOON_SLOTS.
    ``fitting`` ready proofs go into one transaction, one more than there are if another one would also fit;
    ``gathered`` is true once the first one has waited for others long enough. ``staged`` is true after the staging of
    the round, before which the chain had ``chain_before`` proofs. No staging begins while ``paused``, or without room
    (``has_room``) for another request. A round ``stopped`` by a transaction that did not land sends nothing more, one
    that ``failed`` prepares nothing more.
    """

    window: SlotRange
    slot: int
    sends: bool
    limit: int
    provable: int
    may_begin: bool
    begins_soon: bool
    chain: tuple[ProofState, ...] = ()
    under_way: int = 0
    landed: int = 0
    fitting: int = 0
    gathered: bool = False
    staged: bool = False
    chain_before: int = 0
    has_room: bool = True
    paused: bool = False
    stopped: bool = False
    failed: bool = False

    @property
    def ready(self) -> int:
        """Number of proofs that can be sent now, one after another."""
        return len(list(takewhile(lambda state: state.is_sendable, self.chain)))


def next_action(state: RoundState) -> Step:
    """Return the next step."""
    return _in_window(state) if state.sends else _before_window(state)


def _in_window(state: RoundState) -> Step:
    within_s = confirmation_seconds(state.window.remaining(state.slot)) if state.slot >= state.window.first else None
    if state.stopped or within_s is None:
        return Step(RoundAction.END)
    if group := _group(state):
        return Step(RoundAction.SEND, group, within_s)
    wanted = _wanted_batches(state)
    if not state.staged and state.has_room and len(state.chain) < min(wanted, state.provable):
        return Step(RoundAction.STAGE, wanted)
    begins_soon = state.begins_soon and state.provable > 0 and not (state.staged or state.landed or state.may_begin)
    if begins_soon or (state.chain and state.landed < state.limit):
        return Step(RoundAction.WAIT, seconds=min(within_s, LOOK_S))
    # Proofs of roots that the tree has left may take all room: the tree is read again, but not at once.
    is_crowded = not (state.staged or state.has_room) and state.provable > 0
    return Step(RoundAction.END, seconds=LOOK_S if is_crowded else 0.0)


def _group(state: RoundState) -> int:
    """Return the number of proofs to be sent now; 0 while more may share their transaction."""
    # Proofs of a transaction with unknown outcome are sent again in the same one.
    again = len(list(takewhile(lambda proof: proof is ProofState.SENT, state.chain)))
    if again:
        return again
    full = state.fitting <= state.ready
    complete = full or state.gathered or state.ready == len(state.chain) or _nears_end(state)
    return min(state.fitting, state.ready) if complete else 0


def _nears_end(state: RoundState) -> bool:
    """Return whether there may be no time for another transaction."""
    last = min(LAST_SLOTS, max(MINIMUM_LAST_SLOTS, state.window.length // 2))
    return state.window.remaining(state.slot) <= last


def _wanted_batches(state: RoundState) -> int:
    """Return the number of batches to be proved or under way: the rest of the round, and the next one."""
    rest = state.limit - state.landed
    if rest <= 0 or not state.may_begin:
        return 0
    return rest + (state.limit if state.window.remaining(state.slot) >= OVERLAP_SLOTS else 0)


def _before_window(state: RoundState) -> Step:
    if not state.staged:
        if not state.provable:
            return Step(RoundAction.END)
        if not state.may_begin:
            return Step(RoundAction.READ, seconds=LOOK_S if state.begins_soon else FAR_LOOK_S)
    far = state.slot + SOON_SLOTS < state.window.first
    wanted = min(state.provable, state.limit * (AHEAD_ROUNDS if far else 1))
    if not state.staged and state.has_room and len(state.chain) < wanted and not state.paused:
        return Step(RoundAction.STAGE, min(wanted, len(state.chain) + state.limit))
    if state.under_way:
        return Step(RoundAction.WAIT, seconds=LOOK_S)
    another = state.staged and not state.failed and state.chain_before < len(state.chain) < wanted
    return Step(RoundAction.READ if another else RoundAction.END)
