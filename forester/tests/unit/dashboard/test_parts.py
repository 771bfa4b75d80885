"""Parts of the dashboard: curves, windows, money, texts, explorer links, records."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from dashboard_views import PAYER, activity
from hypothesis import given
from hypothesis import strategies as st
from network_states import CONFIG, STATE_V2, network
from yarl import URL

from forester.dashboard import texts
from forester.dashboard.activity import HistoryFacts, MoneyFacts
from forester.dashboard.curves import HEIGHT, WIDTH, curve
from forester.dashboard.epoch_view import deadlines, first_window_of_next, our_windows, time_line
from forester.dashboard.explorer import Explorer
from forester.dashboard.funds_view import funds_view
from forester.dashboard.remedies import ADVICE, advice_of
from forester.network_status.epochs import protocol_times
from forester.network_status.flows import QueueFlows
from forester.network_status.pace import SlotPace
from forester.observability.service_records import ServiceRecords
from forester.observability.work_records import (
    MAXIMUM_BATCHES,
    MAXIMUM_TRANSACTIONS,
    BatchState,
    WorkRecords,
)

SOURCES = Path(__file__).resolve().parents[3] / "src" / "forester"
MONITORING_PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "monitoring.md"


def test_advice__of_every_condition_that_the_page_lists__exists_and_no_other() -> None:
    text = MONITORING_PAGE.read_text().split("## What makes `/health` red")[1].split("\n## ")[0]
    listed = set(re.findall(r"^\| `([a-z_]+)` \|", text, re.MULTILINE))
    assert listed == set(ADVICE)
    assert "task_failed" in advice_of("task epoch").remedy
    assert advice_of("unheard of").title == "Unfit"


@given(st.lists(st.none() | st.floats(-1e12, 1e12), max_size=300), st.booleans())
def test_curve__any_values__stays_in_its_box(values: list[float | None], from_zero: bool) -> None:
    found = curve(values, "x", "y", from_zero=from_zero)
    assert found.is_empty == (not [value for value in values if value is not None])
    numbers = re.findall(r"(-?[\d.]+) (-?[\d.]+)", found.line)
    assert all(-0.05 <= float(x) <= WIDTH + 0.2 and -0.05 <= float(y) <= HEIGHT + 0.05 for x, y in numbers)


def test_curve__gap__is_two_lines_and_a_lone_value_a_point() -> None:
    found = curve([1, 2, None, 3, None, 4, 5], "Backlog", "elements")
    assert found.line.count("M") == 3
    assert found.text == "Backlog of the last 24 hours: 5 elements at the end, minimum 1, maximum 5"


def test_windows__of_our_trees__are_those_of_the_schedule() -> None:
    state = network()
    view = state.epochs
    windows = {window.tree: window for window in our_windows(state, {PAYER}, state.slot)}
    for item in state.trees:
        schedule = state.schedule(item.tree)
        current = view.light_slot or 0
        ours = [at for at in range(current, len(schedule)) if schedule[at] == 0]
        if not ours:
            assert str(item.tree.address) not in windows
            continue
        window = windows[str(item.tree.address)]
        assert window.slots.first == view.phases.active.first + ours[0] * CONFIG.slot_length
        held = itertools.takewhile(lambda at: at < len(schedule) and schedule[at] == 0, itertools.count(ours[0]))  # noqa: B023
        assert window.slots.length == len(list(held)) * CONFIG.slot_length
    assert our_windows(state, {"nobody"}, state.slot) == []
    assert our_windows(state, {PAYER}, view.phases.active.last + 1) == []


def test_next_epoch__before_its_registration_closes__has_no_window_yet() -> None:
    open_still = network(650, registered={2: (0, 1, 2), 3: (0,)})
    assert open_still.epochs.registering == 3
    assert first_window_of_next(open_still, {PAYER}, 650) is None
    times = protocol_times(CONFIG)
    assert 650 in times.phases(3).registration


@pytest.mark.parametrize("slot", [150, 299, 300, 399, 550, 600, 640, 699])
def test_deadlines__at_any_slot__lie_ahead_in_order_and_name_both_epochs(slot: int) -> None:
    state = network(slot, registered={2: (0, 1, 2), 3: (0,)})
    found = deadlines(state, {PAYER}, slot)
    assert [item.slot for item in found] == sorted(item.slot for item in found)
    assert all(item.slot > slot for item in found)
    active = state.epochs.active
    assert active is not None
    assert {active, active + 1} <= {item.epoch for item in found}
    ends = next(item for item in found if item.title == "Active phase ends")
    assert ends.slot == state.epochs.phases.active.last + 1


def test_time_line__covers_the_epoch_once_for_each_tree() -> None:
    state = network()
    line = time_line(state, {PAYER}, state.slot)
    assert line is not None
    for bar, item in zip(line.bars, state.trees, strict=True):
        widths = {}
        for name in ("ours", "others", "nobody"):
            runs = re.findall(r"M[\d.]+ 0h([\d.]+)", getattr(bar, name))
            widths[name] = sum(map(float, runs))
        schedule = state.schedule(item.tree)
        assert sum(widths.values()) == pytest.approx(1000, abs=1)
        assert widths["ours"] == pytest.approx(1000 * schedule.count(0) / len(schedule), abs=1)
        assert widths["nobody"] == pytest.approx(1000 * schedule.count(None) / len(schedule), abs=1)
    assert line.now == 1000 * (550 - line.first) / 200


def test_days_left__of_falling_balances__ignores_top_ups() -> None:
    day = 288
    lamports: list[int | None] = [10**9 - at * 1000 + (10**9 if at >= 100 else 0) for at in range(day)]
    history = HistoryFacts(0.0, 300.0, [None] * day, [None] * day, [None] * day, lamports)
    found = funds_view(activity(history=history, money=MoneyFacts(288_000, 0, 1, {}, {})))
    assert found.days_left == pytest.approx(288_000 / (286 * 1000 * 86400 / (287 * 300)), rel=1e-6)
    assert found.tone == "bad" if (found.days_left or 9) < 1 else True
    early = funds_view(activity(money=MoneyFacts(24_000, 1000, 2000, {"a": 1000}, {})))
    assert early.days_left == 1.0
    assert early.used_percent == 50.0
    assert funds_view(activity(money=MoneyFacts(None, 5, 0, {}, {}))).days_left is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0 s"),
        (59.9, "59 s"),
        (60, "1 min 00 s"),
        (3599, "59 min 59 s"),
        (7500, "2 h 05 min"),
        (100_000, "1 d 3 h"),
    ],
)
def test_duration__in_its_two_largest_units(seconds: float, text: str) -> None:
    assert texts.duration(seconds) == text


@pytest.mark.parametrize(
    ("genesis", "url", "link"),
    [
        ("5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d", "https://x/?api-key=s", "https://explorer.solana.com/tx/S"),
        (
            "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG",
            "https://user:pw@x/KEY",
            "https://explorer.solana.com/tx/S?cluster=devnet",
        ),
        ("other", "https://private.example/KEY", None),
        (None, "", None),
        (
            "other",
            "http://u:p@127.0.0.1:8899/KEY?token=1",
            "https://explorer.solana.com/tx/S?cluster=custom&customUrl=http%3A%2F%2F127.0.0.1%3A8899",
        ),
    ],
)
def test_explorer__network__is_linked_without_a_secret(genesis: str | None, url: str, link: str | None) -> None:
    assert Explorer.of(genesis, url).transaction("S") == link


def test_explorer__hostile_signature__stays_in_the_path() -> None:
    link = Explorer("devnet", "?cluster=devnet").transaction("../../?x=<y>")
    assert URL(str(link), encoded=True).raw_path == "/tx/..%2F..%2F%3Fx%3D%3Cy%3E"


def test_flows__elements_enter_and_leave__are_rates_ages_and_a_time_to_empty() -> None:
    now = [0.0]
    flows = QueueFlows(clock=lambda: now[0])
    tree = str(STATE_V2)
    flows.observe(network(sequence_number=1))
    first = flows.of(tree)
    assert first is not None
    assert (first.inflow, first.outflow, first.to_empty_s) == (0.0, 0.0, None)
    assert first.older
    assert first.backlog == sum(network().trees[1].pending.values())
    now[0] = 60.0
    flows.observe(network(sequence_number=1))
    assert flows.of(tree) is not None
    assert flows.of(tree).age_s == 60.0  # type: ignore[union-attr]
    flows.observe(network(registered={}))
    assert flows.of("unknown") is None


def test_pace__measured_from_readings__gives_times_of_slots() -> None:
    now = [1000.0]
    pace = SlotPace(clock=lambda: now[0])
    pace.observe(network(100))
    assert pace.slot_s == 0.4
    now[0] = 1010.0
    pace.observe(network(150))
    assert pace.slot_s == pytest.approx(0.2)
    assert pace.time_of(200) == pytest.approx(1020.0)
    assert pace.slot_at(1015.0) == 175
    copy = pace.frozen()
    now[0] = 1020.0
    pace.observe(network(90))
    assert (copy.slot_at(1010.0), pace.slot_at(1020.0)) == (150, 90), "a chain that went back begins again"


def test_pace__chain_that_is_halted__is_not_extrapolated() -> None:
    now = [1000.0]
    pace = SlotPace(clock=lambda: now[0])
    for _ in range(2):
        pace.observe(network(100))
        now[0] += 30
    assert pace.slot_at(5000.0) == 100


def test_work_records__many_batches_and_transactions__are_bounded_and_joined() -> None:
    work = WorkRecords(clock=lambda: 5.0)
    for number in range(MAXIMUM_BATCHES + 10):
        work.staged("tree", "append", number, 10)
        work.moved("tree", "append", number, BatchState.PROVED)
    assert len(work.batches) == MAXIMUM_BATCHES
    last = MAXIMUM_BATCHES + 9
    work.moved("tree", "append", last, BatchState.SENT)
    work.signed("S", "v2_batches", "tree", 5000)
    assert [item.signature for item in work.batches[:2]] == ["S", None]
    work.settled("S", "confirmed", 77)
    work.moved("tree", "append", last, BatchState.CONFIRMED, slot=77)
    assert (work.batches[0].slot, work.transactions[0].outcome) == (77, "confirmed")
    work.settled("unknown", "confirmed")
    for number in range(MAXIMUM_TRANSACTIONS + 5):
        work.signed(str(number), "report", "x", 1)
    assert len(work.transactions) == MAXIMUM_TRANSACTIONS
    work.moved("tree", "append", last, BatchState.FAILED, detail="https://user:secret@host/ refused " + "x" * 999)
    assert "secret" not in str(work.batches[0].detail)
    assert len(str(work.batches[0].detail)) <= 300


def test_service_records__url_with_a_key__keeps_the_host_only() -> None:
    records = ServiceRecords()
    record = records.add("node", "https://user:pw@rpc.example/very-secret?api-key=1")
    assert record is not None
    assert record.host == "rpc.example:443"
    assert records.of("node", "https://rpc.example/other") is record
    assert records.of("indexer", "https://rpc.example") is None
    assert records.add("node", "no url") is None
    assert records.add("node", "http://x:99999") is None
