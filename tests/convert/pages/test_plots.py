"""The points of the plots are where they should be: read back from the SVG, against logarithms computed here."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest

from convert.outcome.verdict import OutputVerdict, Place
from convert.pages.plots import plot_node_errors, plot_output_errors

LEFT, RIGHT, TOP, BOTTOM = 64.0, 944.0, 16.0, 280.0
"""The corners of the drawn area in a picture of 960 by 320."""


def drawn(svg: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(re.sub(r' xmlns="[^"]+"', "", svg)).iter())


def named(svg: str, tag: str, style: str) -> list[dict[str, str]]:
    return [e.attrib for e in drawn(svg) if e.tag == tag and e.attrib.get("class") == style]


def ticks(svg: str, anchor: str) -> list[tuple[str, float, float]]:
    found = [e for e in drawn(svg) if e.tag == "text" and e.attrib.get("text-anchor") == anchor]
    number = re.compile(r"(1e-?)?\d+")  # graphs with few nodes show the operators there
    return [(e.text or "", float(e.attrib["x"]), float(e.attrib["y"])) for e in found if number.fullmatch(e.text or "")]


def height(number: float, low: int, high: int) -> float:
    """Return the height of a number: powers of ten are evenly spaced from the bottom to the top."""
    return BOTTOM - (math.log10(number) - low) / (high - low) * (BOTTOM - TOP)


def points(text: str) -> list[list[float]]:
    return [[float(n) for n in pair.split(",")] for pair in text.split()]


PLACES = [
    Place("a", "Conv", "m.a", "f.py:1", 1e-8, 2e-8),
    Place("b", "Relu", "", "", 1e-7, None),
    Place("c", "Add", "", "", 3e-7, 9e-6),
]


def test_errors_floors_and_bounds_along_the_network() -> None:
    svg = plot_node_errors(PLACES, "c")
    assert 'viewBox="0 0 960 320"' in svg
    low, high = -8, -5
    places = [LEFT, (LEFT + RIGHT) / 2, RIGHT]
    for style, factor in (("floor", 1), ("bound", 4)):
        (line,) = named(svg, "polyline", style)
        wanted = [[x, height(factor * p.floor, low, high)] for x, p in zip(places, PLACES, strict=True)]
        assert points(line["points"]) == [pytest.approx(w, abs=0.06) for w in wanted]
    (line,) = named(svg, "polyline", "error")
    shown = [[LEFT, height(2e-8, low, high)], [RIGHT, height(9e-6, low, high)]]
    assert points(line["points"]) == [pytest.approx(w, abs=0.06) for w in shown]
    (inside,), (beyond,) = named(svg, "circle", "error"), named(svg, "circle", "error beyond")
    assert [inside["data-index"], beyond["data-index"]] == ["0", "2"]
    assert [float(beyond["data-error"]), float(beyond["data-floor"])] == [9e-6, 3e-7]
    assert [float(inside["cx"]), float(inside["cy"])] == pytest.approx(shown[0], abs=0.06)
    (mark,) = named(svg, "line", "mark")
    assert [float(mark[k]) for k in ("x1", "x2", "y1", "y2")] == [RIGHT, RIGHT, TOP, BOTTOM]
    assert "Conv, a, m.a, f.py:1: error 2.000e-08, noise floor 1.000e-08" in svg
    assert named(plot_node_errors(PLACES), "line", "mark") == []


def test_scales_are_labelled() -> None:
    svg = plot_node_errors(PLACES)
    assert [(t, x) for t, x, _ in ticks(svg, "end")] == [(f"1e{n}", LEFT - 8) for n in range(-8, -4)]
    grid = named(svg, "line", "grid")
    assert [float(g["y1"]) for g in grid] == pytest.approx([height(10.0**n, -8, -5) for n in range(-8, -4)], abs=0.06)
    assert all((float(g["x1"]), float(g["x2"]), g["y1"]) == (LEFT, RIGHT, g["y2"]) for g in grid)
    assert [y for *_, y in ticks(svg, "end")] == pytest.approx([float(g["y1"]) + 4 for g in grid], abs=0.06)
    assert [(e.text, e.attrib["text-anchor"]) for e in drawn(svg) if e.text in ("Conv", "Relu", "Add")] == [
        ("Conv", "start"), ("Relu", "middle"), ("Add", "end")
    ]  # fmt: skip
    many = [Place(str(i), "Relu", "", "", 1e-8, 1e-8) for i in range(41)]
    below = ticks(plot_node_errors(many), "middle")
    assert [t for t, *_ in below] == ["0", "10", "20", "30", "40"]
    assert [x for _, x, _ in below] == pytest.approx([LEFT + i * 22 for i in (0, 10, 20, 30, 40)])
    assert {y for *_, y in below} == {304.0}


def test_a_wide_range_has_fewer_grid_lines() -> None:
    places = [Place("a", "Relu", "", "", 1e-16, 1.0), Place("b", "Relu", "", "", 1e-16, 1e-9)]
    labels = [t for t, *_ in ticks(plot_node_errors(places), "end")]
    assert labels == [f"1e{n}" for n in range(-16, 1, 2)]


def test_one_node_and_errors_of_zero() -> None:
    svg = plot_node_errors([Place("a", "Relu", "", "", 1e-8, 0.0)])
    (point,) = named(svg, "circle", "error")
    assert float(point["cx"]) == LEFT
    assert float(point["cy"]) == BOTTOM, "zero is drawn at the bottom"
    assert drawn(plot_node_errors([]))
    for power in (-7, -8):
        flat = plot_node_errors([Place("a", "Relu", "", "", 10.0**power, 10.0**power)])
        assert [t for t, *_ in ticks(flat, "end")] == [f"1e{power + n}" for n in (-1, 0, 1)]
    assert float(named(flat, "circle", "error")[0]["cy"]) == pytest.approx((TOP + BOTTOM) / 2)


def row(name: str, error: float, floor: float, status: str = "PASS") -> OutputVerdict:
    return OutputVerdict(name, status, "", error, floor)


def across(number: float, low: int, high: int) -> float:
    """Return the horizontal position: powers of ten are evenly spaced from the end of the names to the right."""
    return 216 + (math.log10(number) - low) / (high - low) * (RIGHT - 216)


def test_bars_of_the_outputs() -> None:
    rows = [row("scores", 1e-6, 1e-7, "FAIL"), row("a name of an output that is too long", 3e-8, 1e-7)]
    svg = plot_output_errors(rows)
    assert 'viewBox="0 0 960 116"' in svg, "as high as there are outputs"
    low, high = -8, -6
    (bad,), (good,) = named(svg, "rect", "bar beyond"), named(svg, "rect", "bar")
    for i, (bar, error) in enumerate(((bad, 1e-6), (good, 3e-8))):
        top = TOP + 30 * i
        assert [float(bar[k]) for k in ("x", "y", "height")] == [216, top + 8, 14]
        assert float(bar["width"]) == pytest.approx(across(error, low, high) - 216, abs=0.06)
        assert float(bar["data-error"]) == error
        for style, number in (("floor", 1e-7), ("bound", 4e-7)):
            at = across(number, low, high)
            wanted = [pytest.approx([at, y], abs=0.06) for y in (top + 3, top + 27)]
            assert points(named(svg, "polyline", style)[i]["points"]) == wanted
    labels = [(e.text, e.attrib["x"], e.attrib["y"]) for e in drawn(svg) if e.attrib.get("class") == "label"]
    assert labels == [("scores", "208", "35"), ("a name of an output that is…", "208", "65")]
    assert [(t, x) for t, x, _ in ticks(svg, "middle")] == [
        (f"1e{n}", pytest.approx(across(10.0**n, low, high), abs=0.06)) for n in (-8, -7, -6)
    ]
    assert "scores: error 1.000e-06, noise floor 1.000e-07" in svg


def test_of_many_outputs_the_worst_have_bars() -> None:
    rows = [row(f"y{i}", 1e-9 if i == 3 else 1e-8, 1e-8) for i in range(41)]
    labels = [e.text for e in drawn(plot_output_errors(rows)) if e.attrib.get("class") == "label"]
    assert labels == [f"y{i}" for i in range(41) if i != 3]
    assert named(plot_output_errors([]), "rect", "bar") == []


def test_an_infinite_error_reaches_the_end_and_no_floor_has_no_line() -> None:
    svg = plot_output_errors([row("y", math.inf, 0.0, "FAIL"), row("z", 1e-7, 1e-8)])
    (bad,) = named(svg, "rect", "bar beyond")
    assert float(bad["x"]) + float(bad["width"]) == RIGHT
    assert len(named(svg, "polyline", "floor")) == len(named(svg, "polyline", "bound")) == 1
