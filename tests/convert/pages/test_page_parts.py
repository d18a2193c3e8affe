"""A report page shows each field of a verdict; the text is read back from the page."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from convert.errors import ConvertError
from convert.outcome.notes import Note
from convert.outcome.report import ChainStep, Report
from convert.outcome.verdict import FAIL, PASS, Divergence, Element, OutputVerdict, Place, Verdict
from convert.pages.verification import page


def done(**fields: object) -> Report:
    return Report("verify", "a.onnx", "onnx", "b.tf", "tensorflow", **fields)  # type: ignore[arg-type]


def root(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(re.sub(r' xmlns="[^"]+"', "", text.removeprefix("<!DOCTYPE html>\n")))


def table(text: str, identity: str) -> list[list[str]]:
    """Return the cells of the table with this id, with the heading first if there is one."""
    found = next((t for t in root(text).iter("table") if t.attrib["id"] == identity), None)
    return [] if found is None else [["".join(c.itertext()) for c in row] for row in found.iter("tr")]


def styles(text: str, identity: str) -> list[list[str]]:
    found = next(t for t in root(text).iter("table") if t.attrib["id"] == identity)
    return [[c.attrib.get("class", "") for c in row] for row in found.iter("tr")]


def words(text: str) -> str:
    """Return the visible text; each block is a sentence."""
    found = root(text)
    blocks = ("".join(e.itertext()) for e in found.iter() if e.tag in ("h1", "h2", "p", "li", "td", "th", "pre", "dd"))
    return " ".join(" ".join(blocks).split())


ROWS = [
    OutputVerdict("scores", FAIL, "far <off>", 3e-4, 1e-4, 2e-10, 5e-3),
    OutputVerdict("same", PASS, "", 0.0, 0.0),
]


def test_outputs_with_their_numbers() -> None:
    text = page(done(verdict=Verdict(FAIL, "scores: far <off>", "backend", "the source in float64", outputs=ROWS)))
    head, scores, same = table(text, "outputs-table")
    assert head == ["output", "verdict", "error", "noise floor", "ratio", "graph in float64", "worst element", "why"]
    assert scores == ["scores", "FAIL", "3.00e-04", "1.00e-04", "3.00", "2.00e-10", "5.00e-03", "far <off>"]
    assert same == ["same", "PASS", "0.00e+00", "0.00e+00", "–", "–", "0.00e+00", ""]
    assert styles(text, "outputs-table") == [
        ["", "", *["number"] * 5, ""], ["", "FAIL", *["number"] * 5, ""], ["", "PASS", *["number"] * 5, ""]
    ]  # fmt: skip
    plots = [s.attrib["id"] for s in root(text).iter("svg")]
    assert plots == ["outputs"]
    bars = list(root(text).iter("rect"))
    assert len(bars) == 1, "an output without error and floor has no bar"
    assert "scores: far <off> The backend is at fault." in words(text)
    assert "Reference: the source in float64." in words(text)
    assert "onnx against tensorflow." in words(text)


def test_a_verdict_without_outputs_has_no_table_of_them() -> None:
    text = page(done(verdict=Verdict(FAIL, "the target did not run")))
    assert table(text, "outputs-table") == []
    assert list(root(text).iter("svg")) == []
    assert "is at fault" not in text
    assert "Reference" not in text
    assert "stores numbers" not in text
    clean = page(done(verdict=Verdict(PASS, outputs=[OutputVerdict("y")])))
    assert len(table(clean, "outputs-table")) == 2
    assert list(root(clean).iter("svg")) == []
    assert "The target stores numbers as int8." in page(done(verdict=Verdict(PASS, stored="int8")))


@pytest.mark.parametrize(
    ("report", "error", "title"),
    [
        (done(verdict=Verdict(PASS)), None, "PASS: a.onnx → b.tf"),
        (done(verdict=Verdict(PASS, outputs=ROWS[1:])), None, "PASS: 1 output agrees – a.onnx → b.tf"),
        (
            done(verdict=Verdict(PASS, outputs=[OutputVerdict("a", error=3.0, floor=2.0), *ROWS[1:]])),
            None,
            "PASS: 2 outputs agree, 1.50 × the noise floor at most – a.onnx → b.tf",
        ),
        (
            done(verdict=Verdict(FAIL, "weights differ: 2 of 61 tensors (a, b); y: far off", "backend")),
            None,
            "FAIL: weights differ: 2 of 61 tensors – a.onnx → b.tf",
        ),
        (done(unverified="it was not asked for"), None, "UNVERIFIED: a.onnx → b.tf"),
        (done(), ConvertError("the disk is full"), "ERROR: the disk is full – a.onnx → b.tf"),
    ],
)
def test_titles(report: Report, error: ConvertError | None, title: str) -> None:
    text = page(report, error)
    found = next(root(text).iter("title")).text
    assert found == title
    (status,) = [e for e in root(text).iter("span") if e.attrib.get("id") == "verdict"]
    assert status.text == title.split(":")[0]
    assert status.attrib["class"] == f"verdict {status.text}"
    reason = report.verdict.reason if report.verdict else ""
    assert (error.message if error else report.unverified or reason) in words(text)
    assert text.startswith("<!DOCTYPE html>\n<html")
    assert text.endswith("</body></html>\n")


def test_worst_elements_and_feeds() -> None:
    row = OutputVerdict("y", FAIL, elements=[Element((0, 3), 1.0 / 3, 0.5, 0.25, "seed 1")])
    text = page(done(verdict=Verdict(FAIL, outputs=[OutputVerdict("x"), row], feeds=["seed <0>", "seed 1"])))
    assert table(text, "elements") == [
        ["output", "index", "reference", "target", "relative error", "inputs"],
        ["y", "[0, 3]", "0.333333333", "0.5", "2.50e-01", "seed 1"],
    ]
    assert styles(text, "elements")[1] == ["", "", "number", "number", "number", ""]
    assert [e.text for e in root(text).iter("li")] == ["seed <0>", "seed 1"]
    assert table(page(done(verdict=Verdict(PASS, outputs=[row.__class__("y")]))), "elements") == []


def test_the_first_node_that_departs() -> None:
    place = Divergence("Conv", "n1", "net.a", "f.py:3", ["1 to 2", "3 to 4"], "5 to 6", "7 to 8")
    text = page(done(verdict=Verdict(FAIL, divergence=place)))
    assert table(text, "place") == [
        ["operator", "Conv, node n1"], ["module", "net.a"], ["source line", "f.py:3"],
        ["input", "1 to 2"], ["input", "3 to 4"], ["output", "5 to 6"], ["instead", "7 to 8"],
    ]  # fmt: skip
    short = page(done(verdict=Verdict(FAIL, divergence=Divergence("Conv", "n1", output="5 to 6"))))
    assert table(short, "place") == [["operator", "Conv, node n1"], ["output", "5 to 6"]]
    told = page(done(verdict=Verdict(FAIL, divergence="it cannot be read back")))
    assert "it cannot be read back" in words(told)
    assert table(told, "place") == table(page(done(verdict=Verdict(PASS))), "place") == []


def test_along_the_network() -> None:
    places = [Place("n0", "Relu", "", "", 1e-8, 1e-8), Place("n1", "Conv", "", "", 1e-8, None)]
    verdict = Verdict(FAIL, profile=places, divergence=Divergence("Conv", "n1"))
    text = page(done(verdict=verdict))
    assert [s.attrib["id"] for s in root(text).iter("svg")] == ["profile"]
    assert "2 nodes in order; 1 have no counterpart" in words(text)
    assert len([e for e in root(text).iter("line") if e.attrib["class"] == "mark"]) == 1
    verdict = replace(verdict, divergence="n1")
    assert not [e for e in root(page(done(verdict=verdict))).iter("line") if e.attrib["class"] == "mark"]
    for profile, why in ((None, "errors at the nodes were not computed"), ("it died", "it died")):
        text = page(done(verdict=Verdict(PASS, profile=profile)))
        (told,) = [e.text for e in root(text).iter("p") if e.attrib.get("id") == "no-profile"]
        assert told == f"There is no plot: {why}."


def test_steps_of_a_chain_show_their_largest_error() -> None:
    outputs = [OutputVerdict("a", error=1e-6, floor=1e-7), OutputVerdict("b", error=2e-6, floor=3e-7)]
    good = ChainStep("a", "b", Verdict(PASS, outputs=outputs))
    bad = ChainStep("b", "c", Verdict(FAIL, "why"))
    text = page(done(steps=[good, bad]))
    assert table(text, "steps") == [
        ["step", "verdict", "largest error", "noise floor", "why"],
        ["a → b", "PASS", "2.00e-06", "3.00e-07", ""],
        ["b → c", "FAIL", "–", "–", "why"],
    ]
    assert styles(text, "steps")[2] == ["", "FAIL", "number", "number", ""]
    assert table(page(done()), "steps") == []


def test_the_model_its_notes_and_how_to_do_it_again() -> None:
    report = done(
        operators={"Conv": 1000, "Relu": 234},
        parameters=12345,
        notes=[Note("a < b", "renamed")],
        reproduce="convert 'x'",
    )
    report.seconds = {"read": 1.234, "write": 0.5}
    text = page(report)
    assert ["nodes", "1,234 of 2 operators"] in table(text, "model")
    assert ["parameters", "12,345"] in table(text, "model")
    assert [e.text for e in root(text).iter("li")] == ["a < b [action: renamed]"]
    assert [e.text for e in root(text).iter("pre")] == ["convert 'x'"]
    assert ["time", "read 1.23 s, write 0.50 s"] in table(text, "environment")
    bare = page(done())
    assert "Notes" not in bare
    assert "To reproduce" not in bare
    assert not [row for row in table(bare, "environment") if row[0] == "time"]
