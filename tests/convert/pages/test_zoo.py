"""The page of a batch and the pages of its models, read back from the files."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from convert.batch import show
from convert.cli.render import error_json
from convert.errors import Location, Problem, Unsupported, UsageError
from convert.outcome.report import ChainStep, Report, Tensor
from convert.outcome.verdict import Divergence, Element, OutputVerdict, SetErrors, Verdict, WeightDifference
from convert.pages import zoo
from convert.pages.from_json import report_from_json


def root(path: Path) -> ElementTree.Element:
    return ElementTree.fromstring(re.sub(r' xmlns="[^"]+"', "", path.read_text().removeprefix("<!DOCTYPE html>\n")))


def record(name: str, outcome: str, report: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "source": f"zoo/{name}", "format": "onnx", "output": f"out/{name}.onnx", "seconds": 1.5,
            "peak": 3 << 20, "attempts": 1, "reason": "why", "report": report, "outcome": outcome}  # fmt: skip


FULL = Verdict(
    "FAIL",
    "y: far off",
    "backend",
    "the source in float64",
    ["seed 0"],
    [OutputVerdict("y", "FAIL", "far", math.inf, 1e-7, 1e-15, math.inf, None, [Element((1,), 0.5, math.nan, 1.0, "f")],
                   [SetErrors(1.0, 0.5, 2.0)])],
    Divergence("Conv", "n1", "m", "f.py:3", ["a"], "b"),
    weights=[WeightDifference("w", (2, 3), 6, 0.5, 1.0, 2)],
)  # fmt: skip


def test_a_report_comes_back_from_json() -> None:
    done = Report("convert", "a.pt", "torch-module", "b", "tf", [Tensor("x", "float32", ("n", 3))], notes=["a note"])
    done.verdict, done.steps = FULL, [ChainStep("a", "b", FULL)]
    back = report_from_json(json.loads(done.to_json()))
    assert back.to_json() == done.to_json()
    assert back.inputs == done.inputs
    assert back.verdict is not None
    assert back.verdict.outputs[0].error == math.inf
    assert back.verdict.weights == FULL.weights
    assert back.verdict.divergence == FULL.divergence


def test_each_model_has_a_page_that_the_table_leads_to(tmp_path: Path) -> None:
    good = Report("convert", "zoo/a", "onnx", "out/a.onnx", "onnx", verdict=Verdict("PASS"))
    lacking = Unsupported(
        problems=[Problem("no rule", Location("Magic", "n1", "net.a", "f.py:7"), 3)], hint="write one"
    )
    records = [
        record("a", "verified", json.loads(good.to_json())),
        record("sub/<b> c", "unsupported", json.loads(error_json(Report("convert"), lacking))),
        record("crashed", "crash", {}),
    ]
    zoo.write(tmp_path / "all models.html", records, show.summary(records), "convert batch zoo")
    page = root(tmp_path / "all models.html")
    links = [a.attrib["href"] for a in page.iter("a")]
    assert links[1] == "all%20models.pages/a.onnx.html", "what failed comes first"
    assert len(links) == 2, "a crash has no report"
    assert sorted(p.name for p in (tmp_path / "all models.pages").iterdir()) == sorted(
        link.split("/")[1] for link in links
    )
    assert [h.text for h in page.iter("pre")] == ["convert batch zoo"]
    title = next(page.iter("title")).text
    assert title == "FAIL: 1 of 3 conversions went well – convert batch"
    broken = root(tmp_path / "all models.pages" / links[0].split("/")[1])
    assert next(broken.iter("title")).text == (
        "ERROR: Magic, node 'n1', in net.a, at f.py:7: no rule – zoo/sub/<b> c → out/sub/<b> c.onnx"
    )
    cells = next(t for t in broken.iter("table") if t.attrib["id"] == "problems").iter("td")
    assert [c.text or "" for c in cells] == ["Magic", "3", "n1", "net.a", "f.py:7", "no rule"]


def test_a_page_whose_path_is_no_text_leads_to_its_models(tmp_path: Path) -> None:
    good = Report("convert", "zoo/a", "onnx", "out/a.onnx", "onnx", verdict=Verdict("PASS"))
    records = [record("a", "verified", json.loads(good.to_json()))]
    zoo.write(tmp_path / "\udcff.html", records, show.summary(records), "convert batch zoo")
    (link,) = (a.attrib["href"] for a in root(tmp_path / "\udcff.html").iter("a"))
    assert link == "%FF.pages/a.onnx.html"


def test_names_of_pages_are_plain_and_differ() -> None:
    named = [zoo.page_name({"name": n, "format": "onnx"}) for n in ("a", "a b", "a/b", "../a", "x" * 300, "ü", ".a")]
    assert len(set(named)) == len(named)
    assert named[0] == "a.onnx.html"
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,180}", name) for name in named)


def test_what_others_wrote_is_left(tmp_path: Path) -> None:
    records = [record("a", "verified", json.loads(Report("convert").to_json()))]
    (tmp_path / "r.pages").write_text("mine")
    with pytest.raises(UsageError, match=r"r\.pages is no folder"):
        zoo.write(tmp_path / "r.html", records, show.summary(records))
    assert (tmp_path / "r.pages").read_text() == "mine"
    (tmp_path / "s.pages").mkdir()
    (tmp_path / "s.pages" / "a.onnx.html").write_text("mine")
    with pytest.raises(UsageError, match="holds something else"):
        zoo.write(tmp_path / "s.html", records, show.summary(records))
    assert (tmp_path / "s.pages" / "a.onnx.html").read_text() == "mine"
