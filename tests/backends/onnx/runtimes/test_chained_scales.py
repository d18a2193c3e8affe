"""Several scalar products before a matrix product: the file loads in onnxruntime with default options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from convert.backends import onnx as backend
from torch import nn
from torch.nn import functional

import convert
from convert.graph import Graph
from convert.outcome.report import Report
from convert.request.options import Options
from tests.support.onnx_support import run_ort

T = np.linspace(-2, 2, 64, dtype=np.float32).reshape(2, 4, 8)

Chain = Callable[[Graph, ir.Value], tuple[ir.Value, ir.Value]]

# The first product and the second, as a graph and in numpy's arithmetic. Written unchanged, each fails to load.
CHAINS: dict[str, tuple[Chain, float, float]] = {
    "Mul, Mul": (lambda g, t: (w := g.Mul(t, 1.3), g.Mul(w, 0.35)), 1.3, 0.35),
    "Div, Mul": (lambda g, t: (w := g.Div(t, 1.3), g.Mul(w, 0.35)), 1 / 1.3, 0.35),
    "Mul, Div": (lambda g, t: (w := g.Mul(1.3, t), g.Div(w, 0.35)), 1.3, 1 / 0.35),
    "a number of rank 2": (lambda g, t: (w := g.Mul(t, np.float32([[1.3]])), g.Mul(w, 0.35)), 1.3, 0.35),
}


def scaled(chain: Chain, transposed: bool) -> Graph:
    g = Graph()
    t = g.Tanh(g.input("x", ir.DataType.FLOAT, [2, 4, 8]))
    w, q = chain(g, t)
    key = g.Transpose(w if transposed else t, perm=[0, 2, 1])
    g.output(g.MatMul(g.MatMul(q, key), w), "y")
    return g


def written(g: Graph, path: Path) -> list[str]:
    backend.write(g.model(), path, "onnx", Options(), Report("test"))
    return [n.op_type for n in onnx.load(path).graph.node]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("name", CHAINS)
def test_two_scales_before_matrix_products_load(name: str, transposed: bool, tmp_path: Path) -> None:
    chain, first, second = CHAINS[name]
    written(scaled(chain, transposed), tmp_path / "m.onnx")
    (got,) = run_ort(tmp_path / "m.onnx", {"x": T})
    t = np.tanh(T.astype(np.float64))
    w, q = t * first, t * first * second
    want = q @ np.swapaxes(w if transposed else t, 1, 2) @ w
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())


@pytest.mark.parametrize("opset", [13, 17, 22, 23])
def test_attention_of_a_scaled_tensor_with_itself(opset: int, tmp_path: Path) -> None:
    class Attention(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            w = x.tanh() * 1.3
            return functional.scaled_dot_product_attention(w, w, w)

    x = torch.from_numpy(T[:, None])
    convert.convert(Attention().eval(), "onnx", tmp_path / "m.onnx", inputs=[x], opset=opset, verify=False)
    (got,) = run_ort(tmp_path / "m.onnx", {"x": x.numpy()})
    np.testing.assert_allclose(got, Attention()(x.double()).numpy(), rtol=1e-5, atol=1e-6)
    model = onnx.load(tmp_path / "m.onnx")
    read = {name for node in model.graph.node for name in node.input}
    assert {i.name for i in model.graph.initializer} <= read


def test_both_products_are_of_the_same_tensor(tmp_path: Path) -> None:
    """This holds whether or not the installed onnxruntime has the fault."""
    written(scaled(CHAINS["Mul, Mul"][0], True), tmp_path / "m.onnx")
    nodes = onnx.load(tmp_path / "m.onnx").graph.node
    assert [n.input[0] for n in nodes if n.op_type == "Mul"] == [nodes[0].output[0]] * 2


def test_a_number_that_gives_dims_besides_stays(tmp_path: Path) -> None:
    """A vector times [[1.3]] is a matrix, so this product must stay."""
    g = Graph()
    w = g.Mul(g.input("x", ir.DataType.FLOAT, [8]), np.float32([[1.3]]))
    q = g.Mul(w, 0.35)
    g.output(g.MatMul(g.MatMul(q, np.ones((8, 1), np.float32)), w), "y")
    written(g, tmp_path / "m.onnx")
    nodes = onnx.load(tmp_path / "m.onnx").graph.node
    assert [n.input[0] for n in nodes if n.op_type == "Mul"] == ["x", nodes[0].output[0]]


@pytest.mark.parametrize("factors", [(1e30, 1e30), (1e-30, 1e-30)])
def test_what_overflows_stays_two_products(factors: tuple[float, float], tmp_path: Path) -> None:
    g = Graph()
    w = g.Mul(g.input("x", ir.DataType.FLOAT, [2, 4, 8]), factors[0])
    q = g.Mul(w, factors[1])
    g.output(g.Add(g.MatMul(q, g.Transpose(w, perm=[0, 2, 1])), g.ReduceMax(w)), "y")
    assert written(g, tmp_path / "m.onnx").count("Mul") == 2


def test_scales_that_other_operators_read_stay(tmp_path: Path) -> None:
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, [2, 4, 8])
    w = g.Mul(x, 1.3)
    g.output(g.Add(g.Mul(w, 0.35), g.Relu(w)), "y")
    assert written(g, tmp_path / "m.onnx") == ["Mul", "Mul", "Relu", "Add"]
