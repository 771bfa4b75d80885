"""The drawing of the history of measured proofs: what it reads, what it draws, what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

BENCH = Path(__file__).resolve().parents[3] / "bench"
SVG = "{http://www.w3.org/2000/svg}"


def run(circuit: str, ours_s: float, **facts: str) -> str:
    result = {"circuit": circuit, "ours_median_s": ours_s, "reference_median_s": 3 * ours_s}
    return json.dumps({"time": "2026-11-22T00:00:00Z", **facts, "results": [result]}) + "\n"


def plot(history: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, str(BENCH / "plot_history.py"), "--history", str(history)]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def parsed(drawing: Path) -> ElementTree.Element:
    return ElementTree.parse(drawing).getroot()  # noqa: S314 - we wrote it


def test_plot__runs_of_two_machines__draws_a_panel_per_circuit_and_joins_one_machine(tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    lines = [
        run("inclusion 32/1", 0.2, processor="A & B", backend="adx", commit="1234567-dirty"),
        run("inclusion 32/1", 0.1, processor="A & B", backend="adx"),
        run("inclusion 32/1", 0.05, processor="C"),
        run("append 32/10", 4.0),
    ]
    history.write_text("".join(lines))
    answer = plot(history)
    assert answer.returncode == 0, answer.stderr
    drawing = parsed(tmp_path / "history.svg")
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
    assert len(titles) == 8
    assert "2026-11-22: 0.100 s (3.00 times faster)" in titles


def test_plot__of_the_recorded_history__is_well_formed(tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    history.write_text((BENCH / "history.jsonl").read_text())
    assert plot(history).returncode == 0
    assert parsed(tmp_path / "history.svg").tag == f"{SVG}svg"


def test_plot__line_without_results__names_it(tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    history.write_text(run("inclusion 32/1", 0.2) + '{"time": "2026"}\n')
    answer = plot(history)
    assert answer.returncode != 0
    assert f"{history}: line 2 has no results" in answer.stderr
    history.write_text("")
    assert "has no runs" in plot(history).stderr
