"""How weights are written to `.keras` files: one at a time, for every kind of layer; and very deep models."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

import convert
from convert.graph.tensors import lazy_tensor
from convert.outcome.report import Report
from convert.request.options import Options
from tests.support.tensorflow_networks import close

keras = pytest.importorskip("keras", reason="the Keras backend writes with Keras")

WIDTH, COUNT = 512, 24
"""Rows and columns of a matrix (1 MiB), and the number of matrices."""


def matrix(i: int) -> np.ndarray:
    return np.random.default_rng(i).normal(0, WIDTH**-0.5, (WIDTH, WIDTH)).astype(np.float32)


def products() -> ir.Model:
    """Return x [batch, WIDTH] times COUNT matrices, every second one transposed; each is made when it is read."""
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(["batch", WIDTH]))
    y, nodes, weights = x, [], []
    for i in range(COUNT):
        tensor = lazy_tensor(ir.DataType.FLOAT, (WIDTH, WIDTH), lambda i=i: matrix(i), f"w{i}")
        weights.append(ir.Value(name=f"w{i}", type=x.type, shape=ir.Shape([WIDTH, WIDTH]), const_value=tensor))
        attributes = [ir.AttrInt64("transB", i % 2)]
        nodes.append(ir.Node("", "Gemm", [y, weights[-1]], attributes, num_outputs=1, name=f"dense{i}"))
        y = nodes[-1].outputs[0]
        y.name, y.type, y.shape = f"y{i}", x.type, x.shape
    graph = ir.Graph([x], [y], nodes=nodes, initializers=weights, opset_imports={"": 23}, name="products")
    return ir.Model(graph, ir_version=10)


@pytest.mark.slow
def test_weights_do_not_gather_in_memory(tmp_path: Path) -> None:
    from convert.backends import keras as backend

    path = tmp_path / "m.keras"
    backend.preload()
    tracemalloc.start()
    try:
        backend.write(products(), path, "keras", Options(), Report("convert"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert path.stat().st_size > COUNT * WIDTH * WIDTH * 4
    assert peak < COUNT * WIDTH * WIDTH * 4 / 2
    model = keras.saving.load_model(path)
    x = np.random.default_rng(99).standard_normal((2, WIDTH), np.float32)
    wanted = x.astype(np.float64)
    for i in range(COUNT):
        wanted = wanted @ (matrix(i).T if i % 2 else matrix(i))
    close(np.asarray(model(x)), wanted.astype(np.float32))


@pytest.mark.long
def test_a_model_deeper_than_pythons_limit_says_so_and_is_read_back(tmp_path: Path) -> None:
    """Keras searches the inputs from the outputs by nested calls, also when it loads."""
    count = 1200
    nodes = [helper.make_node(("Sin", "Neg")[i % 2], [f"x{i}"], [f"x{i + 1}"], name=f"node{i}") for i in range(count)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 8]) for name in ("x0", f"x{count}")]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    report = convert.convert(proto, "keras", tmp_path / "deep.keras", verify=True)
    assert report.verdict is not None
    assert report.verdict.status == "PASS"
    (note,) = report.notes
    assert "sys.setrecursionlimit(" in note
