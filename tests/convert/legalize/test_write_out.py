"""Operators without a rule are written out in forms that keep their digits far from zero, unlike ONNX's bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import helper

from convert.graph.shape_inference import infer_facts
from convert.legalize.write_out import write_out
from tests.support.cases import f32

OFFSET = 1000.0
X = f32(2, 4, 6, 5) + np.float32(OFFSET)
PER_CHANNEL, LAST = np.ones(4, np.float32), np.ones(5, np.float32)


def centred(x: np.ndarray, axes: Sequence[int], epsilon: float = 0.0) -> np.ndarray:
    """Return `x` in float64 with mean 0 and variance 1 along `axes`."""
    wide = x.astype(np.float64)
    away = wide - wide.mean(tuple(axes), keepdims=True)
    return away / np.sqrt((away**2).mean(tuple(axes), keepdims=True) + epsilon)


ROWS = [
    ("MeanVarianceNormalization", [X], {}, lambda x: centred(x, [0, 2, 3])),
    ("MeanVarianceNormalization", [X], {"axes": [2, 3]}, lambda x: centred(x, [2, 3])),
    ("MeanVarianceNormalization", [X[0, 0]], {"axes": [-1]}, lambda x: centred(x, [-1])),
    ("LayerNormalization", [X, LAST], {}, lambda x: centred(x, [-1], 1e-5)),
    (
        "GroupNormalization",
        [X, PER_CHANNEL, 0 * PER_CHANNEL],
        {"num_groups": 2},
        lambda x: centred(x.reshape(2, 2, -1), [-1], 1e-5).reshape(x.shape),
    ),
]


@pytest.mark.parametrize(("operator", "inputs", "attributes", "exact"), ROWS)
def test_far_from_zero(
    operator: str, inputs: list[np.ndarray], attributes: dict[str, object], exact: Callable[[np.ndarray], np.ndarray]
) -> None:
    names = [f"x{i}" for i in range(len(inputs))]
    described = [helper.make_tensor_value_info(n, 1, x.shape) for n, x in zip(names, inputs, strict=True)]
    node = helper.make_node(operator, names, ["y"], **attributes)
    graph = helper.make_graph([node], "g", described, [helper.make_tensor_value_info("y", 1, inputs[0].shape)])
    model = ir.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10))
    infer_facts(model)
    assert write_out(model, lambda node: node.op_type != operator)
    assert operator not in {node.op_type for node in model.graph.all_nodes()}
    session = onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString(), providers=["CPUExecutionProvider"])
    got = session.run(None, dict(zip(names, inputs, strict=True)))[0]
    # The mean carries some roundings of the offset, each 2⁻²⁴ of it, and is divided by a deviation of about 1.
    assert np.abs(got - exact(inputs[0])).max() < 8 * OFFSET * 2.0**-24
