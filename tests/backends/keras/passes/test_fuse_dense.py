"""A product with a constant matrix and the bias added to it become one layer; integers stay exact."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import convert
from tests.support.run_targets import run_target

onnxruntime = pytest.importorskip("onnxruntime")
keras = pytest.importorskip("keras", reason="the Keras backend writes with Keras")


@pytest.mark.parametrize("dtype", ["float", "double", "int32", "int64"])
def test_bias(dtype: str, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 17]> g ({dtype}[N, 2] x) => ({dtype}[N, 2] y)
        <{dtype}[2, 2] w = {{30003, 3, 5, -7}}, {dtype}[2] b = {{1, 2}}> {{ h = MatMul (x, w) y = Add (h, b) }}"""
    )
    element = onnx.helper.tensor_dtype_to_np_dtype(model.graph.input[0].type.tensor_type.elem_type)
    x = np.array([[30001, 7], [-30001, 32767]]).astype(element)
    path = tmp_path / "m.keras"
    convert.convert(model, "keras", path, verify=False)
    (want,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    got = run_target("keras", path, [{"x": x}])[0]["y"]
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=2.0**-22 if dtype == "float" else 0)
    layers = [type(layer).__name__ for layer in keras.saving.load_model(path).layers]
    assert ("Dense" in layers) == (dtype in ("float", "double"))
