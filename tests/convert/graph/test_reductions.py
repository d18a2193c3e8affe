"""Reductions over an empty list of dims, which ONNX treats as all dims."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from convert.graph import Graph
from convert.graph.reductions import reduce_dims

OF_ONE = {
    "ReduceSum": lambda x: x, "ReduceMean": lambda x: x, "ReduceProd": lambda x: x, "ReduceMax": lambda x: x,
    "ReduceMin": lambda x: x, "ReduceLogSumExp": lambda x: x, "ReduceL1": np.abs, "ReduceL2": np.abs,
}  # fmt: skip


@pytest.mark.parametrize("operator", OF_ONE)
def test_over_none_each_element_is_by_itself(operator: str) -> None:
    g = Graph()
    x = g.input("x", ir.DataType.FLOAT, [2, 3])
    for name, axes in (("none", []), ("last", [1])):
        g.output(reduce_dims(g, operator, x, axes, keepdims=0), name)
    array = np.array([[1, -2, 3], [-4, 5, 6]], np.float32)
    session = onnxruntime.InferenceSession(ir.to_proto(g.model()).SerializeToString())
    none, last = session.run(None, {"x": array})
    np.testing.assert_allclose(none, OF_ONE[operator](array), rtol=1e-6)
    assert last.shape == (2,)


@pytest.mark.parametrize("axes", [[], (), np.zeros(0, np.int64)], ids=["list", "tuple", "array"])
@pytest.mark.parametrize("operator", ["ReduceL2", "ReduceMax", "Squeeze"])
def test_no_rule_writes_a_list_without_axes(operator: str, axes: object) -> None:
    g = Graph()
    x, scalar = (g.input(name, ir.DataType.FLOAT, shape) for name, shape in (("x", [3]), ("s", [])))
    with pytest.raises(ValueError, match="all of them"):
        g.node(operator, [x, axes])
    assert g.rank(g.node(operator, [scalar, axes])) == 0
    assert g.rank(g.node(operator, [x, None])) == 1
