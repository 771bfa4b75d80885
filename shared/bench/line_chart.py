"""Lines over a common axis as an SVG file: one panel above another, a colour for each series."""

from __future__ import annotations

import math
from dataclasses import dataclass
from xml.sax.saxutils import escape

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 760, 230, 70, 20, 34, 46
_COLOURS = ("#1f6fb2", "#c25a17", "#2b8a4b", "#8a3fa0", "#7a6a00", "#555555", "#d6438a", "#12a5b5", "#111111")
_CHARACTER = 6
"""Width that a character of a label takes at most."""


@dataclass(frozen=True)
class Point:
    """A value at a position of the horizontal axis, its label there, and the text shown when a reader points at it."""

    x: float
    y: float
    label: str = ""
    title: str = ""


Panel = dict[str, list[Point]]
"""The points of each series, in order of x."""


def steps(maximum: float) -> list[float]:
    """Return four to seven round values from 0 to at least ``maximum``."""
    step = 10.0 ** math.floor(math.log10(maximum))
    step = next(step * part for part in (0.2, 0.5, 1.0, 2.0) if maximum <= 6 * step * part)
    return [step * number for number in range(math.ceil(maximum / step) + 1)]


def draw(panels: dict[str, Panel]) -> str:
    """Return the SVG document: a panel under each title, and a legend if there are several series."""
    names = list(dict.fromkeys(name for panel in panels.values() for name in panel))
    colours = {name: _COLOURS[number % len(_COLOURS)] for number, name in enumerate(names)}
    xs = [point.x for panel in panels.values() for points in panel.values() for point in points]
    height = _HEIGHT * len(panels) + (20 * len(names) + 30 if len(names) > 1 else 0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-size="11">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
    ]
    for number, (title, panel) in enumerate(panels.items()):
        parts += _panel(title, panel, _HEIGHT * number, (min(xs), max(xs)), colours)
    if len(names) > 1:
        for number, (name, colour) in enumerate(colours.items()):
            y = _HEIGHT * len(panels) + 20 * number + 20
            parts.append(f'<circle cx="{_LEFT}" cy="{y - 4}" r="4" fill="{colour}"/>')
            parts.append(f'<text x="{_LEFT + 12}" y="{y}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(title: str, panel: Panel, top: int, span: tuple[float, float], colours: dict[str, str]) -> list[str]:
    values = steps(max(point.y for points in panel.values() for point in points))

    def at(x: float, y: float) -> tuple[float, float]:
        share = (x - span[0] + 0.5) / (span[1] - span[0] + 1)
        down = top + _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - y / values[-1])
        return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * share, 1), round(down, 1)

    parts = [f'<text x="{_LEFT}" y="{top + 20}" font-size="14">{escape(title)}</text>']
    for value in values:
        _, y = at(span[0], value)
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y}" y2="{y}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{value:g}</text>')
    for name, points in panel.items():
        line = " ".join("{},{}".format(*at(point.x, point.y)) for point in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colours[name]}" stroke-width="1.5"/>')
        for point in points:
            x, y = at(point.x, point.y)
            if point.title:
                dot = f'<circle cx="{x}" cy="{y}" r="4" fill="{colours[name]}">'
                parts.append(f"{dot}<title>{escape(point.title)}</title></circle>")
    labels = sorted({(at(point.x, 0)[0], point.label) for points in panel.values() for point in points if point.label})
    end = 0.0
    for x, label in labels:
        half = _CHARACTER * len(label) / 2
        if x - half < end:
            continue  # it would cover the one before
        end = x + half + _CHARACTER
        parts.append(f'<text x="{x}" y="{top + _HEIGHT - _BOTTOM + 18}" text-anchor="middle">{escape(label)}</text>')
    return parts
