"""An axis that occurs twice in a reduction is reduced once, as in onnxruntime, in every target."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import convert
from tests.support.run_targets import SUFFIXES, run_target


@pytest.mark.parametrize("target", ["onnx", *(pytest.param(t, marks=pytest.mark.not_core) for t in ("tf", "torch"))])
def test_axes_that_are_said_twice_are_reduced_once(target: str, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("ReduceSum", ["x", "one"], ["a"]),
        helper.make_node("ReduceMax", ["a", "other"], ["y"], keepdims=0),
    ]
    axes = [onnx.numpy_helper.from_array(np.array(a), n) for n, a in {"one": [1, 1], "other": [0, -3]}.items()]
    ends = [helper.make_tensor_value_info("x", 1, [2, 3, 4]), helper.make_tensor_value_info("y", 1, [1, 4])]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], axes)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    (want,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})
    path = tmp_path / f"m.{SUFFIXES[target]}"
    convert.convert(proto, target, path, verify=False)
    (found,) = run_target(target, path, [{"x": x}])
    np.testing.assert_allclose(next(iter(found.values())), want, rtol=1e-6)
