"""A line over time as an SVG file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP = 720, 300, 60, 45, 30
_TICKS = 6
_STEP = 10
"""Labels of the grid lines are multiples of this."""
_FONT = 'font-family="sans-serif" font-size="12"'


@dataclass(frozen=True)
class Series:
    """Points (x, y) in order of x, with at least two different x; the axes begin at zero."""

    title: str
    x_name: str
    y_name: str
    points: Sequence[tuple[float, float]]


def write_chart(path: Path, series: Series) -> None:
    """Draw the series."""
    most_x = max(x for x, _ in series.points)
    most_y = _TICKS * _STEP * math.ceil(1.1 * max(y for _, y in series.points) / _TICKS / _STEP)

    def place(x: float, y: float) -> tuple[float, float]:
        width, height = _WIDTH - _LEFT - 15, _HEIGHT - _TOP - _BOTTOM
        return round(_LEFT + width * x / most_x, 1), round(_TOP + height * (1 - y / most_y), 1)

    line = " ".join(f"{x},{y}" for x, y in (place(*point) for point in series.points))
    left, bottom = place(0, 0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" {_FONT}>',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="18" font-size="14">{escape(series.title)}, {escape(series.y_name)}</text>',
        f'<text x="{_WIDTH // 2}" y="{_HEIGHT - 8}">{escape(series.x_name)}</text>',
    ]
    for step in range(_TICKS + 1):
        x, y = most_x * step / _TICKS, most_y * step / _TICKS
        (at_x, _), (_, at_y) = place(x, 0), place(0, y)
        parts.append(f'<line x1="{left}" x2="{_WIDTH - 15}" y1="{at_y}" y2="{at_y}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 8}" y="{at_y + 4}" text-anchor="end">{y:.0f}</text>')
        parts.append(f'<text x="{at_x}" y="{bottom + 16}" text-anchor="middle">{x:.0f}</text>')
    parts.append(f'<polyline points="{line}" fill="none" stroke="#1f6fb2" stroke-width="1.5"/></svg>')
    path.write_text("\n".join(parts) + "\n")
