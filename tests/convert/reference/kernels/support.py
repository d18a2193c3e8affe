"""Runs one node with one output in the reference executor and in onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from convert.reference.executor import run
from tests.support.onnx_support import assert_same, info, model, read, run_ort


def ort_case(
    nodes: list[onnx.NodeProto],
    feeds: dict[str, np.ndarray],
    constants: list[onnx.TensorProto],
    result: int = onnx.TensorProto.FLOAT,
) -> None:
    """Assert that the reference executor gives the same output `y` as onnxruntime."""
    inputs = [info(n, v.shape, helper.np_dtype_to_tensor_dtype(v.dtype)) for n, v in feeds.items()]
    proto = model(nodes, inputs, [info("y", None, result)], constants)
    assert_same(run(read(proto), feeds)["y"], run_ort(proto, feeds)[0], 2e-5)


RNG = np.random.default_rng(3)
IMAGE = RNG.normal(size=(2, 6, 11, 9)).astype(np.float32)
