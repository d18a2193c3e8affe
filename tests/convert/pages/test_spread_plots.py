"""Histogram and scatter plot of an output: they hold what was counted, are bounded, and say why they are absent."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest

from convert.batch.worker import OUTCOMES
from convert.outcome.report import Report
from convert.outcome.verdict import FAIL, INCONCLUSIVE, PASS, OutputVerdict, Spread, Verdict
from convert.pages import zoo
from convert.pages.from_json import report_from_json
from convert.pages.spread_plots import MAX_OUTPUTS, spread_plots
from convert.pages.template import cell, table
from convert.pages.verification import page
from convert.parity.compare.spread import MAX_POINTS, spread_of


def row(name: str, size: int = 50, status: str = PASS, off: float = 1e-6) -> OutputVerdict:
    exact = np.random.default_rng(1).standard_normal(size)
    found = spread_of([exact], [exact.astype(np.float32)], [exact + off])
    return OutputVerdict(name, status, "why", 1e-6, 1e-7, spread=found)


def figures(text: str) -> dict[str, ET.Element]:
    found = re.findall(r'<svg class="plot" id="([a-z]+-\d+)".*?</svg>', text, re.DOTALL)
    return {
        name: ET.fromstring(match[0])
        for name in found
        if (match := re.search(rf'<svg class="plot" id="{name}".*?</svg>', text, re.DOTALL))
    }


def test_a_table_says_what_the_numbers_of_both_sides_are_like() -> None:
    text = spread_plots([row("y", off=0.5)])
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", text)
    (source, *numbers), (target, *others) = cells[:7], cells[7:]
    assert (source, target) == ("source", "target")
    assert float(others[0]) == pytest.approx(float(numbers[0]) + 0.5, abs=1e-5)
    older = row("y")
    assert isinstance(older.spread, Spread)
    # A journal that was written before there were statistics has none.
    older = replace(older, spread=replace(older.spread, values={}))
    assert "values-0" not in spread_plots([older])


def test_the_plots_hold_every_element() -> None:
    plots = figures(spread_plots([row("y")]))
    bars = [int(e.attrib["data-count"]) for e in plots["histogram-0"].iter() if "data-count" in e.attrib]
    points = [int(e.attrib["data-points"]) for e in plots["scatter-0"].iter() if "data-points" in e.attrib]
    assert (sum(bars), sum(points)) == (50, 50)


def test_elements_that_are_far_off_are_drawn_as_a_failure() -> None:
    (path,) = (e for e in figures(spread_plots([row("y", off=0.5)]))["scatter-0"].iter() if "data-points" in e.attrib)
    assert path.attrib["class"] == "dots beyond"


@pytest.mark.slow
def test_a_huge_output_stays_small_and_says_so() -> None:
    text = spread_plots([row("y", 3_000_000)])
    assert len(text) < 80_000
    assert "of 3,000,000 elements" in text
    assert int(re.findall(r"target up: ([\d,]+) of", text)[0].replace(",", "")) <= MAX_POINTS


def test_of_many_outputs_the_first_are_drawn() -> None:
    text = spread_plots([row(f"y{i}") for i in range(MAX_OUTPUTS + 3)])
    assert text.count("<h3>") == MAX_OUTPUTS
    assert "3 more outputs are not drawn" in text


def test_it_says_why_there_is_no_plot() -> None:
    words = np.array(["a"])
    text = spread_plots([OutputVerdict("label", spread=spread_of([words], [words], [words]))])
    assert "There is no plot: the output holds text." in text
    assert "no sample" in spread_plots([OutputVerdict("y")])


def test_failures_come_first_and_inconclusive_is_no_failure() -> None:
    rows = [row("good"), row("unsure", status=INCONCLUSIVE), row("wrong", status=FAIL)]
    text = page(Report("verify", source="a", target="b", verdict=Verdict(FAIL, "why", outputs=rows)))
    assert re.findall(r"<h3>(\w+)</h3>", text) == ["wrong", "unsure", "good"]
    listed = re.findall(r'class="(FAIL|INCONCLUSIVE|PASS)" data-label="verdict"', text)
    assert listed == [FAIL, INCONCLUSIVE, PASS]
    colors = dict(re.findall(r"\.(FAIL|INCONCLUSIVE)[^{]*\{ color: (var\(--\w+\))", text))
    assert len(set(colors.values())) == 2


def test_a_page_from_json_has_the_plots() -> None:
    done = Report("verify", source="a", target="b", verdict=Verdict(PASS, outputs=[row("y")]))
    assert page(report_from_json(done.to_dict())).count("data-count") == page(done).count("data-count") > 0


def record(outcome: str) -> dict[str, object]:
    return {"name": outcome, "format": "onnx", "outcome": outcome, "seconds": 1.0, "peak": 1, "error": {}}


def test_a_batch_shows_failures_first() -> None:
    assert "inconclusive" in OUTCOMES.values()
    summary = {"ok": False, "outcomes": {}, "causes": [], "unsupported": {}}
    made = zoo._page([record(o) for o in ("verified", "inconclusive", "mismatch")], ["", "", ""], summary, "")
    shown = re.findall(r'<td class="(good|unsure|bad)"', made.text())
    assert (shown, made.status) == (["bad", "unsure", "good"], "FAIL")
    made = zoo._page([record(o) for o in ("verified", "inconclusive")], ["", ""], summary, "")
    assert (made.status, made.style) == (INCONCLUSIVE, INCONCLUSIVE)


def test_a_column_without_text_is_left_out() -> None:
    made = table("t", ("name", "module", "why"), [[cell("a"), cell(""), cell("x")], [cell("b"), cell(""), cell("")]])
    assert "module" not in made
    assert made.count("<td") == 4
