"""Plots as inline SVG, coloured by the page's style sheet; every point carries its numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from convert.outcome.text import escape
from convert.outcome.verdict import OutputVerdict, Place
from convert.parity.compare.outputs import FACTOR

_WIDTH, _HEIGHT = 960, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 16, 40
_ZERO = 1e-17  # where an error of exactly zero is drawn
_ROW, _NAMES, _LONGEST_NAME = 30, 216, 28  # the bars of the outputs: height of a row, left edge, and width of the names
_MOST_LABELS, _LONGEST_LABEL = 12, 12
MAX_BARS = 40

Scale: TypeAlias = Callable[[float], float]
"""Maps a number to its coordinate in a plot."""


def plot_node_errors(places: Sequence[Place], first: str = "") -> str:
    """Return a plot of errors and noise floors over the nodes in order, on a logarithmic scale. first: the first node
    that differs.
    """
    numbers = [max(p.floor, _ZERO) for p in places] + [max(p.error, _ZERO) for p in places if p.error is not None]
    low, high = _decade_range(numbers)
    x, y = _linear_scale(0, max(len(places) - 1, 1), _LEFT, _WIDTH - _RIGHT), _log_scale(low, high)
    floor = [(x(i), y(p.floor)) for i, p in enumerate(places)]
    bound = [(x(i), y(FACTOR * p.floor)) for i, p in enumerate(places)]
    parts = [*_frame(low, high, y, x, places), _line("floor", floor), _line("bound", bound)]
    parts.append(_line("error", [(x(i), y(p.error)) for i, p in enumerate(places) if p.error is not None]))
    for i, place in enumerate(places):
        if place.node == first:
            parts.append(f'<line class="mark" x1="{x(i):.1f}" x2="{x(i):.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}"/>')
        if place.error is not None:
            beyond = " beyond" if place.error > FACTOR * place.floor else ""
            parts.append(
                _point(f"error{beyond}", x(i), y(place.error), i, place.error, place.floor, _place_text(place))
            )
    return _svg("profile", "errors and noise floors along the network", parts)


def plot_output_errors(rows: Sequence[OutputVerdict]) -> str:
    """Return a plot of each output's error as a bar, with its noise floor and its bound, on a logarithmic scale.

    The height depends on the number of outputs. If there are more than `MAX_BARS`, those with the largest ratio of
    error to noise floor are shown.
    """
    shown = sorted(rows, key=lambda r: r.error / max(r.floor, _ZERO), reverse=True)[:MAX_BARS]
    shown = [row for row in rows if row in shown]
    numbers = [max(n, _ZERO) for row in shown for n in (row.error, row.floor, FACTOR * row.floor)]
    low, high = _decade_range(n for n in numbers if math.isfinite(n))
    bottom = _TOP + len(shown) * _ROW
    x = _log_scale(low, high, _NAMES, _WIDTH - _RIGHT)
    parts = []
    for power in _powers(low, high):
        at = f"{x(10.0**power):.1f}"
        parts.append(f'<line class="grid" x1="{at}" x2="{at}" y1="{_TOP}" y2="{bottom}"/>')
        parts.append(f'<text class="tick" x="{at}" y="{bottom + 18}" text-anchor="middle">1e{power}</text>')
    for i, row in enumerate(shown):
        top, end = _TOP + i * _ROW, x(min(row.error, 10.0**high))
        kind = " beyond" if row.status == "FAIL" else ""
        text = f"{row.name}: error {row.error:.3e}, noise floor {row.floor:.3e}"
        parts.append(
            f'<text class="label" x="{_NAMES - 8}" y="{top + 19}" text-anchor="end">{escape(_trimmed(row.name))}</text>'
            f'<rect class="bar{kind}" data-error="{row.error!r}" x="{_NAMES}" y="{top + 8}" '
            f'width="{max(end - _NAMES, 1):.1f}" height="{_ROW - 16}"><title>{escape(text)}</title></rect>'
        )
        for name, number in (("floor", row.floor), ("bound", FACTOR * row.floor)):
            if number > 0:
                parts.append(_line(name, [(x(number), top + 3), (x(number), top + _ROW - 3)]))
    return _svg("outputs", "errors of the outputs", parts, bottom + _BOTTOM)


def _trimmed(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"


def _place_text(place: Place) -> str:
    where = ", ".join(filter(None, (place.operator, place.node, place.module, place.source)))
    return f"{where}: error {place.error:.3e}, noise floor {place.floor:.3e}"


def _decade_range(numbers: Iterable[float]) -> tuple[int, int]:
    logs = [math.log10(n) for n in numbers if n > 0 and math.isfinite(n)] or [-8.0]
    low, high = math.floor(min(logs)), math.ceil(max(logs))
    return (low, high) if high > low else (low - 1, high + 1)


def _linear_scale(low: float, high: float, start: float, end: float) -> Scale:
    return lambda number: start + (number - low) / (high - low) * (end - start)


def _log_scale(low: int, high: int, start: float = _HEIGHT - _BOTTOM, end: float = _TOP) -> Scale:
    place = _linear_scale(low, high, start, end)
    return lambda number: place(min(max(math.log10(max(number, _ZERO)), low), high))


def _powers(low: int, high: int) -> range:
    return range(low, high + 1, max(1, (high - low) // 8))


def _frame(low: int, high: int, y: Scale, x: Scale, places: Sequence[Place]) -> list[str]:
    parts = []
    for power in _powers(low, high):
        height = y(10.0**power)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{height:.1f}" y2="{height:.1f}"/>')
        parts.append(f'<text class="tick" x="{_LEFT - 8}" y="{height + 4:.1f}" text-anchor="end">1e{power}</text>')
    count = len(places)
    few = count <= _MOST_LABELS
    shown = range(count) if few else sorted({0, count // 4, count // 2, 3 * count // 4, count - 1})
    for i in shown:
        text = places[i].operator.rpartition("::")[2][:_LONGEST_LABEL] if few else str(i)
        anchor = "start" if few and i == 0 else "end" if few and i == count - 1 else "middle"
        parts.append(
            f'<text class="tick" x="{x(i):.1f}" y="{_HEIGHT - 16}" text-anchor="{anchor}">{escape(text)}</text>'
        )
    return parts


def _line(name: str, points: Sequence[tuple[float, float]]) -> str:
    listed = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    return f'<polyline class="{name}" points="{listed}"/>'


def _point(name: str, x: float, y: float, index: int, error: float, floor: float, text: str) -> str:
    return (
        f'<circle class="{name}" cx="{x:.1f}" cy="{y:.1f}" r="3" data-index="{index}" data-error="{error!r}" '
        f'data-floor="{floor!r}"><title>{escape(text)}</title></circle>'
    )


def _svg(identity: str, title: str, parts: Iterable[str], height: int = _HEIGHT) -> str:
    return (
        f'<svg class="plot" id="{identity}" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}" '
        f'xmlns="http://www.w3.org/2000/svg">' + "".join(parts) + "</svg>"
    )
