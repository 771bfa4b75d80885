"""Rows of the table of trees; no I/O."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from operator import attrgetter

from forester.network_status.flows import QueueFlow
from forester.network_status.state import NetworkState, TreeState
from forester.observability.progress import REMEDIES, Cause, TreeProgress

MAXIMUM_ROWS = 100
STANDSTILL_S = 120.0
KINDS = ("StateV1", "AddressV1", "StateV2", "AddressV2")
SORTS = {
    "attention": "what needs attention",
    "backlog": "backlog",
    "age": "age",
    "silent": "since progress",
    "fullness": "fullness",
    "tree": "address",
}


@dataclass(frozen=True)
class TreeRow:
    """A tree: elements that wait by queue, those that are ready, and their flow.

    ``turn`` is the authority that may work now, ``is_ours`` whether that is a forester shown here, ``next_slot`` the
    first slot of our current or next window. ``silent_s`` is None for a tree on which no forester shown here works.
    """

    tree: str
    kind: str
    pending: Mapping[str, int]
    ready_batches: int | None
    flow: QueueFlow | None
    fullness: float
    is_full: bool
    is_rolled_over: bool
    turn: str | None
    is_ours: bool
    window: tuple[int, int] | None
    silent_s: float | None
    cause: str | None
    remedy: str | None

    @property
    def backlog(self) -> int:
        """Elements that wait."""
        return sum(self.pending.values())

    @property
    def age(self) -> float:
        """Minimum seconds that the oldest element has waited."""
        return 0.0 if self.flow is None else self.flow.age_s

    @property
    def silent(self) -> float:
        """Seconds without progress."""
        return self.silent_s or 0.0

    @property
    def attention(self) -> tuple[bool, float, int]:
        """Key of the order by attention; the most urgent row has the largest."""
        return self.silent >= STANDSTILL_S, self.silent, self.backlog


@dataclass(frozen=True)
class Choice:
    """Filter and order of the rows, as a form without script sends them."""

    kind: str = ""
    sort: str = "attention"
    text: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "Choice":
        """Return the choice of a query; values that do not exist count as absent, long ones are cut."""
        kind, sort = query.get("kind", ""), query.get("sort", "attention")
        return cls(kind if kind in KINDS else "", sort if sort in SORTS else "attention", query.get("text", "")[:64])


def tree_rows(
    state: NetworkState,
    flows: Mapping[str, QueueFlow],
    progress: Mapping[str, TreeProgress],
    ours: Collection[str],
    windows: Mapping[str, tuple[int, int]],
) -> list[TreeRow]:
    """Return the rows of all trees, in the order of the status."""

    def row(item: TreeState) -> TreeRow:
        address = str(item.tree.address)
        turn = state.owner(item.tree)
        facts = progress.get(address)
        cause = None if facts is None else facts.cause
        return TreeRow(
            tree=address,
            kind=item.kind.label,
            pending=item.pending,
            ready_batches=sum(queue.ready_zkp_batches for queue in item.queues.values()) if item.batched else None,
            flow=flows.get(address),
            fullness=item.fullness_percentage,
            is_full=item.head.next_index >= item.threshold,
            is_rolled_over=item.tree.metadata.is_rolled_over,
            turn=turn,
            is_ours=turn in ours,
            window=windows.get(address),
            silent_s=None if facts is None else facts.silent_s,
            cause=cause,
            remedy=remedy_of(cause),
        )

    return [row(item) for item in state.trees]


def remedy_of(cause: str | None) -> str | None:
    """Return the remedy of a cause; None for one that is not known here."""
    text = next((REMEDIES[known] for known in Cause if known.value == cause), None)
    return None if text is None else f"{text[0].upper()}{text[1:]}."


def chosen_rows(rows: list[TreeRow], choice: Choice) -> list[TreeRow]:
    """Return the rows that a choice selects, in its order."""
    text = choice.text.lower()
    found = [
        row
        for row in rows
        if (not choice.kind or row.kind == choice.kind)
        and (not text or text in row.tree.lower() or text in (row.turn or "").lower())
    ]
    if choice.sort == "tree":
        return sorted(found, key=attrgetter("tree"))
    return sorted(found, key=attrgetter(choice.sort), reverse=True)
