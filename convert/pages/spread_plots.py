"""Plots of the elements of one output as inline SVG: a histogram of their errors, and source against target."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from convert.outcome.text import escape, visible
from convert.outcome.verdict import OutputVerdict, Spread
from convert.parity.compare.spread import MAX_POINTS, STEPS, WORST_POINTS

from .template import cell, number_cell, table

_WIDTH, _HEIGHT = 480, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 68, 20, 16, 44
_APART = 0.01
"""Points at least this far from the diagonal, relative to the span of the numbers, have the color of a FAIL."""

_TICK = 44
"""Distance between the labels of an axis."""

MAX_OUTPUTS = 8
"""Outputs that are drawn, those that failed first."""


def spread_plots(rows: Sequence[OutputVerdict]) -> str:
    """Return both plots of each output, or the reason why there are none. rows: the outputs in the order of drawing."""
    shown = [row for row in rows if row.spread is not None]
    if not shown:
        return (
            '<p id="no-spread">There is no plot of the elements: the report of this verdict has no sample of them.</p>'
        )
    parts = [_output(row, place) for place, row in enumerate(shown[:MAX_OUTPUTS])]
    if len(shown) > MAX_OUTPUTS:
        parts.append(f'<p class="soft">{len(shown) - MAX_OUTPUTS} more outputs are not drawn.</p>')
    return "".join(parts)


def _output(row: OutputVerdict, place: int) -> str:
    head = f"<h3>{escape(visible(row.name))}</h3>"
    spread = row.spread
    if not isinstance(spread, Spread):
        return f'{head}<p class="no-plot">There is no plot: {escape(str(spread))}.</p>'
    sample = f"all {spread.elements:,} elements"
    if spread.elements > MAX_POINTS:
        sample = f"{len(spread.points):,} of {spread.elements:,} elements, the {WORST_POINTS} furthest off among them"
    return (
        f'{head}<div class="pair"><figure>{histogram(spread, f"histogram-{place}")}<figcaption class="soft">'
        "Elements by error, relative to the rms of the reference: bars are the target, the line is the source as "
        f"deployed.</figcaption></figure><figure>{scatter(spread, f'scatter-{place}')}"
        f'<figcaption class="soft">Source across, target up: {sample}.</figcaption></figure></div>'
        + _values_table(spread, place)
    )


_COLUMNS = ("mean", "deviation", "least", "median", "greatest")


def _values_table(spread: Spread, place: int) -> str:
    """Return a table of statistics of both sides' numbers, over all sets."""
    if not spread.values:
        return ""
    rows = [
        [
            cell(side),
            *(number_cell(f"{found[n]:.6g}", found[n]) for n in _COLUMNS),
            number_cell(f"{found['nonfinite']:,.0f}"),
        ]
        for side, found in spread.values.items()
    ]
    head = ("values", "mean", "standard deviation", "least", "median", "greatest", "not finite")
    return table(f"values-{place}", head, rows)


def histogram(spread: Spread, identity: str) -> str:
    """Return a plot of how many elements have which error, both on logarithmic scales; the first bin holds exact
    elements.
    """
    bins = len(spread.target)
    width = (_WIDTH - _LEFT - _RIGHT) / bins
    most = max(1, *spread.target, *spread.source)
    decades = math.log10(most) + 1  # a single element is one decade high
    bottom = _HEIGHT - _BOTTOM

    def top(count: int) -> float:
        return bottom - (math.log10(count) + 1) / decades * (bottom - _TOP) if count else bottom

    parts = [*_count_ticks(most, top), *_error_ticks(spread, width)]
    for i, count in enumerate(spread.target):
        if count:
            x, y = _LEFT + i * width, top(count)
            title = f"{count:,} elements of the target with {_bin_text(spread, i)}"
            parts.append(
                f'<rect class="bar" data-count="{count}" x="{x + 1:.1f}" y="{y:.1f}" width="{max(width - 2, 1):.1f}" '
                f'height="{bottom - y:.1f}"><title>{escape(title)}</title></rect>'
            )
    steps = [(x, top(c)) for i, c in enumerate(spread.source) for x in (_LEFT + i * width, _LEFT + (i + 1) * width)]
    parts.append(f'<polyline class="floor" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in steps)}"/>')
    return _svg(identity, "histogram of the errors", parts)


def _bin_text(spread: Spread, place: int) -> str:
    if place == 0:
        return "no error"
    low = spread.low + (place - 1) / STEPS
    return f"errors from {10**low:.1e} to {10 ** (low + 1 / STEPS):.1e}"


def _count_ticks(most: int, top: Callable[[int], float]) -> list[str]:
    parts = []
    for power in range(0, int(math.log10(most)) + 1, max(1, int(math.log10(most)) // 4)):
        y = top(10**power)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        text = f"{10**power:,}" if power < 4 else f"1e{power}"
        parts.append(f'<text class="tick" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    return parts


def _error_ticks(spread: Spread, width: float) -> list[str]:
    powers, y = (len(spread.target) - 1) // STEPS, _HEIGHT - _BOTTOM + 16
    step = max(1, math.ceil(_TICK / (STEPS * width)))
    places = {_LEFT + width / 2: "0"}
    places |= {_LEFT + (1 + p * STEPS) * width: f"1e{spread.low + p}" for p in range(powers, -1, -step)}
    return [
        f'<text class="tick" x="{x:.1f}" y="{y}" text-anchor="middle">{text}</text>'
        for x, text in places.items()
        if text == "0" or x > _LEFT + width / 2 + _TICK / 2
    ]


def scatter(spread: Spread, identity: str) -> str:
    """Return a scatter plot of the sample, with the diagonal on which the points should lie. All points are one SVG
    path.
    """
    numbers = [number for point in spread.points for number in point]
    low, high = min(numbers), max(numbers)
    span = (high - low) or abs(high) or 1.0
    low, span = low - 0.03 * span, 1.06 * span

    def x(number: float) -> float:
        return _LEFT + (number - low) / span * (_WIDTH - _LEFT - _RIGHT)

    def y(number: float) -> float:
        return _HEIGHT - _BOTTOM - (number - low) / span * (_HEIGHT - _BOTTOM - _TOP)

    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    parts = []
    for share in (0.03, 0.5, 0.97):
        number = low + share * span
        at, text = y(number), f"{number:.2g}"
        parts += [
            f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}"/>',
            f'<text class="tick" x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{text}</text>',
            f'<text class="tick" x="{x(number):.1f}" y="{bottom + 16}" text-anchor="middle">{text}</text>',
        ]
    parts.append(f'<line class="diagonal" x1="{_LEFT}" y1="{bottom}" x2="{right}" y2="{_TOP}"/>')
    for name, apart in (("dots", False), ("dots beyond", True)):
        kept = [(a, b) for a, b in spread.points if (abs(a - b) > _APART * span) is apart]
        path = "".join(f"M{a} {b}h0" for a, b in sorted({(f"{x(a):.1f}", f"{y(b):.1f}") for a, b in kept}))
        parts += [f'<path class="{name}" data-points="{len(kept)}" d="{path}"/>'] if kept else []
    return _svg(identity, "source against target", parts)


def _svg(identity: str, title: str, parts: Iterable[str]) -> str:
    return (
        f'<svg class="plot" id="{identity}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}" '
        f'xmlns="http://www.w3.org/2000/svg">' + "".join(parts) + "</svg>"
    )
