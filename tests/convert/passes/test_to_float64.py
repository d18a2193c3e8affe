"""Widening a model to float64: which values change, and which stay."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper

from convert.graph import Graph
from convert.passes.to_float64 import widen_model
from convert.reference.executor import run
from tests.support.onnx_support import INT64, array, info, model, read, run_ort

RNG = np.random.default_rng(3)


def test_widening_reaches_everything() -> None:
    body = helper.make_graph(
        [
            helper.make_node("Constant", [], ["c"], value_float=0.1),
            helper.make_node("Cast", ["c"], ["half"], to=onnx.TensorProto.FLOAT16),
            helper.make_node("Cast", ["half"], ["back"], to=onnx.TensorProto.FLOAT),
            helper.make_node("Mul", ["h", "back"], ["out"]),
            helper.make_node("Cast", ["out"], ["count"], to=INT64),
            helper.make_node("Identity", ["go"], ["again"]),
        ],
        "body",
        [info("i", [], INT64), info("go", [], onnx.TensorProto.BOOL), info("h", [2])],
        [info("again", [], onnx.TensorProto.BOOL), info("out", [2]), info("count", [2], INT64)],
    )
    nodes = [
        helper.make_node("ConstantOfShape", ["two"], ["zeros"]),
        helper.make_node("Add", ["x", "zeros"], ["h0"]),
        helper.make_node("Loop", ["trips", "", "h0"], ["y", "counts"], body=body),
    ]
    proto = model(
        nodes,
        [info("x", [2])],
        [info("y", [2]), info("counts", [3, 2], INT64)],
        [array("two", [2], np.int64), array("trips", 3, np.int64)],
    )
    shared = read(proto)
    twin = widen_model(shared)
    x = np.array([1000.0, -2000.0], np.float32)
    got = run(twin, {"x": x})
    assert got["y"].dtype == np.float64
    assert got["counts"].dtype == np.int64
    factor = float(np.float32(0.1))  # the file holds a float32
    np.testing.assert_allclose(got["y"], x.astype(np.float64) * factor**3, rtol=1e-14)
    assert got["counts"].tolist() == [[100, -200], [10, -20], [1, -2]]
    narrow = run(shared, {"x": x})
    assert narrow["y"].dtype == np.float32
    assert {v.dtype for v in shared.graph.outputs} == {ir.DataType.FLOAT, ir.DataType.INT64}
    dtypes = {o.dtype for graph in twin.graphs() for n in graph for o in n.outputs}
    assert not dtypes & {ir.DataType.FLOAT, ir.DataType.FLOAT16}


def test_numbers_of_the_source_are_not_rounded_in_the_twin() -> None:
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, [3])
    g.output(g.LeakyRelu(g.Mul(x, 0.1), alpha=0.3), "y")
    x64 = np.array([-1.0, 2.0, -3.0])
    got = run(widen_model(g.model()), {"x": x64})["y"]
    np.testing.assert_allclose(got, np.where(x64 > 0, x64 * 0.1, x64 * 0.1 * 0.3), rtol=1e-15)


def test_defaults_are_the_decimals_that_they_are_written_as() -> None:
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, [1])
    g.output(g.LeakyRelu(x), "a")
    g.output(g.HardSigmoid(x), "b")
    got = run(widen_model(g.model()), {"x": np.array([-1.0])})
    assert got["a"] == [-0.01]
    assert got["b"] == [0.3]


def test_quantization_keeps_its_integers() -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    proto = model(
        nodes,
        [info("x", [64])],
        [info("q", [64], onnx.TensorProto.UINT8), info("y", [64])],
        [array("s", 0.037), array("z", 128, np.uint8)],
    )
    x = RNG.normal(size=64).astype(np.float32)
    got = run(widen_model(read(proto)), {"x": x})
    wanted = run_ort(proto, {"x": x})
    assert got["q"].dtype == np.uint8
    assert np.array_equal(got["q"], wanted[0])
    assert got["y"].dtype == np.float64
    np.testing.assert_allclose(got["y"], wanted[1], rtol=1e-6)
