"""Attention of every backend with a single mask for all keys, against ONNX's function body in onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.inliner
import pytest
from onnx import helper

from tests.support.onnx_support import info, model, run_converted, run_ort

pytestmark = pytest.mark.not_core

SHAPES = {"q": (1, 2, 3, 4), "k": (1, 2, 5, 4), "v": (1, 2, 5, 4)}
MASKS = {"m0": (3, 1), "m1": (1, 1, 1, 1), "m2": (1, 2, 3, 1)}


@pytest.mark.parametrize("to", ["onnx", "tf", "keras", "torch", "caffe2"])
def test_backend(to: str, tmp_path: Path) -> None:
    """Opset 23 broadcasts the mask, opset 24 pads it; onnxruntime's own kernel accepts neither."""
    draw = np.random.default_rng(0)
    feeds = {n: draw.normal(size=shape).astype(np.float32) for n, shape in {**SHAPES, **MASKS}.items()}
    nodes = [helper.make_node("Attention", ["q", "k", "v", m], [f"y{i}"]) for i, m in enumerate(MASKS)]
    feeds["hidden"] = np.array([[True], [False], [True]])
    nodes.append(helper.make_node("Attention", ["q", "k", "v", "hidden"], ["y3"]))
    inputs = [info(n, x.shape, helper.np_dtype_to_tensor_dtype(x.dtype)) for n, x in feeds.items()]
    proto = model(nodes, inputs, [info(f"y{i}", (1, 2, 3, 4)) for i in range(4)], opset=23, ir_version=10)
    body = onnx.inliner.inline_selected_functions(
        proto, [("", "Attention")], exclude=False, inline_schema_functions=True
    )
    wanted = run_ort(body, feeds)
    found = run_converted(proto, to, tmp_path, feeds)
    for i, want in enumerate(wanted):
        np.testing.assert_allclose(found[f"y{i}"], want, rtol=1e-5, atol=1e-6)
