"""LabelEncoder in TensorFlow, in cases that ONNX's node tests do not cover, against onnxruntime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

pytest.importorskip("tensorflow", reason="TensorFlow runs the artefacts")

import convert
from tests.support.onnx_support import array, info, run_ort
from tests.support.run_targets import run_target


@pytest.mark.parametrize(("keys", "values"), [(np.int64, np.float32), (np.int64, np.int64), (np.float32, np.float32)])
def test_a_label_without_a_key_is_the_default_of_its_dtype(keys: type, values: type, tmp_path: Path) -> None:
    """The default is −0 for floats and −1 for integers if values are a tensor without a default (LabelEncoder-4)."""
    node = helper.make_node(
        "LabelEncoder",
        ["x"],
        ["y"],
        domain="ai.onnx.ml",
        keys_tensor=array("k", [1, 2, 3], keys),
        values_tensor=array("v", [4, 6, 8], values),
    )
    kinds = [helper.np_dtype_to_tensor_dtype(np.dtype(dtype)) for dtype in (keys, values)]
    graph = helper.make_graph([node], "g", [info("x", [4], kinds[0])], [info("y", [4], kinds[1])])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 4)]
    proto = helper.make_model(graph, opset_imports=imports, ir_version=8)
    feed = {"x": np.array([1, 3, 7, 2], keys)}
    convert.convert(proto, "tf", tmp_path / "m.savedmodel", verify=False)
    (found,) = run_target("tf", tmp_path / "m.savedmodel", [feed])
    np.testing.assert_array_equal(found["y"], run_ort(proto, feed)[0], strict=True)


@pytest.mark.parametrize("opset", [3, 4])
def test_a_key_of_nan_is_found_since_opset_4(opset: int, tmp_path: Path) -> None:
    node = helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", keys_floats=[1.0, float("nan"), 2.0],
                            values_int64s=[7, 9, 8], default_int64=-5)  # fmt: skip
    graph = helper.make_graph([node], "g", [info("x", [4])], [info("y", [4], 7)])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", opset)]
    proto = helper.make_model(graph, opset_imports=imports, ir_version=8)
    feed = {"x": np.array([1, np.nan, 7, 2], np.float32)}
    convert.convert(proto, "tf", tmp_path / "m.savedmodel", verify=False)
    (found,) = run_target("tf", tmp_path / "m.savedmodel", [feed])
    np.testing.assert_array_equal(found["y"], run_ort(proto, feed)[0], strict=True)
    assert (found["y"] == 9).any() == (opset == 4)
