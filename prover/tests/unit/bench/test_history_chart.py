"""The chart of the recorded runs: panels, lines, and refusal of other records."""

from __future__ import annotations

import importlib
import itertools
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

BENCH = Path(__file__).resolve().parents[3] / "bench"
SVG = "{http://www.w3.org/2000/svg}"


def run(circuit: str, ours_s: float, **facts: str) -> str:
    result = {"circuit": circuit, "ours_median_s": ours_s, "reference_median_s": 3 * ours_s}
    return json.dumps({"time": "2026-11-22T00:00:00Z", **facts, "results": [result]}) + "\n"


@pytest.fixture
def chart(monkeypatch: pytest.MonkeyPatch) -> Any:
    for folder in (BENCH, BENCH.parents[1] / "shared" / "bench"):
        monkeypatch.syspath_prepend(folder)
    return importlib.import_module("compare")


def drawn(chart: Any, lines: list[str]) -> ElementTree.Element:
    return ElementTree.fromstring(chart.draw_history(lines))  # noqa: S314 - we wrote it


def test_chart__runs_of_two_machines__draws_a_panel_per_circuit_and_joins_one_machine(chart: Any) -> None:
    lines = [
        run("inclusion 32/1", 0.2, processor="A & B", backend="adx", commit="1234567-dirty"),
        run("inclusion 32/1", 0.1, processor="A & B", backend="adx"),
        run("inclusion 32/1", 0.05, processor="C"),
        run("append 32/10", 4.0),
    ]
    drawing = drawn(chart, lines)
    texts = [element.text or "" for element in drawing.iter(f"{SVG}text")]
    assert [text for text in texts if "seconds per proof" in text] == [
        "inclusion 32/1, seconds per proof",
        "append 32/10, seconds per proof",
    ]
    assert any(text.startswith("A & B, adx") for text in texts)
    assert "2026-11-22 1234567" in texts
    joined = [len(line.attrib["points"].split()) for line in drawing.iter(f"{SVG}polyline")]
    assert max(joined) == 2
    titles = [element.text for element in drawing.iter(f"{SVG}title")]
    assert len(titles) == 4
    assert "2026-11-22: 0.100 s (3.00 times faster than the reference)" in titles


def test_chart__of_many_runs__has_labels_that_do_not_overlap(chart: Any) -> None:
    drawing = drawn(chart, [run("inclusion 32/1", 0.1, commit=f"{number:07}") for number in range(40)])
    labels = [element for element in drawing.iter(f"{SVG}text") if (element.text or "").startswith("2026-11-22 ")]
    places = [float(element.attrib["x"]) for element in labels]
    assert len(places) > 3
    assert min(after - before for before, after in itertools.pairwise(places)) > 6 * len("2026-11-22 0000000")


def test_chart__of_the_recorded_history__is_well_formed(chart: Any) -> None:
    assert drawn(chart, (BENCH / "history" / "compare.jsonl").read_text().splitlines()).tag == f"{SVG}svg"


def test_chart__line_without_results__names_it(chart: Any) -> None:
    with pytest.raises(ValueError, match="line 2 has no results"):
        chart.draw_history([run("inclusion 32/1", 0.2), '{"time": "2026"}'])
