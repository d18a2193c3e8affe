"""Scan of opset 8, with its batch axis, against onnxruntime, which still runs it."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper

from tests.support.onnx_support import INT64, info, model, read, run_ort

STATES, STEPS = 4, 5


def scan(lengths: bool, directions: list[int] | None, batch: int | str) -> onnx.ModelProto:
    """Return running sums of one input, scaled by a weight from outside, and a product with the second input."""
    body = helper.make_graph(
        [
            helper.make_node("Add", ["sum", "a"], ["next"]),
            helper.make_node("Mul", ["next", "b"], ["product"]),
            helper.make_node("Cast", ["next"], ["whole"], to=INT64),
        ],
        "body",
        [info(name, [STATES]) for name in ("sum", "a", "b")],
        [info("next", [STATES]), info("product", [STATES]), info("whole", [STATES], INT64)],
    )
    given = ["lengths" if lengths else "", "start", "a", "b"]
    attributes = {} if directions is None else {"directions": directions}
    node = helper.make_node("Scan", given, ["last", "products", "wholes"], body=body, num_scan_inputs=2, **attributes)
    inputs = [info("start", [batch, STATES]), *(info(name, [batch, STEPS, STATES]) for name in ("a", "b"))]
    outputs = [info("last", [batch, STATES]), info("products", [batch, STEPS, STATES]),
               info("wholes", [batch, STEPS, STATES], INT64)]  # fmt: skip
    inputs += [info("lengths", [batch], INT64)] if lengths else []
    return model([node], inputs, outputs, opset=8, ir_version=7)


@pytest.mark.parametrize("batch", [3, "n"])
@pytest.mark.parametrize("directions", [None, [0, 1]])
@pytest.mark.parametrize("lengths", [False, True])
def test_the_batch_of_opset_8(lengths: bool, directions: list[int] | None, batch: int | str) -> None:
    draw = np.random.default_rng(0)
    feeds = {"start": draw.normal(size=(3, STATES)).astype(np.float32)}
    feeds |= {name: draw.normal(size=(3, STEPS, STATES)).astype(np.float32) for name in ("a", "b")}
    if lengths:
        feeds["lengths"] = np.array([5, 1, 3], np.int64)
    proto = scan(lengths, directions, batch)
    shared = read(proto)
    assert shared.graph.opset_imports[""] == 23
    ours = run_ort(ir.to_proto(shared), feeds)
    for got, want in zip(ours, run_ort(proto, feeds), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
