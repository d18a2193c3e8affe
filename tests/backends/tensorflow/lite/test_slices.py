"""Slices along a dim of unknown size in TensorFlow Lite, run at sizes below, at and beyond their bounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert runs the files")

import convert
from tests.support.run_targets import run_target

FAR = 2**40
BOUNDS = [(0, 0, 1), (-1, 0, 1), (0, 3, 1), (2, 99, 1), (5, FAR, 1), (-3, -1, 1), (-1, -FAR, -1), (4, 0, -2), (3, 1, 1)]
BOUNDS += [(-3, -FAR, -1)]
KINDS = {"float32": TensorProto.FLOAT, "int32": TensorProto.INT32, "bool": TensorProto.BOOL}


def slices(dims: list[Any], kind: str) -> onnx.ModelProto:
    """Return a model with one Slice of axis 0 for each of `BOUNDS`."""
    nodes, values = [], []
    for i, bounds in enumerate(BOUNDS):
        begin, end, step = bounds
        axis = i % 2 * -len(dims)  # either way of naming the first axis
        for name, number in (("b", begin), ("e", end), ("a", axis), ("s", step)):
            values.append(numpy_helper.from_array(np.array([number], np.int64), f"{name}{i}"))
        nodes.append(helper.make_node("Slice", ["x", f"b{i}", f"e{i}", f"a{i}", f"s{i}"], [f"y{i}"]))
    x = helper.make_tensor_value_info("x", KINDS[kind], dims)
    y = [helper.make_tensor_value_info(f"y{i}", KINDS[kind], [f"m{i}", *dims[1:]]) for i in range(len(BOUNDS))]
    graph = helper.make_graph(nodes, "g", [x], y, values)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 18)])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "dims"),
    [
        pytest.param(kind, dims, marks=() if (kind, len(dims)) in (("int32", 1), ("float32", 2)) else pytest.mark.long)
        for kind in KINDS
        for dims in (["n"], ["n", 2])
    ],
)
def test_at_every_size(kind: str, dims: list[Any], tmp_path: Path) -> None:
    onnx.save(slices(dims, kind), tmp_path / "a.onnx")
    convert.convert(tmp_path / "a.onnx", "tflite", tmp_path / "a.tflite", verify=False)
    for size in (1, 2, 3, 6):
        x = (np.arange(size * 2).reshape(size, 2) % 2 if kind == "bool" else np.arange(size * 2).reshape(size, 2)) + 0
        x = (x if len(dims) == 2 else x[:, 1]).astype(kind)
        (got,) = run_target("tflite", tmp_path / "a.tflite", [{"x": x}])
        for i, (begin, end, step) in enumerate(BOUNDS):
            # A backward slice that starts before the first element begins with the first one, because ONNX clamps the
            # start.
            first = max(begin + size, 0) if step < 0 and begin < 0 else begin
            want = x[first : None if end == -FAR else end : step]
            assert got[f"y{i}"].shape == want.shape, (size, begin, end, step)
            np.testing.assert_array_equal(got[f"y{i}"], want)


@pytest.mark.slow
@pytest.mark.parametrize("given", ["bounds", "starts"])
def test_bounds_that_are_computed(given: str, tmp_path: Path) -> None:
    """Starts known at run time, with ends beyond the range of int32."""
    inputs = [helper.make_tensor_value_info(n, TensorProto.INT64, [1]) for n in ("b", "e")][
        : 2 if given == "bounds" else 1
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2]), *inputs]
    values = [numpy_helper.from_array(np.array([number], np.int64), name) for name, number in (("a", 0), ("e", FAR))]
    graph = helper.make_graph(
        [helper.make_node("Slice", ["x", "b", "e", "a"], ["y"])],
        "g",
        inputs,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["m", 2])],
        values[: 1 if given == "bounds" else 2],
    )
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 18)])
    onnx.save(model, tmp_path / "a.onnx")
    convert.convert(tmp_path / "a.onnx", "tflite", tmp_path / "a.tflite", verify=False)
    for size, begin in ((1, 0), (5, 2), (4, -1), (3, -FAR)):
        x = np.arange(size * 2).reshape(size, 2).astype(np.float32)
        feed = {"x": x, "b": np.array([begin]), "e": np.array([FAR])}
        (got,) = run_target("tflite", tmp_path / "a.tflite", [{v.name: feed[v.name] for v in inputs}])
        np.testing.assert_array_equal(got["y"], x[begin:])
