"""Reductions with an empty list of axes, or none, in every backend and in onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.support.onnx_support import array, info, model, run_converted, run_ort

OPERATORS = (
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare",
    "ReduceLogSum", "ReduceLogSumExp",
)  # fmt: skip
FORMATS = ("onnx", "tf", "tf-frozen", "tflite", "keras", "caffe2", "torch")


def reductions(shape: tuple[int, ...], listed: bool) -> onnx.ModelProto:
    """Return every reduction, of all dims and of none, with and without keepdims."""
    nodes, outputs = [helper.make_node("Abs", ["x"], ["positive"])], []
    for operator in OPERATORS:
        for noop, keep in ((0, 0), (0, 1), (1, 0), (1, 1)):
            outputs.append(f"{operator}_{noop}_{keep}")
            read = ["positive" if operator == "ReduceLogSum" else "x", *(["none"] if listed else [])]
            nodes.append(helper.make_node(operator, read, outputs[-1:], keepdims=keep, noop_with_empty_axes=noop))
    constants = [array("none", np.zeros(0), np.int64)] if listed else []
    return model(nodes, [info("x", shape)], [info(n, None) for n in outputs], constants, opset=20)


@pytest.mark.slow
@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("shape", [(2, 3), (4,), ()], ids=str)
@pytest.mark.parametrize("to", FORMATS)
def test_backend(to: str, shape: tuple[int, ...], listed: bool, tmp_path: Path) -> None:
    proto = reductions(shape, listed)
    feeds = {"x": np.asarray(-np.random.default_rng(0).uniform(0.5, 2, shape), np.float32)}
    found = run_converted(proto, to, tmp_path, feeds)
    for output, wanted in zip(proto.graph.output, run_ort(proto, feeds), strict=True):
        assert found[output.name].shape == wanted.shape, output.name
        np.testing.assert_allclose(found[output.name], wanted, rtol=1e-5, atol=1e-5, err_msg=output.name)
