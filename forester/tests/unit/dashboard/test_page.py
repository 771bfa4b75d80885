"""The page from made-up states: escaping, empty states, one rendering for all viewers."""

from __future__ import annotations

import asyncio
import gzip
import html.parser
import json
import re
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from dashboard_views import NOW, PAYER, activity, batch, inputs
from hypothesis import given, settings
from hypothesis import strategies as st
from network_states import ADDRESS_V2, STATE_V1, STATE_V2, network

from forester.dashboard.activity import (
    ActivityDocument,
    HistoryFacts,
    MoneyFacts,
    ServiceFacts,
    read_activity,
)
from forester.dashboard.page import CONTENT_SECURITY_POLICY, PANELS, Pages, Renderer
from forester.dashboard.tree_rows import MAXIMUM_ROWS, Choice
from forester.dashboard.view import ForesterView, Inputs, View, view_of
from forester.errors import MalformedAnswer
from forester.network_status.state import NetworkState
from forester.observability.health import Problem
from forester.observability.progress import TreeProgress
from forester.observability.work_records import TransactionRecord

RENDERER = Renderer()
HOSTILE = "<script>alert(1)</script>\"' onload=x javascript:alert(2) {{ 7*7 }}"
ALLOWED_SCRIPTS = 1


def page(view: View, choice: Choice | None = None) -> str:
    return RENDERER.page(view, choice or Choice()).body.decode()


def live(view: View) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(RENDERER.live(view).body)
    return content


class Elements(html.parser.HTMLParser):
    """Elements and attributes of a page, as a browser would find them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]


def parsed(text: str) -> Elements:
    found = Elements()
    found.feed(text)
    return found


def hostile_inputs(text: str) -> Inputs:
    """Return inputs with a text in every place that another process fills."""
    document = activity(
        payer=text[:128],
        release=text[:128],
        problems=[Problem(text[:128], text, NOW - 60, text[:128])],
        trees=[TreeProgress(str(STATE_V2), 3, 500.0, text[:128])],
        batches=[batch(tree=text[:128], circuit=text[:128], state=text[:128], signature=text[:128], detail=text)],
        transactions=[TransactionRecord(text[:128], text[:128], 5000, NOW, text[:128], 3, text)],
        services=[ServiceFacts(text[:128], text[:128], True, True, 3, error=text, failed_at=NOW, failing_since=NOW)],
    )
    document = msgspec.structs.replace(
        document, money=msgspec.structs.replace(document.money, by_purpose={text[:128]: 1}, failed={text[:128]: 2})
    )
    views = [ForesterView(text, document), ForesterView(text, None, text), ForesterView(text, None, None, (text,))]
    return replace(
        inputs(), foresters=views, merges=True, snapshot_error=text, own_problems=[Problem(text, text, NOW, text)]
    )


def test_page__hostile_names_everywhere__are_text_and_nothing_else() -> None:
    view = view_of(hostile_inputs(HOSTILE))
    for text in (page(view, Choice(text=HOSTILE[:64])), *live(view)["panels"].values()):
        found = parsed(text)
        assert found.tags.count("script") <= ALLOWED_SCRIPTS
        assert not [name for name, _ in found.attributes if name.startswith("on")]
        links = [value for name, value in found.attributes if name == "href"]
        assert all(link.startswith(("/", "#", "data:,", "https://explorer.solana.com/")) for link in links)
        assert "<script>alert" not in text
        assert "49" not in re.findall(r"javascript:alert\(2\) (\S+)", text)


def extreme_inputs(whole: int, fraction: float) -> Inputs:
    """Return inputs with the same numbers in every place that another process fills."""
    columns = [[whole, None, whole, -whole]] * 4
    document = activity(
        began=fraction,
        problems=[Problem("funds", "empty", fraction, "critical")],
        trees=[TreeProgress(str(STATE_V2), whole, fraction, "congestion")],
        batches=[
            batch(sequence=whole, elements=whole, slot=whole, times={"staged": fraction, "sent": -fraction}),
            batch(sequence=1, times={"staged": -fraction, "proving": fraction}),
        ],
        transactions=[TransactionRecord("s", "purpose", whole, fraction, None, whole)],
        money=MoneyFacts(whole, whole, whole, {"v2_batches": whole}, {"send_failed": whole}),
        services=[
            ServiceFacts(
                *("indexer", "i:1", False, True, max(2, whole), fraction, fraction, fraction, fraction, "refused"),
                *(whole, whole),
            )
        ],
        compressed_lamports=whole,
        history=HistoryFacts(fraction, abs(fraction), *columns),
    )
    other = msgspec.structs.replace(document, history=HistoryFacts(-fraction, abs(fraction), *columns))
    accounts = {"tracked": whole, "ready": whole, "compressed": whole, "next_ready_slot": whole}
    return replace(
        inputs(activities=[document, other]),
        merges=True,
        compressible={"enabled": True, "total_tracked": whole, "total_ready": whole, "pda": accounts},
    )


@pytest.mark.parametrize("whole", [0, 10**12, 2**63 - 1, 1 - 2**63])
@pytest.mark.parametrize("fraction", [0.0, 5e-324, -1.0, 1e12, 1.7e308, -1.7e308])
def test_page__extreme_numbers_everywhere__is_rendered(whole: int, fraction: float) -> None:
    found = extreme_inputs(whole, fraction)
    for forester in found.foresters:
        assert forester.activity is not None
        assert read_activity(json.loads(msgspec.json.encode(forester.activity))) == forester.activity
    view = view_of(found)
    text = page(view)
    assert set(live(view)["panels"]) == set(PANELS)
    times = [float(at) for at in re.findall(r'data-at="([^"]+)"', text)]
    assert times
    assert all(0 <= at < 253_402_300_800 for at in times), "a script's date has no later year either"


@settings(max_examples=30, deadline=None)
@given(st.text(max_size=200))
def test_page__any_text__adds_no_element(text: str) -> None:
    # With the ending it is no word that the page knows, as of a cause, whose remedy would be an element more.
    plain, other = view_of(hostile_inputs("x")), view_of(hostile_inputs("x" + text + "x"))
    for name in PANELS:
        expected, found = parsed(live(plain)["panels"][name]), parsed(live(other)["panels"][name])
        assert found.tags == expected.tags, (name, text)


def test_page__needs_nothing_that_its_policy_refuses() -> None:
    text = page(view_of(inputs()))
    found = parsed(text)
    assert "style" not in found.tags
    assert not [name for name, _ in found.attributes if name == "style"]
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert not re.search(r"<script(?![^>]* src=)", text)


def test_page__before_the_network_is_read__reports_it_in_every_panel() -> None:
    view = view_of(replace(inputs(), snapshot=None, snapshot_error="node away", foresters=[]))
    text = page(view)
    assert "The network has not been read yet: node away" in text
    assert "The trees follow once the network has been read." in text
    assert "No batch has been staged since the start." in text
    assert set(live(view)["panels"]) == set(PANELS)


def test_page__of_a_network__has_the_numbers_of_the_state() -> None:
    state = network(pending_cells=4)
    view = view_of(inputs(state))
    text = page(view)
    for item in state.trees:
        assert f'data-tree="{item.tree.address}" data-turn=' in text
        assert f'data-backlog="{sum(item.pending.values())}"' in text
    assert [row.tree for row in view.rows] == [str(STATE_V1), str(STATE_V2), str(ADDRESS_V2)]
    for row, item in zip(view.rows, state.trees, strict=True):
        light_slot = state.epochs.light_slot
        owner = None if light_slot is None else state.schedule(item.tree)[light_slot]
        assert row.turn == (None if owner is None else str(state.active_registrations[owner].authority))
        assert row.is_ours == (row.turn == PAYER)


def test_live__nothing_changed__is_the_same_document_at_a_later_time() -> None:
    view, again = view_of(inputs()), view_of(replace(inputs(), now=NOW + 0.3))
    assert view.slot == again.slot
    assert RENDERER.live(view).tag == RENDERER.live(again).tag
    much_later = view_of(replace(inputs(), now=NOW + 60))
    assert RENDERER.page(view, Choice()).tag != RENDERER.page(much_later, Choice()).tag


def test_live__packed__is_small_and_the_same() -> None:
    document = RENDERER.live(view_of(inputs(activities=[activity(batches=[batch(sequence=i) for i in range(128)])])))
    assert gzip.decompress(document.packed) == document.body
    assert len(document.packed) < 20_000


def test_page__thousands_of_trees__is_bounded_and_names_what_is_omitted() -> None:
    state = network()
    many = replace(state, trees=state.trees * 700)
    view = view_of(inputs(many))
    text = page(view)
    assert text.count("<tr data-kind") == MAXIMUM_ROWS
    assert f"{2100 - MAXIMUM_ROWS} more trees are omitted" in text
    assert len(view.time_line.bars) == 12 if view.time_line else False
    assert len(RENDERER.live(view).packed) < 40_000


@pytest.mark.parametrize(
    ("query", "choice"),
    [
        ({}, Choice()),
        ({"kind": "StateV1", "sort": "age", "text": "abc"}, Choice("StateV1", "age", "abc")),
        ({"kind": "'; DROP", "sort": "__class__", "text": "x" * 999}, Choice("", "attention", "x" * 64)),
    ],
)
def test_choice__of_a_query__takes_what_exists(query: dict[str, str], choice: Choice) -> None:
    assert Choice.of(query) == choice


def test_page__chosen_kind_and_order__has_these_rows() -> None:
    text = page(view_of(inputs()), Choice(kind="AddressV2", sort="tree"))
    assert re.findall(r'<tr data-kind="(\w+)"', text) == ["AddressV2"]
    assert page(view_of(inputs()), Choice(text="no such tree")).count("No tree matches.") == 1


async def test_pages__many_viewers_at_once__share_one_rendering() -> None:
    made: list[int] = []
    clock = [NOW]

    def make() -> Inputs:
        made.append(1)
        return inputs()

    pages = Pages(make, clock=lambda: clock[0])
    documents = await asyncio.gather(*(pages.live() for _ in range(200)))
    assert len(made) == 1
    assert len({id(item) for item in documents}) == 1
    await asyncio.gather(*(pages.page(Choice()) for _ in range(50)))
    assert len(made) == 1, "page and panels show the same moment"
    clock[0] += 0.9
    await pages.live()
    assert len(made) == 1
    clock[0] += 0.2
    await pages.live()
    assert len(made) == 2


async def test_pages__viewer_that_goes_away__leaves_the_others_their_answer() -> None:
    pages = Pages(inputs, clock=lambda: NOW)
    first, second = asyncio.create_task(pages.live()), asyncio.create_task(pages.live())
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).body


async def test_pages__many_choices__are_not_kept_for_ever() -> None:
    pages = Pages(inputs, clock=lambda: NOW)
    for number in range(40):
        await pages.page(Choice(text=str(number)))
    assert len(pages._rendered) <= 16


async def test_pages__rendering_fails__the_next_viewer_tries_again() -> None:
    answers: list[Inputs | Exception] = [ValueError("once"), inputs()]

    def make() -> Inputs:
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    pages = Pages(make, clock=lambda: NOW)
    with pytest.raises(ValueError, match="once"):
        await pages.live()
    assert (await pages.live()).body


def test_activity__document_of_another_process__is_read_or_refused_as_a_whole() -> None:
    document = activity(batches=[batch()])
    content: dict[str, Any] = json.loads(msgspec.json.encode(document))
    assert read_activity(content) == document
    for wrong in (
        {**content, "payer": 7},
        {**content, "batches": [{"tree": "x"}]},
        {**content, "services": content["services"] * 40},
        {**content, "payer": "x" * 200},
        {**content, "compressed_lamports": 10**400},
        {**content, "money": {**content["money"], "lamports": -(10**400)}},
        {**content, "batches": [{**content["batches"][0], "elements": 2**63}]},
        {},
    ):
        with pytest.raises(MalformedAnswer, match=r"/activity is unusable: .*"):
            read_activity(wrong)


def test_view__several_foresters__are_added_up_and_a_missing_one_is_a_problem() -> None:
    other: ActivityDocument = activity(payer="other", problems=[Problem("funds", "empty", NOW - 9, "critical")])
    found = view_of(
        replace(
            inputs(),
            merges=True,
            foresters=[
                ForesterView("http://a", activity()),
                ForesterView("http://b", other),
                ForesterView("http://c", None, "away"),
            ],
        )
    )
    assert [(item.advice.title, item.forester) for item in found.problems] == [
        ("Out of funds", "http://b"),
        ("Forester cannot be read", "http://c"),
    ]
    assert [item.payer for item in found.funds] == [PAYER, "other"]
    assert not found.is_fit


def test_view__service_fails_or_tree_has_no_progress__is_a_warning_and_no_problem() -> None:
    failing = ServiceFacts("node", "n:1", False, True, 2, error="refused", failed_at=NOW, failing_since=NOW - 3)
    idle = ServiceFacts("node", "n:2", True, False, 9, error="refused", failed_at=NOW)
    document = activity(services=[failing, idle], trees=[TreeProgress(str(STATE_V2), 5, 200.0, "congestion")])
    found = view_of(inputs(activities=[document]))
    assert found.is_fit
    assert [(item.advice.title, item.since) for item in found.warnings] == [
        ("Calls to the node fail", NOW - 3),
        ("A tree makes no progress", NOW - 200),
    ]
    assert "--enable-priority-fees" in found.warnings[1].advice.remedy
    text = page(found)
    assert "Fit, 2 warnings" in text
    assert 'class="stuck"' in text


def test_state__without_registrations__shows_nobody() -> None:
    empty: NetworkState = network(registered={})
    text = page(view_of(inputs(empty)))
    assert "none in this epoch" in text
    assert "nobody" in text


def test_view__batches_under_way__come_before_later_ones_that_ended() -> None:
    under_way = batch(sequence=1, state="proving", times={"staged": NOW - 900, "proving": NOW - 800})
    ended = [batch(sequence=2), under_way, batch(sequence=3), batch(sequence=4, state="cancelled")]
    found = view_of(inputs(activities=[activity(batches=ended)]))
    assert [item.sequence for item in found.batches] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("state", "style"), [("confirmed", "good"), ("failed", "bad"), ("cancelled", ""), ("proving", "now")]
)
def test_page__state_of_a_batch__is_red_for_a_failure_alone(state: str, style: str) -> None:
    panel = live(view_of(inputs(activities=[activity(batches=[batch(state=state)])])))["panels"]["batches"]
    assert f'<span class="tag {style}">{state}</span>' in panel


def test_view__foresters_that_observed_a_tree_for_different_times__show_the_longest_silence() -> None:
    documents = [activity(trees=[TreeProgress(str(STATE_V2), 3, silent)]) for silent in (5.0, 90.0, 0.0)]
    rows = {row.tree: row.silent_s for row in view_of(inputs(activities=documents)).rows}
    assert rows == {str(STATE_V1): None, str(STATE_V2): 90.0, str(ADDRESS_V2): None}
