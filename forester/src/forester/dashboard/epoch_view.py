"""Windows, deadlines and time line of the current and the next epoch; no I/O."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby

from forester.epoch.phases import SlotRange
from forester.network_status.state import NetworkState

MAXIMUM_BARS = 12
WIDTH = 1000
_COLUMNS = 250
"""Epochs with more light slots are drawn in so many columns, each as the owner of most of its light slots."""

_NOBODY, _OURS, _OTHERS = "nobody", "ours", "others"


@dataclass(frozen=True)
class Window:
    """A run of light slots of a tree that belong to us."""

    tree: str
    slots: SlotRange


@dataclass(frozen=True)
class Deadline:
    """An event of an epoch: ``slot`` at which it happens, and the state of our part in it."""

    epoch: int
    title: str
    slot: int
    note: str
    tone: str
    """``good``, ``bad``, ``now`` or empty."""


@dataclass(frozen=True)
class TreeBar:
    """A tree in the time line: path data of our windows, those of others and those of nobody."""

    tree: str
    kind: str
    ours: str
    others: str
    nobody: str


@dataclass(frozen=True)
class Span:
    """A part of the time line with a name; ``x`` and ``width`` of WIDTH."""

    name: str
    x: float
    width: float


@dataclass(frozen=True)
class TimeLine:
    """The active phase of an epoch: phases of its neighbours, bars of trees, the present as ``now`` of WIDTH."""

    epoch: int
    first: int
    last: int
    now: float
    spans: tuple[Span, ...]
    bars: tuple[TreeBar, ...]
    left_out: int


def our_windows(state: NetworkState, ours: Collection[str], slot: int) -> list[Window]:
    """Return the current or next window of each tree that is not rolled over, the earliest first."""
    positions = _positions(state, ours)
    phases = state.epochs.phases
    if not positions or slot > phases.active.last:
        return []
    current = max(0, (slot - phases.active.first) // phases.slot_length)
    found = []
    for item in state.trees:
        schedule = state.schedule(item.tree)
        first = next((at for at in range(current, len(schedule)) if schedule[at] in positions), None)
        if first is None or item.tree.metadata.is_rolled_over:
            continue
        last = first
        while last + 1 < len(schedule) and schedule[last + 1] in positions:
            last += 1
        slots = SlotRange(phases.light_slot_range(first).first, phases.light_slot_range(last).last)
        found.append(Window(str(item.tree.address), slots))
    return sorted(found, key=lambda window: (window.slots.first, -window.slots.last))


def first_window_of_next(state: NetworkState, ours: Collection[str], slot: int) -> Window | None:
    """Return our first window in the next epoch; None before its registration has closed, or without one."""
    view = state.epochs
    epoch = view.registering
    if epoch == view.active or slot in view.times.phases(epoch).registration:
        return None
    phases, registrations = view.times.phases(epoch), state.registrations.get(epoch, ())
    positions = {at for at, item in enumerate(registrations) if str(item.authority) in ours}
    found = []
    for item in state.trees:
        if item.tree.metadata.is_rolled_over or not positions:
            continue
        schedule = state.owners_in(item.tree, epoch, phases.active.length // phases.slot_length)
        at = next((index for index, owner in enumerate(schedule) if owner in positions), None)
        if at is not None:
            found.append(Window(str(item.tree.address), phases.light_slot_range(at)))
    return min(found, key=lambda window: window.slots.first, default=None)


def deadlines(state: NetworkState, ours: Collection[str], slot: int, latest_read: int | None = None) -> list[Deadline]:
    """Return what is ahead in the current and the next epoch, the earliest first.

    Registrations of epochs after ``latest_read`` are unknown; None: of none.
    """
    view = state.epochs
    current = view.active
    found: list[Deadline] = []
    if current is not None:
        phases = view.times.phases(current)
        reported = _registered(state, ours, current)
        note, tone = ("registered", "good") if reported else ("not registered", "bad" if ours else "")
        found.append(Deadline(current, "Active phase ends", phases.active.last + 1, note, tone))
        found.append(_report(state, ours, current, phases.report_work))
        if current and slot in (before := view.times.phases(current - 1)).report_work:
            found.append(Deadline(current - 1, "Report is due", before.report_work.last + 1, "open now", "now"))
    upcoming = 0 if current is None else current + 1
    if latest_read is not None and upcoming > latest_read:
        ours = ()
    phases = view.times.phases(upcoming)
    registered = _registered(state, ours, upcoming)
    note, tone = ("registered", "good") if registered else ("not registered", "") if ours else ("", "")
    if slot < phases.registration.first:
        found.append(Deadline(upcoming, "Registration opens", phases.registration.first, "", ""))
    elif slot in phases.registration:
        open_tone = tone or ("now" if ours else "")
        found.append(Deadline(upcoming, "Registration closes", phases.registration.last + 1, note, open_tone))
    elif ours and not registered:
        tone = "bad"
    if slot < phases.active.first:
        begins = "" if slot < phases.registration.first else note
        tone = tone if slot > phases.registration.last or registered else ""
        found.append(Deadline(upcoming, "Active phase begins", phases.active.first, begins, tone))
    found.append(_report(state, ours, upcoming, phases.report_work))
    return sorted((item for item in found if item.slot > slot), key=lambda item: item.slot)


def _report(state: NetworkState, ours: Collection[str], epoch: int, report: SlotRange) -> Deadline:
    mine = [item for item in state.registrations.get(epoch, ()) if str(item.authority) in ours]
    if mine and all(item.has_reported_work for item in mine):
        return Deadline(epoch, "Report is due", report.last + 1, "reported", "good")
    return Deadline(epoch, "Report is due", report.last + 1, "", "")


def _registered(state: NetworkState, ours: Collection[str], epoch: int) -> bool:
    """Return whether all of our foresters are registered for an epoch."""
    registered = {str(item.authority) for item in state.registrations.get(epoch, ())}
    return bool(ours) and set(ours) <= registered


def time_line(state: NetworkState, ours: Collection[str], slot: int) -> TimeLine | None:
    """Return the time line of the active epoch; None before the first."""
    view = state.epochs
    if view.active is None:
        return None
    active = view.phases.active
    scale = WIDTH / active.length
    positions = _positions(state, ours)
    chosen = [item for item in state.trees if not item.tree.metadata.is_rolled_over]
    before, following = view.active - 1, view.active + 1
    parts = [(f"registration for epoch {following}", view.times.phases(following).registration)]
    if before >= 0:
        parts.insert(0, (f"report of epoch {before}", view.times.phases(before).report_work))
    inside = [(name, _within(part, active)) for name, part in parts]
    spans = [
        Span(name, (part.first - active.first) * scale, part.length * scale) for name, part in inside if part.length
    ]
    width = view.phases.slot_length * scale
    bars = tuple(
        _bar(str(item.tree.address), item.kind.label, state.schedule(item.tree), positions, width)
        for item in chosen[:MAXIMUM_BARS]
    )
    now = min(float(WIDTH), max(0.0, (slot - active.first) * scale))
    return TimeLine(
        *(view.active, active.first, active.last, round(now, 1), tuple(spans), bars),
        left_out=max(0, len(chosen) - MAXIMUM_BARS),
    )


def _positions(state: NetworkState, ours: Collection[str]) -> frozenset[int]:
    return frozenset(at for at, item in enumerate(state.active_registrations) if str(item.authority) in ours)


def _within(part: SlotRange, whole: SlotRange) -> SlotRange:
    return SlotRange(max(part.first, whole.first), min(part.last, whole.last))


def _bar(tree: str, kind: str, schedule: Sequence[int | None], positions: frozenset[int], width: float) -> TreeBar:
    holders = [_NOBODY if owner is None else _OURS if owner in positions else _OTHERS for owner in schedule]
    if len(holders) > _COLUMNS:
        size = -(-len(holders) // _COLUMNS)
        parts = [holders[at : at + size] for at in range(0, len(holders), size)]
        holders, width = [max(set(part), key=part.count) for part in parts], width * size
    paths = {_OURS: "", _OTHERS: "", _NOBODY: ""}
    at = 0
    for holder, run in groupby(holders):
        count = len(list(run))
        paths[holder] += f"M{at * width:.1f} 0h{count * width:.1f}v10h-{count * width:.1f}z"
        at += count
    return TreeBar(tree, kind, paths[_OURS], paths[_OTHERS], paths[_NOBODY])
