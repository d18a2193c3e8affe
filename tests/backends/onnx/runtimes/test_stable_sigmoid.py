"""A Sigmoid at the end of an ONNX file keeps the digits of small probabilities in onnxruntime; gates stay."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from convert.backends import onnx as backend

from convert.graph import Graph
from convert.outcome.report import Report
from convert.request.options import Options
from tests.support.onnx_support import run_ort

X = np.linspace(-30, 30, 240, dtype=np.float32).reshape(-1, 4)
INFINITE = np.array([[-np.inf, np.inf, -200, 200], [np.nan, 0, -88, 88]], np.float32)


def written(g: Graph, path: Path) -> list[str]:
    """The operators of the file."""
    backend.write(g.model(), path, "onnx", Options(), Report("test"))
    return [n.op_type for n in onnx.load(path).graph.node]


def sigmoid(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x.astype(np.float64)))


@pytest.mark.parametrize("end", ["", "ReduceMean", "Log", "Transpose"])
def test_small_probabilities_keep_their_digits(end: str, tmp_path: Path) -> None:
    g = Graph()
    y = g.Sigmoid(g.input("x", ir.DataType.FLOAT, ["n", 4]))
    y = {"": y, "ReduceMean": g.ReduceMean(y, [1]), "Log": g.Log(y), "Transpose": g.Transpose(y, perm=[1, 0])}[end]
    g.output(y, "y")
    assert "Sigmoid" not in written(g, tmp_path / "m.onnx")
    (got,) = run_ort(tmp_path / "m.onnx", {"x": X})
    exact = sigmoid(X)
    exact = {"": exact, "ReduceMean": exact.mean(1, keepdims=True), "Log": np.log(exact), "Transpose": exact.T}[end]
    # Log of a number close to 1 has an error of one rounding of 1.
    np.testing.assert_allclose(got, exact, rtol=3 * 2.0**-24 * 4, atol=2.0**-23 if end == "Log" else 0)


def test_edges_are_those_of_sigmoid(tmp_path: Path) -> None:
    g = Graph()
    g.output(g.Sigmoid(g.input("x", ir.DataType.FLOAT, ["n", 4])), "y")
    written(g, tmp_path / "m.onnx")
    (got,) = run_ort(tmp_path / "m.onnx", {"x": INFINITE})
    np.testing.assert_allclose(got, sigmoid(INFINITE), rtol=1e-6, atol=2.0**-126)


def test_gates_and_other_precisions_stay(tmp_path: Path) -> None:
    g = Graph()
    x, h = g.input("x", ir.DataType.FLOAT, ["n", 4]), g.input("h", ir.DataType.DOUBLE, ["n", 4])
    g.output(g.Mul(x, g.Sigmoid(x)), "y")
    g.output(g.Sigmoid(h), "z")
    assert written(g, tmp_path / "m.onnx").count("Sigmoid") == 2


def test_a_sigmoid_that_is_both_gate_and_output(tmp_path: Path) -> None:
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, ["n", 4])
    gate = g.Sigmoid(x)
    g.output(gate, "gate")
    g.output(g.Mul(x, gate), "y")
    assert "Sigmoid" not in written(g, tmp_path / "m.onnx")
    gate, y = run_ort(tmp_path / "m.onnx", {"x": X})
    np.testing.assert_allclose(gate, sigmoid(X), rtol=1e-6)
    np.testing.assert_allclose(y, X * sigmoid(X), rtol=1e-6)
