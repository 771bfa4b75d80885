"""All that the page shows at one moment, from a snapshot of the network and the activity of foresters; no I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from forester.dashboard.activity import ActivityDocument, HistoryFacts
from forester.dashboard.curves import Curve, added, curve
from forester.dashboard.epoch_view import (
    Deadline,
    TimeLine,
    Window,
    deadlines,
    first_window_of_next,
    our_windows,
    time_line,
)
from forester.dashboard.explorer import Explorer
from forester.dashboard.funds_view import FundsView, funds_view
from forester.dashboard.remedies import SERVICES, Advice, advice_of
from forester.dashboard.tree_rows import TreeRow, remedy_of, tree_rows
from forester.network_status.flows import QueueFlow
from forester.network_status.pace import SlotPace
from forester.network_status.snapshot import Snapshot
from forester.network_status.state import NetworkState
from forester.observability.health import Problem
from forester.observability.progress import TreeProgress
from forester.observability.work_records import BatchRecord
from forester.units import LAMPORTS_PER_SOL

MAXIMUM_BATCHES = 40
MAXIMUM_FORESTERS = 50
MAXIMUM_STANDING = 5
"""Trees without progress that are warned of; the table has all."""

FAILURES = 2
"""Consecutive failures of a service before a warning: one may be an accident."""


@dataclass(frozen=True)
class ForesterView:
    """A forester: its document, or the reason why there is none. ``name`` is its URL, empty for this process."""

    name: str
    activity: ActivityDocument | None
    error: str | None = None
    reasons: Sequence[str] = ()
    """Reasons of its ``/health``, if it has no document."""

    @property
    def is_fit(self) -> bool:
        """Return whether it has no open problem."""
        if self.activity is None:
            return self.error is None and not self.reasons
        return not self.activity.problems


@dataclass(frozen=True)
class Inputs:
    """Sources of a view at Unix time ``now``. ``own_problems`` are those of a process that merges others."""

    now: float
    snapshot: Snapshot | None
    snapshot_error: str | None
    flows: Mapping[str, QueueFlow]
    pace: SlotPace
    foresters: Sequence[ForesterView]
    compressible: Mapping[str, Any]
    explorer: Explorer
    merges: bool = False
    own_problems: Sequence[Problem] = ()
    starting: Sequence[str] = ()


@dataclass(frozen=True)
class OpenProblem:
    """A problem with its advice; ``forester`` names its forester if there are several."""

    advice: Advice
    reason: str
    since: float | None
    severity: str
    forester: str


@dataclass(frozen=True)
class NamedCurve:
    """A curve under its name, with its present value."""

    name: str
    value: float | None
    curve: Curve
    unit: str = ""


@dataclass(frozen=True)
class Registered:
    """A registered forester of an epoch, with its part of the weight and the light slots' trees that it has now."""

    authority: str
    is_ours: bool
    lamports: int | None
    share_percent: float
    trees_now: int
    next_epoch: bool


@dataclass(frozen=True)
class View:
    """The content of the panels."""

    inputs: Inputs
    problems: Sequence[OpenProblem]
    """Reasons of ``/health``."""
    warnings: Sequence[OpenProblem]
    """What may become one: a service in use that fails, a tree without progress."""
    slot: int | None
    ours: frozenset[str]
    state: NetworkState | None = None
    """The last snapshot as it is at ``slot``, which the chain is expected to have reached."""
    rows: Sequence[TreeRow] = ()
    windows: Sequence[Window] = ()
    next_epoch_window: Window | None = None
    deadlines: Sequence[Deadline] = ()
    time_line: TimeLine | None = None
    registered: Sequence[Registered] = ()
    batches: Sequence[BatchRecord] = ()
    funds: Sequence[FundsView] = ()
    curves: Sequence[NamedCurve] = ()
    compressible: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_fit(self) -> bool:
        """Return whether there is no open problem."""
        return not self.problems

    @property
    def window_now(self) -> Window | None:
        """A window of ours that is open."""
        return next((item for item in self.windows if self.slot is not None and self.slot in item.slots), None)

    @property
    def window_next(self) -> Window | None:
        """Our earliest window that is not open yet."""
        return next((item for item in self.windows if self.slot is not None and self.slot < item.slots.first), None)

    def time_of(self, slot: int) -> float:
        """Return the expected Unix time of a slot."""
        return self.inputs.pace.time_of(slot)


def view_of(inputs: Inputs) -> View:
    """Return the view of this moment."""
    documents = [item.activity for item in inputs.foresters if item.activity is not None]
    ours = frozenset(document.payer for document in documents)
    batches = sorted((item for document in documents for item in document.batches), key=_latest, reverse=True)
    view = View(
        inputs,
        problems=_problems(inputs),
        warnings=_warnings(inputs),
        slot=None,
        ours=ours,
        batches=batches[:MAXIMUM_BATCHES],
        funds=[funds_view(document) for document in documents],
        compressible=_compressible(inputs, documents),
    )
    if inputs.snapshot is None:
        return replace(view, curves=_curves(documents, None))
    state = _at_present(inputs.snapshot.state, inputs.pace.slot_at(inputs.now))
    slot = state.slot
    windows = our_windows(state, ours, slot)
    rows = tree_rows(
        state,
        inputs.flows,
        _progress(documents),
        ours,
        {item.tree: (item.slots.first, item.slots.last) for item in windows},
    )
    return replace(
        view,
        slot=slot,
        state=state,
        rows=rows,
        windows=windows,
        next_epoch_window=first_window_of_next(state, ours, slot),
        deadlines=deadlines(state, ours, slot, inputs.snapshot.state.epochs.registering),
        time_line=time_line(state, ours, slot),
        registered=_registered(state, rows, ours),
        curves=_curves(documents, sum(row.backlog for row in rows)),
    )


def _at_present(read: NetworkState, expected: int) -> NetworkState:
    """Return a state at the slot that the chain should have reached, in the last epoch that was read at most."""
    known = read.epochs.times.phases(read.epochs.registering).active
    return replace(read, slot=max(read.slot, min(expected, known.last)))


def _latest(batch: BatchRecord) -> tuple[bool, float]:
    """Return the key of the order of batches: those that are under way first."""
    return batch.state not in ("confirmed", "failed", "cancelled"), max(batch.times.values(), default=0.0)


def _problems(inputs: Inputs) -> list[OpenProblem]:
    found = [_problem(item, "") for item in inputs.own_problems]
    for forester in inputs.foresters:
        name = forester.name if inputs.merges else ""
        if forester.activity is not None:
            found += [_problem(item, name) for item in forester.activity.problems]
            continue
        reasons = [forester.error] if forester.error is not None else forester.reasons
        title = "Forester cannot be read" if forester.error is not None else "Unfit"
        advice = Advice(title, "Check that it runs, and that its API is reachable from here.")
        found += [OpenProblem(advice, reason, None, "error", name) for reason in reasons]
    order = ("critical", "error", "warning")
    return sorted(found, key=lambda item: order.index(item.severity) if item.severity in order else len(order))


def _problem(item: Problem, forester: str) -> OpenProblem:
    return OpenProblem(advice_of(item.condition), item.reason, item.since, item.severity, forester)


def _warnings(inputs: Inputs) -> list[OpenProblem]:
    found = []
    for forester in inputs.foresters:
        if forester.activity is None:
            continue
        name, conditions = forester.name if inputs.merges else "", {p.condition for p in forester.activity.problems}
        for service in forester.activity.services:
            if service.in_use and service.failures >= FAILURES and service.role not in conditions:
                advice = SERVICES.get(service.role, advice_of(service.role))
                reason = f"{service.host}: {service.error}"
                found.append(OpenProblem(advice, reason, service.failing_since, "warning", name))
        standing = [item for item in forester.activity.trees if item.cause is not None]
        if "progress" in conditions:
            continue
        for item in sorted(standing, key=lambda item: -item.silent_s)[:MAXIMUM_STANDING]:
            advice = Advice("A tree makes no progress", remedy_of(item.cause) or "See its row below.")
            reason = f"{item.tree}: {item.cause}"
            found.append(OpenProblem(advice, reason, inputs.now - item.silent_s, "warning", name))
    return found


def _progress(documents: Sequence[ActivityDocument]) -> dict[str, TreeProgress]:
    """Return the progress of each tree; of several foresters, the one that has observed the longest silence."""
    found: dict[str, TreeProgress] = {}
    for item in (item for document in documents for item in document.trees):
        if item.tree not in found or item.silent_s > found[item.tree].silent_s:
            found[item.tree] = item
    return found


def _registered(state: NetworkState, rows: Sequence[TreeRow], ours: frozenset[str]) -> list[Registered]:
    active = {str(item.authority): item for item in state.active_registrations}
    coming = {str(item.authority): item for item in state.registrations.get(state.epochs.registering, ())}
    total = sum(item.weight for item in active.values())
    balances = {str(owner): lamports for owner, lamports in state.balances.items()}
    names = sorted({*active, *coming, *ours}, key=lambda name: (name not in ours, name))
    return [
        Registered(
            authority=name,
            is_ours=name in ours,
            lamports=balances.get(name),
            share_percent=active[name].weight / total * 100 if name in active and total else 0.0,
            trees_now=sum(row.turn == name for row in rows),
            next_epoch=name in coming and state.epochs.registering != state.epochs.active,
        )
        for name in names[:MAXIMUM_FORESTERS]
    ]


def _compressible(inputs: Inputs, documents: Sequence[ActivityDocument]) -> dict[str, Any]:
    recovered = sum(document.compressed_lamports for document in documents)
    return {**inputs.compressible, "recovered_lamports": recovered}


def _curves(documents: Sequence[ActivityDocument], backlog: int | None) -> list[NamedCurve]:
    histories = _aligned([document.history for document in documents if document.history is not None])
    lamports = [document.money.lamports for document in documents if document.money.lamports is not None]
    waiting = [_largest(values) for values in zip(*(item.backlog for item in histories), strict=True)]
    proofs = added([item.proofs for item in histories])
    elements = added([item.elements for item in histories])
    balance = [None if value is None else value / LAMPORTS_PER_SOL for value in added([i.lamports for i in histories])]
    return [
        NamedCurve("Backlog", backlog, curve(waiting, "Backlog", "elements"), "elements"),
        NamedCurve("Proofs", _total(proofs), curve(proofs, "Proofs", "in 5 minutes"), "in 24 h"),
        NamedCurve("Confirmed", _total(elements), curve(elements, "Confirmed elements", "in 5 minutes"), "in 24 h"),
        NamedCurve(
            "Balance",
            sum(lamports) / LAMPORTS_PER_SOL if lamports else None,
            curve(balance, "Balance", "SOL", from_zero=False),
            "SOL",
        ),
    ]


def _aligned(histories: Sequence[HistoryFacts]) -> list[HistoryFacts]:
    """Return histories with the points of the latest one; those with points of other lengths are omitted."""
    if not histories:
        return []
    last = max(histories, key=lambda item: item.began)
    length = len(last.backlog)
    found = []
    for item in histories:
        late = round(min(length, (last.began - item.began) / last.step_s)) if last.step_s > 0 else 0
        sizes = {len(item.backlog), len(item.proofs), len(item.elements), len(item.lamports)}
        if item.step_s == last.step_s and sizes == {length} and 0 <= late < length:
            columns = (item.backlog, item.proofs, item.elements, item.lamports)
            found.append(HistoryFacts(last.began, last.step_s, *([*part[late:], *[None] * late] for part in columns)))
    return found


def _largest(values: Sequence[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(max(known)) if known else None


def _total(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
