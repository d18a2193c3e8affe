"""A report in a notebook: a table with all of its fields, escaped."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from convert.outcome.notebook import MAX_ROWS
from convert.outcome.report import ChainStep, Report, Tensor
from convert.outcome.verdict import Divergence, OutputVerdict, SetErrors, Verdict, WeightDifference

HOSTILE = '<script>alert("1")</script>\u202e&'
SHOWN = '<script>alert("1")</script>\\u202e&'


def hostile_report() -> Report:
    """Return a report in which every text is markup."""
    output = OutputVerdict(HOSTILE, "FAIL", HOSTILE, error=2e-3, floor=1e-3, sets=[SetErrors(2e-3, 1e-3, 0.1)])
    weight = WeightDifference(HOSTILE, (2,), 2, 0.5, 0.5, 1)
    verdict = Verdict("FAIL", HOSTILE, "backend", outputs=[output, OutputVerdict("PASS", "INCONCLUSIVE")],
                      divergence=Divergence(HOSTILE, "n"), notes=[HOSTILE], weights=[weight])  # fmt: skip
    tensor = Tensor(HOSTILE, "float32", ("n", 3))
    return Report("verify", HOSTILE, HOSTILE, HOSTILE, HOSTILE, [tensor], [tensor], {HOSTILE: 3}, [tensor],
                  notes=[HOSTILE] * (MAX_ROWS + 2), bounds={"n": [4, None]}, conditions=[HOSTILE], verdict=verdict,
                  steps=[ChainStep(HOSTILE, HOSTILE, verdict)], unverified=HOSTILE)  # fmt: skip


@pytest.mark.parametrize("part", ["report", "verdict"])
def test_all_text_is_escaped_and_nothing_acts(part: str) -> None:
    done = hostile_report()
    shown = done if part == "report" else done.verdict
    assert shown is not None
    html = shown._repr_html_()
    table = ElementTree.fromstring(html)  # one element, well-formed
    assert {element.tag for element in table.iter()} <= {"table", "caption", "tbody", "tr", "th", "td", "b", "br"}
    assert {name for element in table.iter() for name in element.attrib} == {"style"}
    assert html.isprintable()
    text = "\n".join(table.itertext())
    assert "error 2.00e-03, noise floor 1.00e-03 (2.00×)" in text
    assert "not compared" in text
    assert "caused by the backend" in text
    if part == "report":
        assert f"{SHOWN}: float32[n≥4,3]" in text
        assert "and 2 more" in text
    words = [element.text for element in table.iter("b")]
    assert "PASS" not in words, "an output of that name is no verdict"
    assert words.count("FAIL") == (3 if part == "report" else 2)


def test_an_empty_report_is_a_table() -> None:
    ElementTree.fromstring(Report("inspect", "m.onnx", "onnx")._repr_html_())
