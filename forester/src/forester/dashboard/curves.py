"""Small curves of 24 hours as data for SVG; no I/O."""

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 288, 44
_TOP = 3


@dataclass(frozen=True)
class Curve:
    """A curve in a box of WIDTH by HEIGHT: path data of its line and of the area below it, and a text for it.

    A value alone, without neighbours, is a point of the line. ``is_empty`` is true without any value.
    """

    line: str
    area: str
    text: str
    is_empty: bool


def curve(values: Sequence[float | None], name: str, unit: str, *, from_zero: bool = True) -> Curve:
    """Return the curve of values at equal distances, the last one now; None is a gap. Finite values only."""
    known = [value for value in values if value is not None]
    if not known:
        return Curve("", "", f"{name}: no values yet", True)
    low = min(0.0, *known) if from_zero else min(known)
    high = max(known)
    if high == low and not from_zero:
        low -= 0.5  # a value that does not change is a line in the middle
        high = low + 1
    span = (high - low) or 1.0
    step = WIDTH / max(1, len(values) - 1)
    lines, areas = [], []
    for run in _runs(values):
        points = [
            (f"{index * step:.1f}", f"{HEIGHT - (HEIGHT - _TOP) * (value - low) / span:.1f}") for index, value in run
        ]
        if len(points) == 1:
            points.append((f"{float(points[0][0]) + 0.1:.1f}", points[0][1]))
        path = "L".join(f"{x} {y}" for x, y in points)
        lines.append(f"M{path}")
        areas.append(f"M{points[0][0]} {HEIGHT}L{path}L{points[-1][0]} {HEIGHT}Z")
    digits = 0 if max(known) >= 10 or all(value == int(value) for value in known) else 4
    text = (
        f"{name} of the last 24 hours: {known[-1]:.{digits}f} {unit} at the end, "
        f"minimum {min(known):.{digits}f}, maximum {max(known):.{digits}f}"
    )
    return Curve("".join(lines), "".join(areas), text, False)


def _runs(values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    runs: list[list[tuple[int, float]]] = [[]]
    for index, value in enumerate(values):
        if value is not None:
            runs[-1].append((index, value))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def added(columns: Sequence[Sequence[int | None]]) -> list[float | None]:
    """Return the sums of columns of equal length, point by point; a point without any value has none."""
    return [_sum(values) for values in zip(*columns, strict=True)]


def _sum(values: Sequence[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(sum(known)) if known else None
