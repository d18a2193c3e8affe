"""The page of `convert inspect --report`, as text and as Chromium draws it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

from convert.cli import cli
from convert.pages import graph_view
from tests.support.browser import BROWSER, NO_BROWSER, browse


def network(path: Path, depth: int = 2, named: str = "block.{}") -> onnx.ModelProto:
    """Return layers of a product and an activation, named by their module, one of them with a hostile name."""
    weight = numpy_helper.from_array(np.eye(3, dtype=np.float32), "</script><b>w")
    nodes, last = [], "x"
    for i in range(depth):
        nodes.append(helper.make_node("MatMul", [last, weight.name], [f"p{i}"], named.format(i) + "/product"))
        nodes.append(helper.make_node("LeakyRelu", [f"p{i}"], [f"r{i}"], named.format(i) + "/active", alpha=0.5))
        last = f"r{i}"
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 3]) for n in ("x", last)]
    model = helper.make_model(
        helper.make_graph(nodes, "net", info[:1], info[1:], [weight]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    onnx.save(model, path)
    return model


def page_of(path: Path, *words: str) -> tuple[str, int]:
    target = path.parent / "out.html"
    done = CliRunner().invoke(cli, ["inspect", str(path), "--report", str(target), "-q", *words])
    return target.read_text(), done.exit_code


def data_of(text: str) -> dict[str, list[object]]:
    found = re.search(r'<script id="graph-data" type="application/json">//<!\[CDATA\[\n(.*)\n//]]>', text)
    assert found
    data: dict[str, list[object]] = json.loads(found[1])
    return data


def test_contract_operators_weights_and_drawing(tmp_path: Path) -> None:
    network(tmp_path / "net.onnx")
    text, code = page_of(tmp_path / "net.onnx")
    assert code == 0
    root = ElementTree.fromstring(re.sub(r' xmlns="[^"]+"', "", text.removeprefix("<!DOCTYPE html>\n")))
    tables = {t.attrib["id"]: [["".join(c.itertext()) for c in r] for r in t.iter("tr")] for t in root.iter("table")}
    assert tables["operators"][1:] == [["MatMul", "2"], ["LeakyRelu", "2"]]
    assert tables["weights"] == [["weight", "dtype", "dims", "elements"], ["</script><b>w", "float32", "3×3", "9"]]
    assert ["input", "x: float32[n,3]"] in tables["model"]
    drawn = data_of(text)
    operators = [node["operator"] for node in drawn["nodes"]]  # type: ignore[index]
    assert operators == ["x", "MatMul", "LeakyRelu", "MatMul", "LeakyRelu", "r1"]
    assert drawn["edges"] == [[0, 1, "n×3"], [1, 2, "n×3"], [2, 3, "n×3"], [3, 4, "n×3"], [4, 5, ""]]
    assert "netron" not in text.lower().split("<body>")[0]
    assert not re.search(r'(src|href)="', text)


def test_a_large_graph_is_folded_by_module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(graph_view, "MAX_NODES", 10)
    graph = ir.from_proto(network(tmp_path / "net.onnx", 8)).graph
    drawn, about = graph_view._drawn_nodes(graph, {})
    assert [n["operator"] for n in drawn["nodes"]] == ["x", *(f"block.{i}" for i in range(8)), "r7"]
    assert about == "16 nodes. Folded by module to 10."
    plain = ir.from_proto(network(tmp_path / "net.onnx", 8, "")).graph
    for node in plain:
        node.name = ""
    drawn, about = graph_view._drawn_nodes(plain, {})
    assert drawn["nodes"] == []
    assert "16 nodes are more than a page draws" in about


def test_without_the_viewer_the_page_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    network(tmp_path / "net.onnx")
    monkeypatch.setattr(graph_view, "_package_files", lambda: None)
    text, code = page_of(tmp_path / "net.onnx")
    assert code == 0
    assert "pip install &#x27;convert-models[viewer]&#x27;" in text
    assert "graph-data" not in text


def test_an_error_is_told_and_nothing_foreign_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"\x08\x07garbage")
    text, code = page_of(tmp_path / "bad.onnx")
    assert code == 5
    assert "<title>ERROR: " in text
    (tmp_path / "out.html").write_text("mine")
    text, code = page_of(tmp_path / "bad.onnx")
    assert (text, code) == ("mine", 2)


@pytest.mark.not_core
@pytest.mark.skipif(not BROWSER, reason=NO_BROWSER)
def test_a_browser_draws_every_node(tmp_path: Path) -> None:
    network(tmp_path / "net.onnx")
    page_of(tmp_path / "net.onnx")
    shown = browse(tmp_path / "out.html", tmp_path / "profile", "--dump-dom")
    assert 'data-drawn="6"' in shown
    assert len(re.findall(r'class="node graph-node"', shown)) == 6
    assert len(re.findall(r'class="edge-path"', shown)) == 5
    assert 'class="sortable"' in shown, "the script of every page runs too"
