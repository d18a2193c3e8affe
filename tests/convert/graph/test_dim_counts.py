"""Lists with an entry per dim are no longer than a tensor's dims can be, whatever determines their length."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.helper as oh
import onnx.numpy_helper
import pytest

import convert
from convert.errors import ResourceLimit

MANY = 20_000
TAKEN = {
    "Pad": (1,), "PadAxes": (1, 3), "Reshape": (1,), "Expand": (1,), "Tile": (1,), "Slice": (1, 2), "Resize": (3,),
    "ConstantOfShape": (0,), "Unsqueeze": (1,), "Squeeze": (1,), "ReduceSum": (1,), "ReduceMax": (1,), "Col2Im": (1, 2),
    "CenterCropPad": (1,), "AffineGrid": (1,),
}  # fmt: skip
LISTS = {
    "Transpose": {"perm": [0] * MANY},
    "MaxPool": {"kernel_shape": [1] * MANY},
    "AveragePool": {"kernel_shape": [1], "pads": [1] * MANY},
    "CenterCropPad": {"axes": [0] * MANY},
}


def _model(node: onnx.NodeProto, dims: list[int], lists: dict[str, np.ndarray], given: list[str]) -> onnx.ModelProto:
    ends = [oh.make_tensor_value_info("x", 1, dims), *(oh.make_tensor_value_info(n, 7, [MANY]) for n in given)]
    weights = [onnx.numpy_helper.from_array(array, name) for name, array in lists.items()]
    graph = oh.make_graph([node], "g", ends, [oh.make_tensor_value_info("y", 1, None)], weights)
    return oh.make_model(graph, opset_imports=[oh.make_opsetid("", 20)], ir_version=9)


@pytest.mark.parametrize("known", [True, False], ids=["constant", "given"])
@pytest.mark.parametrize("operator", TAKEN)
def test_inputs(operator: str, known: bool) -> None:
    places = TAKEN[operator]
    names = [f"n{i}" if i in places else "x" if i == 0 else "" for i in range(max(places) + 1)]
    lists = [f"n{i}" for i in places]
    constants = {name: np.ones(MANY, np.int64) for name in lists} if known else {}
    node = oh.make_node(operator.removesuffix("Axes"), names, ["y"])
    with pytest.raises(ResourceLimit, match="20,000 numbers"):
        convert.inspect(_model(node, [2, 3, 4, 4], constants, [] if known else lists))


@pytest.mark.parametrize("operator", LISTS)
def test_attributes(operator: str) -> None:
    names = ["x", "x"] if operator == "CenterCropPad" else ["x"]
    with pytest.raises(ResourceLimit, match="20,000 numbers"):
        convert.inspect(_model(oh.make_node(operator, names, ["y"], **LISTS[operator]), [2, 3, 4, 4], {}, []))


def test_tensors() -> None:
    node = oh.make_node("Neg", ["x"], ["y"])
    with pytest.raises(ResourceLimit, match="300 dims"):
        convert.inspect(_model(node, [1] * 300, {}, []))
    assert convert.inspect(_model(node, [1] * 8, {}, [])).operators == {"Neg": 1}
