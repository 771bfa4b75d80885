"""An SVG chart of the recorded runs: our seconds per proof and the reference's, a panel for each circuit.

A line joins the runs of one CPU model and backend, since times of different machines cannot be compared. Hollow points
are the reference's times of the same run.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH, PANEL, LEFT, RIGHT, TOP, BOTTOM = 760, 230, 70, 20, 34, 46
COLOURS = ("#1f6fb2", "#c25a17", "#2b8a4b", "#8a3fa0", "#7a6a00", "#555555")
FONT = 'font-family="sans-serif" font-size="11"'
UNKNOWN = "unknown processor"


@dataclass(frozen=True)
class Point:
    """One circuit in one run: median seconds per proof, and the machine."""

    run: int
    label: str
    machine: str
    ours_s: float
    reference_s: float


def read_history(lines: Iterable[str]) -> dict[str, list[Point]]:
    """Return the points of each circuit in the order of the runs. Raises ValueError for a line without results."""
    circuits: dict[str, list[Point]] = defaultdict(list)
    for run, line in enumerate(filter(str.strip, lines)):
        record = json.loads(line)
        if not isinstance(record, dict) or "results" not in record:
            raise ValueError(f"line {run + 1} has no results")
        machine = f"{record.get('processor', UNKNOWN)}, {record.get('backend', 'arithmetic not noted')}"
        label = f"{str(record.get('time', ''))[:10]} {str(record.get('commit', ''))[:7]}".strip()
        for result in record["results"]:
            times = float(result["ours_median_s"]), float(result["reference_median_s"])
            circuits[str(result["circuit"])].append(Point(run, label, machine, *times))
    return dict(circuits)


def ticks(most: float) -> list[float]:
    """Return four to seven round values from 0 to at least ``most``."""
    step = 10.0 ** math.floor(math.log10(most))
    step = next(step * part for part in (0.2, 0.5, 1.0, 2.0) if most <= 6 * step * part)
    return [step * number for number in range(math.ceil(most / step) + 1)]


def panel(circuit: str, points: Sequence[Point], runs: Sequence[int], top: int, colours: dict[str, str]) -> list[str]:
    """Return the elements of one circuit's panel, ``top`` pixels down."""
    values = ticks(max(max(point.ours_s, point.reference_s) for point in points))
    height = PANEL - TOP - BOTTOM

    def place(run: int, seconds: float) -> tuple[float, float]:
        share = (runs.index(run) + 0.5) / len(runs)
        return round(LEFT + (WIDTH - LEFT - RIGHT) * share, 1), round(
            top + TOP + height * (1 - seconds / values[-1]), 1
        )

    parts = [f'<text x="{LEFT}" y="{top + 20}" font-size="14">{escape(circuit)}, seconds per proof</text>']
    for value in values:
        _, y = place(runs[0], value)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{value:g}</text>')
    for machine, colour in colours.items():
        own = [point for point in points if point.machine == machine]
        if not own:
            continue
        line = " ".join(f"{x},{y}" for x, y in (place(point.run, point.ours_s) for point in own))
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        for point in own:
            for seconds, fill in ((point.reference_s, "white"), (point.ours_s, colour)):
                x, y = place(point.run, seconds)
                title = f"{point.label}: {seconds:.3f} s ({point.reference_s / point.ours_s:.2f} times faster)"
                dot = f'<circle cx="{x}" cy="{y}" r="4" fill="{fill}" stroke="{colour}">'
                parts.append(f"{dot}<title>{escape(title)}</title></circle>")
    for point in points:
        x, _ = place(point.run, 0)
        parts.append(f'<text x="{x}" y="{top + PANEL - BOTTOM + 18}" text-anchor="middle">{escape(point.label)}</text>')
    return parts


def draw(circuits: dict[str, list[Point]]) -> str:
    """Return the SVG document: one panel per circuit, and a legend of the machines."""
    runs = sorted({point.run for points in circuits.values() for point in points})
    machines = dict.fromkeys(point.machine for points in circuits.values() for point in points)
    colours = {machine: COLOURS[number % len(COLOURS)] for number, machine in enumerate(machines)}
    height = PANEL * len(circuits) + 20 * len(colours) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" {FONT}>',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
    ]
    for number, (circuit, points) in enumerate(circuits.items()):
        parts += panel(circuit, points, runs, PANEL * number, colours)
    for number, (machine, colour) in enumerate(colours.items()):
        y = PANEL * len(circuits) + 20 * number + 20
        parts.append(f'<circle cx="{LEFT}" cy="{y - 4}" r="4" fill="{colour}"/>')
        parts.append(f'<text x="{LEFT + 12}" y="{y}">{escape(machine)}; hollow: the reference in the same run</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
