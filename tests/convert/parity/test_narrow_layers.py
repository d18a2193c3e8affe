"""The accuracy that each layer loses in 8 bits, and joined parts of unlike ranges, on small graphs that represent a
target.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from convert import plugin
from convert.api import _what_to_do
from convert.errors import ConvertError
from convert.graph import Graph
from convert.outcome.report import to_json
from convert.outcome.verdict import FAIL, PASS, LayerLoss, Verdict
from convert.pages.from_json import verdict_from_json
from convert.parity.locate.narrow_layers import layers_of_narrow
from convert.request.naming import Names
from convert.request.options import Options
from convert.request.source import Source

F = ir.DataType.FLOAT
X = np.random.default_rng(4).standard_normal((6, 3, 5, 4)).astype(np.float32)


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Set the graph as which the target is read."""

    class Frontend:
        graph: Any = None

        def read(self, source: Source, options: Options, report: Any) -> ir.Model:
            if isinstance(self.graph, Exception):
                raise self.graph
            return self.graph

    made = Frontend()
    monkeypatch.setattr(plugin, "frontend_for", lambda source: made)
    return lambda graph: setattr(made, "graph", graph)


def head(*, joined: float = 0, last: float = 0, nhwc: bool = False) -> ir.Model:
    """Return a graph with boxes in the hundreds joined with numbers below 1, scaled at the end.

    joined, last: the scale of the joined value and of the output in a target; 0 leaves them exact. nhwc: in this
    layout.
    """
    g = Graph()
    x = g.input("x", F, ["n", 5, 4, 3] if nhwc else ["n", 3, 5, 4])
    axis = 3 if nhwc else 1
    y = g.Concat(g.Mul(x, np.float32(400)), g.Sigmoid(x), axis=axis)
    y = g.Neg(rounded(g, y, joined))
    g.output(rounded(g, g.Mul(y, np.float32(0.5)), last), "y")
    return g.model()


def rounded(g: Graph, value: ir.Value, step: float) -> ir.Value:
    if not step:
        return value
    scale, zero = np.float32(step), np.int16(0)
    return g.DequantizeLinear(g.QuantizeLinear(value, scale, zero), scale, zero)


def losses(
    graph: ir.Model, moves: dict[str, tuple[int, ...]] | None = None, x: np.ndarray = X
) -> tuple[list[LayerLoss], list[Any]]:
    return layers_of_narrow(graph, Source("onnx-object"), {"x": x}, moves or {}, Options(), Names())


def decibels(exact: np.ndarray, step: float) -> float:
    error = np.round(exact / step) * step - exact
    return float(10 * np.log10(np.sum(exact**2) / np.sum(error**2)))


def test_the_layer_that_is_rounded_loses_and_those_behind_it_do_not(target: Callable[[Any], None]) -> None:
    target(head(joined=10))
    found, _ = losses(head())
    assert [(row.operator, row.before) for row in found] == [("Concat", np.inf)]
    few = X[:4].astype(np.float64)
    assert found[0].sqnr == pytest.approx(decibels(np.concatenate([400 * few, 1 / (1 + np.exp(-few))], 1), 10), abs=0.1)


def test_a_second_loss_is_beside_the_first(target: Callable[[Any], None]) -> None:
    target(head(joined=2, last=30))
    found, _ = losses(head())
    assert [row.operator for row in found] == ["Mul", "Concat"]
    assert found[0].before == pytest.approx(found[1].sqnr, abs=0.1)
    assert found[0].sqnr < found[1].sqnr


def test_another_layout_is_the_same(target: Callable[[Any], None]) -> None:
    target(head(joined=10))
    plain = losses(head())
    target(head(joined=10, nhwc=True))
    moved = losses(head(), {"x": (0, 2, 3, 1), "y": (0, 2, 3, 1)})
    assert [row.sqnr for row in moved[0]] == pytest.approx([row.sqnr for row in plain[0]], abs=1e-3)
    assert moved[1] == plain[1]


@pytest.mark.parametrize(("step", "count"), [(10.0, 1), (0.01, 0), (0.0, 0)])
def test_parts_of_unlike_ranges_are_noted_where_one_loses(
    target: Callable[[Any], None], step: float, count: int
) -> None:
    target(head(joined=step))
    _, notes = losses(head())
    assert [note.code for note in notes] == ["mixed-ranges"] * count
    for note in notes:
        assert "--keep-float" in note
        assert "of 255 steps" in note


def test_parts_of_one_range_are_not(target: Callable[[Any], None]) -> None:
    def halves(step: float) -> ir.Model:
        g = Graph()
        x = g.input("x", F, ["n", 3, 5, 4])
        g.output(rounded(g, g.Concat(g.Neg(x), g.Tanh(x), axis=1), step), "y")
        return g.model()

    target(halves(1.0))
    found, notes = losses(halves(0))
    assert [row.operator for row in found] == ["Concat"]
    assert not notes


@pytest.mark.parametrize("refused", [ConvertError("unreadable"), "integer inputs"])
def test_a_target_that_cannot_be_evaluated_has_none(target: Callable[[Any], None], refused: Any) -> None:
    if isinstance(refused, str):
        g = Graph()
        g.output(g.DequantizeLinear(g.input("x", ir.DataType.INT8, ["n", 3, 5, 4]), np.float32(1)), "y")
        refused = g.model()
    target(refused)
    layers, (note,) = losses(head())
    assert not layers
    assert (note.code, note.level) == ("not-compared", "info")


def test_layers_survive_json() -> None:
    verdict = Verdict(PASS, layers=[LayerLoss("n", "Mul", "head.0", "net.py:3", 38.0, np.inf)])
    plain = json.loads(to_json({"verdict": verdict.to_dict()}))
    assert plain["verdict"]["layers"][0]["before"] is None
    assert verdict_from_json(plain["verdict"]).layers == verdict.layers


def test_a_failure_suggests_an_operator_that_computes() -> None:
    """A Reshape gets the rounding of what it moves, and nothing is won if it stays in float."""
    layers = [LayerLoss(name, name, "", "", 10.0, 20.0) for name in ("Reshape", "Softmax", "Mul")]
    assert "--keep-float Softmax)" in _what_to_do(Verdict(FAIL, "", layers=layers))
    assert "--keep-float" not in _what_to_do(Verdict(FAIL, "", layers=layers[:1]))
