"""The page of `--report`: one file that fetches nothing, whose plots show the numbers of the verdict."""

from __future__ import annotations

import hashlib
import json
import math
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

from convert.cli import cli, render
from convert.outcome.report import Report
from convert.outcome.verdict import Divergence, Element, OutputVerdict, Place, Verdict
from convert.parity.locate.profile import relevant_places
from tests.support.browser import BROWSER, NO_BROWSER, browse

VOID = {"meta", "br", "img", "link", "hr", "input"}


def network(spoil: float = 1.0) -> onnx.ModelProto:
    """Return Conv, Relu, mean over pixels, Gemm; `spoil` multiplies one weight of the convolution."""
    rng = np.random.default_rng(0)
    kernel = rng.standard_normal((4, 3, 3, 3)).astype(np.float32)
    kernel.flat[5] *= np.float32(spoil)
    weights = {"kernel": kernel, "matrix": rng.standard_normal((4, 5)).astype(np.float32)}
    nodes = [
        helper.make_node("Conv", ["x", "kernel"], ["c"], "stem", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], "active"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flat"),
        helper.make_node("Gemm", ["f", "matrix"], ["scores"], "head"),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 5])],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Page(HTMLParser):
    """Elements with their attributes and texts, and whether every tag is closed where it should be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def svg(text: str, identity: str) -> ET.Element:
    """Return a plot, parsed by a strict XML parser."""
    found = re.search(rf'<svg class="plot" id="{identity}".*?</svg>', text, re.DOTALL)
    assert found
    return ET.fromstring(found[0])


def of_class(plot: ET.Element, tag: str, name: str) -> list[ET.Element]:
    return [e for e in plot.iter(f"{{http://www.w3.org/2000/svg}}{tag}") if name in e.attrib.get("class", "").split()]


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any], Path]:
    """Return the page and the JSON of one verification that fails at the convolution."""
    folder = tmp_path_factory.mktemp("page")
    onnx.save(network(), folder / "right.onnx")
    onnx.save(network(1.01), folder / "wrong <b>.onnx")
    words = ["verify", str(folder / "right.onnx"), str(folder / "wrong <b>.onnx"), "--json"]
    words += ["--save-inputs", str(folder / "inputs.npz")]
    done = CliRunner().invoke(cli, [*words, "--report", str(folder / "out.html")])
    assert done.exit_code == 3, done.output
    return (folder / "out.html").read_text(), json.loads(done.stdout), folder / "out.html"


@pytest.mark.slow
@pytest.mark.not_core
def test_it_fetches_nothing_and_is_well_formed(failing: tuple[str, dict[str, Any], Path]) -> None:
    text, _, _ = failing
    page = Page(text)
    tags = {tag for tag, _ in page.elements}
    assert not tags & {"link", "img", "iframe", "object", "embed", "b"}
    assert not [given for tag, given in page.elements if tag == "script" and given]
    policies = [g["content"] or "" for t, g in page.elements if g.get("http-equiv") == "Content-Security-Policy"]
    assert len(policies) == 1
    assert policies[0].startswith("default-src 'none';"), "the browser itself fetches nothing"
    elements = [(tag, given) for tag, given in page.elements if tag != "a"]  # only the reader follows a link
    attributes = [(k, v or "") for _, given in elements for k, v in given.items() if k != "xmlns"]
    assert not [a for a in attributes if a[0] in ("src", "href", "srcset", "data") or "//" in a[1]]
    assert "url(" not in text
    assert "@import" not in text
    assert "prefers-color-scheme: dark" in text


@pytest.mark.not_core
def test_it_tells_what_the_verdict_does(failing: tuple[str, dict[str, Any], Path]) -> None:
    text, told, path = failing
    shown = " ".join(Page(text).texts)
    verdict = told["verdict"]
    assert verdict["status"] == "FAIL"
    for words in (verdict["reason"], "wrong <b>.onnx", f"--report {path}", "onnxruntime"):
        assert words in shown
    worst = verdict["outputs"][0]["elements"][0]
    assert f"{worst['reference']:.9g}" in shown
    assert f"{worst['target']:.9g}" in shown
    assert str(worst["index"]) in shown
    assert verdict["divergence"]["operator"] == "Conv"
    assert "Conv, node stem" in shown


@pytest.mark.not_core
def test_the_worst_element_is_the_worst(failing: tuple[str, dict[str, Any], Path]) -> None:
    """Compared with onnxruntime: the position and the numbers of the largest difference on the named inputs."""
    _, told, path = failing
    elements = told["verdict"]["outputs"][0]["elements"]
    assert [e["error"] for e in elements] == sorted((e["error"] for e in elements), reverse=True)
    right, wrong = (ort.InferenceSession(path.parent / name) for name in ("right.onnx", "wrong <b>.onnx"))
    with np.load(path.parent / "inputs.npz") as saved:
        sets = [saved["x" if i == 0 else f"x@{i}"] for i in range(len(saved.files))]
    found = []
    for label, x in zip(told["verdict"]["feeds"], sets, strict=True):
        a, b = (s.run(None, {"x": x})[0].astype(np.float64) for s in (right, wrong))
        off = np.abs(a - b) / np.sqrt(np.mean(a**2))
        index = np.unravel_index(off.argmax(), off.shape)
        found.append((off.max(), label, list(map(int, index)), a[index], b[index]))
    error, label, index, reference, target = max(found)
    worst = elements[0]
    assert (worst["feed"], worst["index"]) == (label, index)
    assert worst["error"] == pytest.approx(error, rel=0.02)
    assert worst["reference"] == pytest.approx(reference, rel=1e-5)
    assert worst["target"] == pytest.approx(target, rel=1e-6)


@pytest.mark.not_core
def test_the_points_of_the_plot_are_the_numbers(failing: tuple[str, dict[str, Any], Path]) -> None:
    text, told, _ = failing
    profile = told["verdict"]["profile"]
    assert [p["operator"] for p in profile] == ["Conv", "Relu", "GlobalAveragePool", "Flatten", "Gemm"]
    plot = svg(text, "profile")
    points = of_class(plot, "circle", "error")
    assert [int(p.attrib["data-index"]) for p in points] == [i for i, p in enumerate(profile) if p["error"] is not None]
    assert len(points) == 5
    for point in points:
        place = profile[int(point.attrib["data-index"])]
        assert float(point.attrib["data-error"]) == place["error"]
        assert ("beyond" in point.attrib["class"].split()) == (place["error"] > 4 * place["floor"])
        title = point.find("{http://www.w3.org/2000/svg}title")
        assert title is not None
        assert place["node"] in (title.text or "")
    # Heights are a straight line in the logarithms, larger errors higher; the node that differs is marked there.
    heights = np.array([float(p.attrib["cy"]) for p in points])
    logs = np.array([math.log10(float(p.attrib["data-error"])) for p in points])
    slope, offset = np.polyfit(logs, heights, 1)
    assert slope < 0
    assert np.abs(slope * logs + offset - heights).max() < 0.2
    (mark,) = of_class(plot, "line", "mark")
    assert mark.attrib["x1"] == points[0].attrib["cx"]
    for name in ("floor", "bound"):
        (line,) = of_class(plot, "polyline", name)
        assert len(line.attrib["points"].split()) == len(profile)
    (bar,) = of_class(svg(text, "outputs"), "rect", "bar")
    assert float(bar.attrib["data-error"]) == told["verdict"]["outputs"][0]["error"]


@pytest.mark.not_core
def test_errors_of_a_clean_pair_stay_under_the_bound(tmp_path: Path) -> None:
    onnx.save(network(), tmp_path / "net.onnx")
    words = ["verify", tmp_path / "net.onnx", tmp_path / "net.onnx", "--report", tmp_path / "out.html", "--json"]
    done = CliRunner().invoke(cli, [str(w) for w in words])
    assert done.exit_code == 0, done.output
    profile = json.loads(done.stdout)["verdict"]["profile"]
    assert len(profile) == 5
    assert all(p["error"] <= 4 * p["floor"] for p in profile)
    text = (tmp_path / "out.html").read_text()
    assert not of_class(svg(text, "profile"), "circle", "beyond")


def test_a_page_is_written_after_an_error_too(tmp_path: Path) -> None:
    onnx.save(network(), tmp_path / "net.onnx")
    words = ["verify", tmp_path / "net.onnx", tmp_path / "missing.onnx", "--report", tmp_path / "out.html"]
    done = CliRunner().invoke(cli, [str(w) for w in words])
    assert done.exit_code == 5
    shown = " ".join(Page((tmp_path / "out.html").read_text()).texts)
    assert "ERROR" in shown
    assert "missing.onnx" in shown


@pytest.mark.not_core
def test_a_conversion_writes_one_as_well(tmp_path: Path) -> None:
    onnx.save(network(), tmp_path / "net.onnx")
    words = [
        tmp_path / "net.onnx",
        "--to",
        "onnx",
        "-o",
        tmp_path / "new.onnx",
        "--report",
        tmp_path / "out.html",
        "-q",
    ]
    done = CliRunner().invoke(cli, [str(w) for w in words])
    assert done.exit_code == 0, done.output
    text = (tmp_path / "out.html").read_text()
    assert "PASS" in Page(text).texts
    assert len(of_class(svg(text, "profile"), "circle", "error")) == 5


@pytest.mark.not_core
def test_a_terminal_shows_the_same_on_one_screen(
    failing: tuple[str, dict[str, Any], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """The terminal shows the output, the worst element, the node with its module and line, its inputs, and the target's
    counterpart.
    """
    told = failing[1]["verdict"]
    worst = Element((1, 2), 0.25, 0.5, 2e-3, "seed 0")
    row = OutputVerdict("scores", "FAIL", "too far", 1e-3, 1e-7, 1e-15, 2e-3, elements=[worst])
    place = Divergence("Conv", "stem", "net.stem", "net.py:7", ["x: float64[2, 3]"], "c: float64[2, 4]", "Relu, c: …")
    done = Report(
        "verify", "a.pt", verdict=Verdict("FAIL", "scores: too far", "backend", outputs=[row], divergence=place)
    )
    render.report(done, quiet=False, verbose=0)
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "FAIL: scores: too far (caused by the backend)",
        "  scores: error 1.00e-03, noise floor 1.00e-07 (10000.00×), graph in float64 1.0e-15",
        "  worst: scores[1, 2] is 0.5, should be 0.25, on seed 0",
        "  first node that departs: Conv, node 'stem', in net.stem, at net.py:7",
        "    in  x: float64[2, 3]",
        "    out c: float64[2, 4]",
        "    instead Relu, c: …",
    ]
    assert told["divergence"]["node"] == "stem"


def test_a_value_that_was_fused_away_is_no_defect() -> None:
    """The node resembles another value of the target, and the values computed from it are right."""
    x, middle, end = (ir.Value(name=n) for n in ("x", "middle", "end"))
    first, last = ir.Node("", "Conv", [x], outputs=[middle]), ir.Node("", "BatchNormalization", [middle], outputs=[end])
    wrong, right = (Place(n, "", "", "", 1e-7, error) for n, error in (("first", 1e-3), ("last", 1e-7)))
    assert [p.error for p in relevant_places({first: wrong, last: right})] == [None, 1e-7]
    assert [p.error for p in relevant_places({first: right, last: wrong})] == [1e-7, 1e-3]


@pytest.mark.not_core
@pytest.mark.skipif(not BROWSER, reason=NO_BROWSER)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_draws_the_plots(scheme: str, failing: tuple[str, dict[str, Any], Path], tmp_path: Path) -> None:
    """Headless Chromium takes a picture, which contains the page's background and the colours of the errors."""
    from PIL import Image

    picture = tmp_path / "page.png"
    dark = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
    browse(failing[2], tmp_path / "profile", "--window-size=1000,1700", f"--screenshot={picture}", *dark)
    with Image.open(picture) as image:
        pixels = np.asarray(image.convert("RGB")).reshape(-1, 3)
    colours = {tuple(c): n for c, n in zip(*np.unique(pixels, axis=0, return_counts=True), strict=True)}
    back, error, beyond, floor = {
        "light": ((255, 255, 255), (11, 92, 173), (198, 40, 40), (122, 134, 153)),
        "dark": ((20, 23, 28), (108, 178, 255), (255, 123, 114), (141, 153, 171)),
    }[scheme]
    assert max(colours, key=lambda c: colours[c]) == back
    assert colours.get(beyond, 0) > 500  # the bar of the output, and the points after the defect
    assert colours.get(error, 0) > 30  # the key of the plots
    assert colours.get(floor, 0) > 30


@pytest.mark.not_core
def test_files_are_named_by_their_content_and_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("models").mkdir()
    onnx.save(network(), "models/a & b.onnx")
    done = CliRunner().invoke(cli, ["verify", "models/a & b.onnx", "models/a & b.onnx", "--report", "pages.html"])
    assert done.exit_code == 0, done.output
    page = Page((tmp_path / "pages.html").read_text())
    links = [attributes["href"] for tag, attributes in page.elements if tag == "a"]
    assert links == ["models/a%20%26%20b.onnx"] * 2
    digest = hashlib.sha256(Path("models/a & b.onnx").read_bytes()).hexdigest()
    assert page.texts.count(digest) == 2
    assert any(re.match(r"\d+ input sets; batch 1–\d+; x from ", text) for text in page.texts), "what the sets cover"
    assert "same weights (all 2 compared)" in page.texts
    assert any(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d[+-]\d\d:\d\d$", text) for text in page.texts), "the date"
