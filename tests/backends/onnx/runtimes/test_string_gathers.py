"""onnxruntime gathers whole rows of strings; its own Gather loses all but the first string of each row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from convert.backends import onnx as backend
from onnx import TensorProto, helper

from convert.outcome.report import Report
from convert.request.options import Options
from tests.support.onnx_support import info, model, read, session

WORDS = np.array([f"word {i}" for i in range(24)], object).reshape(2, 3, 4)


@pytest.mark.parametrize("dtype", [np.int64, np.int32])
@pytest.mark.parametrize(("axis", "indices"), [(0, 1), (0, [1, 0, -1]), (1, [[2, 0]]), (-2, -1), (2, [3, 0])], ids=str)
def test_rows_are_gathered_whole(axis: int, indices: object, dtype: type, tmp_path: Path) -> None:
    places = np.array(indices, dtype)
    node = helper.make_node("Gather", ["x", "places"], ["y"], axis=axis)
    ends = (
        info("x", ["n", 3, 4], TensorProto.STRING),
        info("places", places.shape, helper.np_dtype_to_tensor_dtype(places.dtype)),
    )
    proto = model([node], list(ends), [info("y", [None] * (2 + places.ndim), TensorProto.STRING)], opset=20)
    backend.write(read(proto), tmp_path / "m.onnx", "onnx", Options(extra={"opset": 20}), Report("test"))
    (got,) = session(tmp_path / "m.onnx").run(None, {"x": WORDS, "places": places})
    np.testing.assert_array_equal(got, np.take(WORDS, places, axis))
    operators = [n.op_type for n in onnx.load(tmp_path / "m.onnx").graph.node]
    assert ("Gather" in operators) == (axis == 2)
