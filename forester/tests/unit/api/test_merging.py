"""One answer from those of several foresters: sums, the first of what they share, failures that hide nothing."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from forester.api.merging import merged_compressible, merged_health, merged_metrics
from forester.api.upstreams import PATHS, UpstreamView

OK = {"status": "ok"}


def view(name: str, health: Any = None, metrics: Any = None, compressible: Any = None) -> UpstreamView:
    answers = dict(zip(PATHS, (health or OK, metrics or {}, compressible or {"enabled": False}), strict=True))
    return UpstreamView(f"http://{name}", answers, 1_700_000_000)


def gone(name: str) -> UpstreamView:
    return UpstreamView(f"http://{name}", error=f"http://{name} cannot be reached")


def test_health__all_foresters_fit__is_ok() -> None:
    merged = merged_health([view("a"), view("b")])
    assert merged["status"] == "ok"
    assert [(item["base_url"], item["ok"]) for item in merged["foresters"]] == [("http://a", True), ("http://b", True)]


def test_health__one_unfit_and_one_gone__names_the_reasons_of_both_and_the_fit_one() -> None:
    unfit = view("b", health={"status": "unhealthy", "reasons": ["insufficient funds"]})
    merged = merged_health([view("a"), unfit, gone("c")], ["network: not read"])
    assert merged["status"] == "unhealthy"
    assert merged["reasons"] == [
        "network: not read",
        "http://b: insufficient funds",
        "http://c: http://c cannot be reached",
    ]
    assert [item["ok"] for item in merged["foresters"]] == [True, False, False]


def test_metrics__of_two_and_one_gone__are_added_up_and_shared_facts_counted_once() -> None:
    first = {
        "transactions_processed_total": {"7": 10, "8": 1},
        "transaction_rate": {"8": 0.5},
        "last_run_timestamp": 100,
        "forester_balances": {"A": 1.5},
        "queue_lengths": {"tree": 40, "other": 1},
        "source": "registry",
    }
    second = {
        "transactions_processed_total": {"8": 4},
        "transaction_rate": {"8": 1.25},
        "last_run_timestamp": 105,
        "forester_balances": {"B": 2},
        "queue_lengths": {"tree": 38},
    }
    merged = merged_metrics([view("a", metrics=first), gone("c"), view("b", metrics=second)])
    assert merged["transactions_processed_total"] == {"7": 10, "8": 5}
    assert merged["transaction_rate"] == {"8": 1.75}
    assert merged["last_run_timestamp"] == 105
    assert merged["forester_balances"] == {"A": 1.5, "B": 2}
    assert merged["queue_lengths"] == {"tree": 40, "other": 1}
    assert merged["source"] == "forester-apis"
    assert [item["ok"] for item in merged["upstreams"]] == [True, False, True]


def test_metrics__numbers_that_no_forester_counts__count_as_zero() -> None:
    counts = {"1": 10**5000, "2": 1.7e308, "3": -(2**64), "4": 5}
    merged = merged_metrics([view(name, metrics={"transactions_processed_total": counts}) for name in "ab"])
    assert merged["transactions_processed_total"] == {"1": 0, "2": 0, "3": 0, "4": 10}


def test_compressible__of_two_that_track_and_one_that_does_not__is_added_up() -> None:
    def tracking(tracked: int, ready: int, following: int) -> dict[str, Any]:
        accounts = {"tracked": tracked, "compressed": 3, "ready": ready, "waiting": tracked - ready}
        totals = {"total_tracked": tracked, "total_ready": ready, "total_waiting": tracked - ready}
        return {
            "enabled": True,
            "current_slot": following - 5,
            "ctoken": accounts | {"next_ready_slot": following},
        } | totals

    views = [view("a", compressible=tracking(10, 2, 100)), view("b", compressible=tracking(5, 0, 90)), view("c")]
    merged = merged_compressible(views)
    assert (merged["enabled"], merged["total_tracked"], merged["total_ready"]) == (True, 15, 2)
    assert merged["ctoken"] == {"tracked": 15, "compressed": 6, "ready": 2, "waiting": 13, "next_ready_slot": 90}
    assert (merged["ctoken_count"], merged["current_slot"]) == (15, 95)
    assert merged_compressible([view("c"), gone("d")])["enabled"] is False
    assert merged_compressible([gone("d")])["source"] == "none"


def test_compressible__programs_of_two_foresters__are_added_up_by_program() -> None:
    def tracking(*programs: tuple[str, int]) -> dict[str, Any]:
        rows = [{"program_id": name, "tracked": tracked, "ready": 1, "waiting": 1} for name, tracked in programs]
        return {"enabled": True, "pda_programs": rows}

    views = [view("a", compressible=tracking(("P", 4), ("Q", 1))), view("b", compressible=tracking(("P", 2)))]
    found = {row["program_id"]: row["tracked"] for row in merged_compressible(views)["pda_programs"]}
    assert found == {"P": 6, "Q": 1}


MEMBERS = st.sampled_from(
    [
        *("status", "reasons", "transactions_processed_total", "queue_lengths", "last_run_timestamp", "enabled"),
        *(
            "ctoken",
            "pda_programs",
            "program_id",
            "forester_balances",
            "transaction_rate",
            "total_tracked",
            "current_slot",
            "next_ready_slot",
        ),
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(MEMBERS, inner, max_size=4),
    max_leaves=8,
)
OBJECTS = st.dictionaries(MEMBERS, VALUES, max_size=6)


@given(st.lists(st.tuples(OBJECTS, OBJECTS, OBJECTS), max_size=3))
def test_merging__answers_of_any_content__gives_objects(answers: list[tuple[Any, Any, Any]]) -> None:
    views = [view(str(number), *objects) for number, objects in enumerate(answers)]
    for merge in (merged_health, merged_metrics, merged_compressible):
        json.dumps(merge(views))
