"""Waiting time of the work of each tree, and the likely cause of a standstill."""

import asyncio
import enum
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from forester.observability.health import HealthBoard, Severity
from forester.observability.metrics import Metrics
from forester.observability.work_records import Count, Short
from shared.process.logs import get_logger

_log = get_logger(__name__)

CONDITION = "progress"
_NAMED = 3
"""Trees that the reason of the condition names; the log names all."""

_TIMEOUTS = ("confirmation_timeout", "deadline_exceeded")


class Cause(enum.Enum):
    """Cause of a standstill; the values are the words of the log."""

    ROLLOVER_NEEDED = "rollover needed"
    EPOCH_TRANSITION = "epoch transition"
    NO_KEY = "no proving key"
    INVALID_PROOF = "invalid proof"
    CONGESTION = "congestion"
    UNKNOWN = "unknown"


REMEDIES: Mapping[Cause, str] = {
    Cause.ROLLOVER_NEEDED: "the tree is full: roll it over, or find out why the rollover does not happen",
    Cause.EPOCH_TRANSITION: "no forester is eligible between epochs: check that this one registers and finalises",
    Cause.NO_KEY: "the prover has no key for this batch size: give it the key, or exclude the tree (--tree-id)",
    Cause.INVALID_PROOF: "proofs are refused: compare indexer and prover with the chain (forester check)",
    Cause.CONGESTION: "transactions do not land in time: --enable-priority-fees, or another RPC node",
    Cause.UNKNOWN: "nothing was refused: check that prover and indexer answer (forester check)",
}


@dataclass(frozen=True)
class Evidence:
    """Evidence about a tree without progress.

    ``symptoms`` counts the causes of its failures since the last progress; ``rollover_due`` and ``epoch_in_transition``
    come from the chain; ``timeouts`` counts transactions of any tree that did not land meanwhile.
    """

    symptoms: Mapping[Cause, int] = field(default_factory=dict)
    rollover_due: bool = False
    epoch_in_transition: bool = False
    timeouts: int = 0


def likely_cause(evidence: Evidence) -> Cause:
    """Return the most likely cause of a standstill.

    A cause that makes all work impossible comes first: a full tree, a prover without the key, an epoch in which nobody
    may work. Then the cause of most failures, of two the more serious one. Last an explanation without any refusal.
    """
    counted = evidence.symptoms
    if counted.get(Cause.ROLLOVER_NEEDED, 0):
        return Cause.ROLLOVER_NEEDED
    by_weight = (Cause.NO_KEY, Cause.INVALID_PROOF, Cause.CONGESTION, Cause.EPOCH_TRANSITION)
    strongest = max(by_weight, key=lambda cause: counted.get(cause, 0))
    if strongest is Cause.NO_KEY and counted.get(strongest, 0):
        return strongest
    if evidence.epoch_in_transition:
        return Cause.EPOCH_TRANSITION
    if counted.get(strongest, 0):
        return strongest
    if evidence.timeouts:
        return Cause.CONGESTION
    return Cause.ROLLOVER_NEEDED if evidence.rollover_due else Cause.UNKNOWN


@dataclass(frozen=True)
class StandstillLimits:
    """Seconds without progress until the first log line, between two of them, until the forester is unhealthy."""

    first_line_s: float = 120.0
    next_line_s: float = 300.0
    unhealthy_s: float = 600.0


class TreeProgress(msgspec.Struct, frozen=True):
    """Progress of a tree, as the activity document has it.

    ``waiting`` elements could be processed now, and have waited ``silent_s`` seconds without progress. ``cause`` of a
    standstill is None before the first line about it is due.
    """

    tree: Short
    waiting: Count
    silent_s: float
    cause: Short | None = None


@dataclass
class _Tree:
    kind: str
    since: float
    waiting: int = 0
    position: int | None = None
    zkp_batch_size: int = 0
    rollover_due: bool = False
    symptoms: Counter[Cause] = field(default_factory=Counter)
    timeouts_before: int = 0
    next_line: float | None = None


class ProgressWatch:
    """Watch over trees. ``observe`` records the chain's state, ``worked`` our own rounds; ``check`` judges.

    A tree moves when any forester moves it. ``clock`` returns seconds.
    """

    def __init__(
        self,
        metrics: Metrics,
        board: HealthBoard,
        *,
        patience: StandstillLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._metrics = metrics
        self._board = board
        self._patience = patience or StandstillLimits()
        self._clock = clock
        self._trees: dict[str, _Tree] = {}
        self._in_transition = False

    def follow(self, trees: Mapping[str, str]) -> None:
        """Watch these trees (address → kind) and no others; those that stay keep their history."""
        now = self._clock()
        for address in self._trees.keys() - trees.keys():
            kind = self._trees.pop(address).kind
            self._metrics.progress_age.remove(kind, address)
            self._metrics.unprovable.remove(kind, address)
        for address in trees.keys() - self._trees.keys():
            self._trees[address] = _Tree(trees[address], now, timeouts_before=self._timeouts())
            self._metrics.progress_age.labels(trees[address], address).set(0)
            self._metrics.unprovable.labels(trees[address], address).set(0)

    def observe(
        self, address: str, *, waiting: int, position: int, zkp_batch_size: int = 0, rollover_due: bool = False
    ) -> None:
        """Record the chain's state: elements ready for work, and a number that grows whenever the tree moves."""
        tree = self._trees.get(address)
        if tree is None:
            return
        moved = tree.position is not None and position != tree.position
        if moved or (waiting and not tree.waiting):
            self._moved(tree)
        tree.waiting, tree.position, tree.rollover_due = waiting, position, rollover_due
        tree.zkp_batch_size = zkp_batch_size

    def worked(self, address: str, elements: int, symptom: Cause | None = None) -> None:
        """Record a round of ours: confirmed elements, and the symptom of its failure."""
        tree = self._trees.get(address)
        if tree is None:
            return
        if elements:
            self._moved(tree)
        if symptom is not None:
            tree.symptoms[symptom] += 1

    def set_epoch(self, *, in_transition: bool) -> None:
        """Set whether nobody may work at present, because no epoch is active or its weights are not settled."""
        self._in_transition = in_transition

    def check(self) -> None:
        """Set the gauges, write the lines that are due, and report standstills to the board."""
        now = self._clock()
        self._metrics.last_run.set_to_current_time()
        standing = []
        provable = {(tree.kind, tree.zkp_batch_size) for tree in self._trees.values()} - self._without_key()
        for address, tree in self._trees.items():
            lacks_key = (tree.kind, tree.zkp_batch_size) not in provable
            self._metrics.unprovable.labels(tree.kind, address).set(lacks_key)
            silence_s = now - tree.since if tree.waiting else 0.0
            self._metrics.progress_age.labels(tree.kind, address).set(round(silence_s, 3))
            if silence_s < self._patience.first_line_s:
                tree.next_line = None
                continue
            cause = self._cause(tree)
            if tree.next_line is None or now >= tree.next_line:
                tree.next_line = now + self._patience.next_line_s
                _log.warning(
                    "no_progress",
                    tree=address,
                    kind=tree.kind,
                    seconds=round(silence_s),
                    waiting=tree.waiting,
                    cause=cause.value,
                    remedy=REMEDIES[cause],
                )
            # A prover that serves no batch size of the kind lacks the keys of the usual trees.
            is_foreign = lacks_key and any(kind == tree.kind for kind, _ in provable)
            if silence_s >= self._patience.unhealthy_s and not is_foreign:
                standing.append(f"{tree.kind} {address} for {silence_s:.0f} s ({cause.value})")
        self._board.set(CONDITION, _reason(standing), severity=Severity.ERROR)
        self._board.sweep()

    @property
    def trees(self) -> list[TreeProgress]:
        """The progress of all watched trees."""
        return [self._view(address, tree) for address, tree in self._trees.items()]

    def _view(self, address: str, tree: _Tree) -> TreeProgress:
        silent_s = self._clock() - tree.since if tree.waiting else 0.0
        cause = self._cause(tree).value if silent_s >= self._patience.first_line_s else None
        return TreeProgress(address, tree.waiting, round(silent_s, 1), cause)

    async def run(self, every_s: float = 5.0) -> None:
        """Check repeatedly, until cancelled."""
        while True:
            self.check()
            await asyncio.sleep(every_s)

    def _without_key(self) -> set[tuple[str, int]]:
        """Return the kinds and batch sizes for which the prover has no key."""
        return {(tree.kind, tree.zkp_batch_size) for tree in self._trees.values() if self._cause(tree) is Cause.NO_KEY}

    def _moved(self, tree: _Tree) -> None:
        tree.since = self._clock()
        tree.symptoms.clear()
        tree.timeouts_before = self._timeouts()
        tree.next_line = None

    def _cause(self, tree: _Tree) -> Cause:
        timeouts = self._timeouts() - tree.timeouts_before
        return likely_cause(Evidence(tree.symptoms, tree.rollover_due, self._in_transition, timeouts))

    def _timeouts(self) -> int:
        return self._metrics.failures(*_TIMEOUTS)


def _reason(standing: list[str]) -> str | None:
    if not standing:
        return None
    more = f", and {len(standing) - _NAMED} more" if len(standing) > _NAMED else ""
    return f"work waits without progress: {', '.join(standing[:_NAMED])}{more}"
