"""Operators that only move elements, on arrays of integers and of objects, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from convert.graph.movements import MOVEMENTS, move

X = np.arange(24).reshape(2, 3, 4)


def _ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


ROWS: list[tuple[str, list[np.ndarray | None], dict[str, Any]]] = [
    ("Concat", [X, X[:1] + 100], {"axis": 0}),
    ("Concat", [X, X[..., :2], X], {"axis": -1}),
    ("Expand", [X[:, :1], _ints(5, 2, 3, 1)], {}),
    ("Flatten", [X], {"axis": 2}),
    ("Flatten", [X], {"axis": -1}),
    ("Flatten", [X], {"axis": 0}),
    ("Gather", [X, np.array(-1)], {"axis": 1}),
    ("Gather", [X, _ints(2, 0).reshape(2, 1)], {"axis": 2}),
    ("Identity", [X], {}),
    ("Reshape", [X, _ints(0, -1)], {}),
    ("Reshape", [X[:, :0], _ints(0, 2, 4)], {"allowzero": 1}),
    ("Slice", [X, _ints(1), _ints(2**31 - 1)], {}),
    ("Slice", [X, _ints(-1, 3), _ints(-(2**31), 0), _ints(1, 2), _ints(-1, -2)], {}),
    ("Slice", [X, _ints(-3), _ints(-1), _ints(-1)], {}),
    ("Slice", [X, _ints(-9), _ints(-9), _ints(2), _ints(-1)], {}),
    ("Split", [X, _ints(1, 3)], {"axis": 2}),
    ("Split", [X], {"axis": -1, "num_outputs": 3}),
    ("Squeeze", [X[:, :1]], {}),
    ("Squeeze", [X[:1, :1], _ints(-2)], {}),
    ("Tile", [X, _ints(1, 2, 3)], {}),
    ("Transpose", [X], {}),
    ("Transpose", [X], {"perm": [2, 0, 1]}),
    ("Unsqueeze", [X, _ints(0, -1)], {}),
]


def _expected(operator: str, inputs: list[np.ndarray | None], attributes: dict[str, Any], count: int) -> list[Any]:
    names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
    outputs = [f"y{i}" for i in range(count)]
    node = onnx.helper.make_node(operator, names, outputs, **attributes)
    kind = onnx.TensorProto.INT64
    graph = onnx.helper.make_graph(
        [node],
        "moved",
        [onnx.helper.make_tensor_value_info(n, kind, None) for n in names if n],
        [onnx.helper.make_tensor_value_info(n, kind, None) for n in outputs],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    return onnxruntime.InferenceSession(model.SerializeToString()).run(
        None, {n: x for n, x in zip(names, inputs, strict=True) if n}
    )


@pytest.mark.parametrize("row", range(len(ROWS)))
def test_elements_move_as_in_onnx(row: int) -> None:
    operator, inputs, attributes = ROWS[row]
    got = move(operator, *inputs, **attributes)
    want = _expected(operator, inputs, attributes, len(got))
    data = len(inputs) if operator == "Concat" else 1
    names = [None if x is None else x.astype(str).astype(object) for x in inputs[:data]]
    for a, b, c in zip(got, want, move(operator, *names, *inputs[data:], **attributes), strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(c, b.astype(str).astype(object))


def test_every_movement_has_a_row() -> None:
    assert {operator for operator, *_ in ROWS} == set(MOVEMENTS)
